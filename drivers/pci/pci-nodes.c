/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which nodes a container gets of a PCI function that keeps a kernel driver: the driver's
 * own, UIO's and vDPA's, and mediated devices, which are functions' children with VFIO nodes.
 */
#include <fnmatch.h>

#include "drivers/host/nvme.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/declaration.h"
#include "drivers/model/form.h"
#include "drivers/pci/pci.h"

static bool is_wanted(const struct pci_match *match, const char *node)
{
	for (size_t i = 0; i < match->nodes.count; i++)
		if (fnmatch(match->nodes.items[i], node, FNM_PATHNAME) == 0)
			return true;
	return match->nodes.count == 0;
}

/* Adds the device that the function alone forms. Returns as pci_add_device(). */
static int add_function(
	struct pci_scan *pci, const struct pci_function *function, struct device **ret_device)
{
	int r = pci_add_device(pci, function->address, function->directory, function, ret_device);

	if (r <= 0)
		return r;
	r = device_add_variable(*ret_device, "addresses", function->address);
	return r < 0 ? r : 1;
}

static int set_no_nodes(struct pci_scan *pci, struct device *device, const struct pci_match *match,
	const struct pci_function *function)
{
	/* The driver may make nodes of any subsystem after it is bound. */
	int r = scan_watch(pci->scan, "/dev");

	if (r < 0)
		return r;
	if (!function->driver[0])
		return device_set_lack(device,
			"%s is bound to no driver, so it has no device node: load its driver, or "
			"read the kernel's log",
			function->address);
	return device_set_lack(device, "driver %.64s of %s created no device node%s",
		function->driver, function->address,
		match->nodes.count > 0 ? " that match.nodes names" : "");
}

int pci_list_nodes(
	struct pci_scan *pci, const struct pci_match *match, const struct pci_function *function)
{
	_cleanup_strings_ struct strings nodes = { 0 };
	struct device *device;
	int r;

	r = add_function(pci, function, &device);
	if (r <= 0)
		return r;
	r = pci_find_nodes(pci, function->directory, &nodes);
	for (size_t i = 0; i < nodes.count && r >= 0; i++)
		if (is_wanted(match, nodes.items[i]))
			r = nvme_add_node(pci->scan, pci->declaration, device, nodes.items[i],
				match->permissions);
	if (r >= 0 && device->n_nodes == 0)
		r = set_no_nodes(pci, device, match, function);
	return r;
}

static int set_no_uio(
	struct pci_scan *pci, const struct pci_function *function, struct device *device)
{
	char remedy[PCI_REMEDY_MAX];
	int r = pci_describe_rebinding(pci, function->address, function->directory,
		function->driver, "uio_pci_generic", remedy);

	if (r < 0)
		return r;
	return device_set_lack(device, "%s is bound to %.32s, which creates no UIO device: %s",
		function->address, function->driver[0] ? function->driver : "no driver", remedy);
}

int pci_list_uio(
	struct pci_scan *pci, const struct pci_match *match, const struct pci_function *function)
{
	char directory[sizeof(function->directory) + 8];
	_cleanup_strings_ struct strings nodes = { 0 };
	struct device *device;
	int r;

	r = add_function(pci, function, &device);
	if (r <= 0)
		return r;
	(void)snprintf(directory, sizeof(directory), "%s/uio", function->directory);
	r = pci_find_nodes(pci, directory, &nodes);
	if (r < 0)
		return r;
	if (nodes.count == 0)
		return set_no_uio(pci, function, device);
	r = device_add_node(device, nodes.items[0], NULL, match->permissions);
	if (r >= 0)
		r = device_add_variable(device, "uio", strrchr(nodes.items[0], '/') + 1);
	if (r >= 0)
		r = pci_add_network_info(device, function, NULL, NULL);
	return r < 0 ? r : pci_add_info(device, "uio", nodes.items[0], NULL);
}

/* --- vDPA --- */

#define VHOST_DRIVER  "vhost_vdpa"
#define VIRTIO        0x1af4
#define VIRTIO_DRIVER "vp-vdpa"

/* Adds the nodes of one vDPA device of the function, or the reason why there is none. */
static int add_vdpa(struct pci_scan *pci, const struct pci_match *match,
	const struct pci_function *function, const char *name, struct device *device)
{
	char directory[sizeof(function->directory) + NAME_MAX + 1], driver[NAME_MAX + 1];
	_cleanup_strings_ struct strings nodes = { 0 };
	char reason[HOST_USE_MAX];
	int r;

	(void)snprintf(directory, sizeof(directory), "%s/%s", function->directory, name);
	r = pci_find_nodes(pci, directory, &nodes);
	for (size_t i = 0; i < nodes.count && r >= 0; i++) {
		r = device_add_node(device, nodes.items[i], NULL, match->permissions);
		if (r >= 0 && device->n_nodes == 1)
			r = pci_add_info(device, "vdpa", nodes.items[i], NULL);
		if (r >= 0 && device->n_nodes == 1)
			r = pci_add_network_info(device, function, name, nodes.items[i]);
	}
	if (r < 0 || nodes.count > 0)
		return r;
	r = pci_read_driver(pci, directory, driver);
	if (r < 0)
		return r;
	if (streq(driver, VHOST_DRIVER))
		return device_set_lack(device,
			"%.32s of %s is bound to " VHOST_DRIVER
			", which created no device node: read the kernel's log",
			name, function->address);
	r = host_use_below(&pci->use, directory, reason);
	if (r < 0)
		return r;
	if (r > 0)
		return device_set_lack(device,
			"%.32s of %s is bound to %.32s, not to " VHOST_DRIVER
			": the host needs it (%s)",
			name, function->address, driver, reason);
	return device_set_lack(device,
		"%.32s of %s is bound to %.32s, not to " VHOST_DRIVER
		": %srun \"driverctl -b vdpa set-override %.32s " VHOST_DRIVER "\"",
		name, function->address, driver[0] ? driver : "no driver",
		driver[0] ? "unless the host needs it, " : "", name);
}

int pci_list_vdpa(
	struct pci_scan *pci, const struct pci_match *match, const struct pci_function *function)
{
	_cleanup_strings_ struct strings children = { 0 };
	char remedy[PCI_REMEDY_MAX];
	struct device *device;
	bool found = false;
	int r;

	r = add_function(pci, function, &device);
	if (r <= 0)
		return r;
	r = sysfs_list_directories(pci->root, function->directory, &children);
	if (sysroot_is_shortage(r))
		return r;
	for (size_t i = 0; i < children.count; i++) {
		char directory[sizeof(function->directory) + NAME_MAX + 1], bus[NAME_MAX + 1];

		(void)snprintf(directory, sizeof(directory), "%s/%s", function->directory,
			children.items[i]);
		if (sysfs_read_link(pci->root, directory, "subsystem", bus) < 0 ||
			!streq(bus, "vdpa"))
			continue;
		found = true;
		r = add_vdpa(pci, match, function, children.items[i], device);
		if (r < 0)
			return r;
	}
	if (found)
		return 0;
	if (function->vendor == VIRTIO && !streq(function->driver, VIRTIO_DRIVER)) {
		r = pci_describe_rebinding(pci, function->address, function->directory,
			function->driver, VIRTIO_DRIVER, remedy);
		return r < 0
			? r
			: device_set_lack(device, "%s is bound to %s, not to " VIRTIO_DRIVER ": %s",
				  function->address,
				  function->driver[0] ? function->driver : "no driver", remedy);
	}
	return device_set_lack(device,
		"%s has no vDPA device: run \"vdpa dev add name vdpa-%s mgmtdev pci/%s\"",
		function->address, function->address, function->address);
}

/* --- mediated devices --- */

static int add_mdev(struct pci_scan *pci, const char *uuid, const struct pci_mdev *mdev,
	const struct pci_match *match, const struct pci_function *function)
{
	char id[DEVICE_ID_MAX + 1], group[NAME_MAX + 1];
	struct device *device;
	int r;

	device_id_make(uuid, id);
	r = pci_add_device(pci, id, mdev->directory, function, &device);
	if (r <= 0)
		return r;
	r = device_add_variable(device, "mdev_uuid", uuid);
	if (r >= 0)
		r = device_add_variable(device, "mdev_type", mdev->type);
	if (r < 0)
		return r;
	r = sysfs_read_link(pci->root, mdev->directory, "iommu_group", group);
	if (sysroot_is_shortage(r))
		return r;
	if (r < 0 || strspn(group, "0123456789") != strlen(group))
		return device_set_lack(device,
			"it has no IOMMU group: load the module that adds VFIO to %s",
			function->driver[0] ? function->driver : function->address);
	r = device_add_variable(device, "iommu_group", group);
	return r < 0 ? r : pci_add_group_nodes(device, match, group, false);
}

static int list_mdev(struct pci_scan *pci, const char *uuid)
{
	struct pci_mdev mdev = { 0 };
	const struct pci_match *match;
	struct pci_function function;
	char address[PCI_ADDRESS_SIZE];
	int r;

	(void)snprintf(mdev.directory, sizeof(mdev.directory), PCI_MDEVS "/%s", uuid);
	r = sysfs_pci_address(pci->root, mdev.directory, address);
	if (r >= 0)
		r = sysfs_read_link(pci->root, mdev.directory, "mdev_type", mdev.type);
	/* The device is on another bus, or is just being made or removed. */
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	if (sysfs_read(pci->root, mdev.directory, "mdev_type/name", mdev.name) < 0)
		mdev.name[0] = '\0';
	r = pci_function_find(pci, address, &mdev, &function, &match);
	return r <= 0 ? r : add_mdev(pci, uuid, &mdev, match, &function);
}

int pci_list_mdevs(struct pci_scan *pci)
{
	_cleanup_strings_ struct strings uuids = { 0 };
	bool wanted = false;
	int r;

	for (size_t i = 0; i < pci->declaration->match.count; i++) {
		const struct pci_match *match = groups_get(&pci->declaration->match, i);

		if (match->access != PCI_MDEV)
			continue;
		(void)scan_tally(pci->scan, i, &pci_mdev_conditions);
		wanted = true;
	}
	if (!wanted)
		return 0;
	r = sysfs_list(pci->root, PCI_MDEVS, &uuids);
	if (sysroot_is_absent(r))
		return 0;
	if (r < 0)
		return r;
	for (size_t i = 0; i < uuids.count && r >= 0; i++)
		r = list_mdev(pci, uuids.items[i]);
	return r;
}
