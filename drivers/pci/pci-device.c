/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds to a device of driver "pci" the parts that every kind of access needs: the variables and the
 * claim of its function, the nodes below its directory, and descriptions for ${info} and for CNI
 * plugins. CNI plugins read in a file about a network function that has no interface on the host.
 */
#include <inttypes.h>
#include <jansson.h>

#include "drivers/host/nvme.h"
#include "drivers/host/sysfs-walk.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/device-info.h"
#include "drivers/model/form.h"
#include "drivers/pci/pci.h"

#define CLASS_NETWORK 0x02

static int add_containers(struct device *device, const struct pci_function *function)
{
	int r = function->pf[0] ? device_add_pci_container(device, function->pf) : 0;

	/* A mediated device is a part of its function. */
	if (r >= 0 && !form_is_pci_address(device->id))
		r = device_add_pci_container(device, function->address);
	return r;
}

int pci_add_info(struct device *device, const char *group, const char *mount, const char *dev_mount)
{
	_cleanup_free_ char *text = NULL;
	json_t *info;

	/* A NULL with "*" leaves the member out. */
	info = json_pack("{s:{s:s},s:{s:s,s:s*}}", "generic", "deviceID", device->id, group,
		"mount", mount, "dev-mount", dev_mount);
	if (info)
		text = json_dumps(info, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(info);
	return text ? device_add_variable(device, DEVICE_INFO, text) : -ENOMEM;
}

static int add_variables(struct device *device, const struct pci_function *function)
{
	char vendor[24], number[24], class[24], vf[24];
	const struct {
		const char *name, *value;
		bool known;
	} variables[] = {
		{ "vendor", vendor, true },
		{ "device", number, true },
		{ "class", class, true },
		{ "driver", function->driver, function->driver[0] },
		{ "pf", function->pf, function->pf[0] },
		{ "vf", vf, function->vf >= 0 },
	};
	int r = 0;

	(void)snprintf(vendor, sizeof(vendor), "0x%04" PRIx64, function->vendor);
	(void)snprintf(number, sizeof(number), "0x%04" PRIx64, function->device);
	(void)snprintf(class, sizeof(class), "0x%06" PRIx64, function->class);
	(void)snprintf(vf, sizeof(vf), "%" PRId64, function->vf);
	for (size_t i = 0; i < ARRAY_SIZE(variables) && r >= 0; i++)
		if (variables[i].known)
			r = device_add_variable(device, variables[i].name, variables[i].value);
	return r;
}

int pci_add_device(struct pci_scan *pci, const char *id, const char *directory,
	const struct pci_function *function, struct device **ret_device)
{
	struct device *device;
	int r;

	r = scan_add(pci->scan, id, &device);
	if (r == -EEXIST)
		return 0;
	if (r < 0)
		return r;
	/* If it is disappearing, the next scan does not find it. */
	r = sysfs_describe(pci->root, directory, device);
	if (sysroot_is_shortage(r))
		return r;
	r = add_variables(device, function);
	/* A mediated device is a part of its function only. */
	if (r >= 0 && form_is_pci_address(id))
		r = device_add_pci_claim(device, function->address);
	if (r >= 0)
		r = add_containers(device, function);
	if (r < 0)
		return r;
	*ret_device = device;
	return 1;
}

int64_t pci_read_vgpu_type(struct pci_scan *pci, const char *directory)
{
	int64_t type;

	return sysfs_read_number(pci->root, directory, "nvidia/current_vgpu_type", &type) < 0
		? -1
		: type;
}

int pci_describe_rebinding(struct pci_scan *pci, const char *address, const char *directory,
	const char *driver, const char *wanted, char ret_remedy[static PCI_REMEDY_MAX])
{
	char reason[HOST_USE_MAX];
	int64_t class = 0;
	int r;

	(void)sysfs_read_number(pci->root, directory, "class", &class);
	if (class >> 16 == PCI_CLASS_BRIDGE) {
		(void)strcpy(ret_remedy, "it is a bridge, which the host needs");
		return 0;
	}
	if (pci_read_vgpu_type(pci, directory) == 0) {
		(void)snprintf(ret_remedy, PCI_REMEDY_MAX,
			"it has no vGPU type: write one to " PCI_DEVICES
			"/%.32s/nvidia/current_vgpu_type",
			address);
		return 0;
	}
	r = host_use_below(&pci->use, directory, reason);
	if (r > 0)
		(void)snprintf(ret_remedy, PCI_REMEDY_MAX, "the host needs it (%s)", reason);
	else
		(void)snprintf(ret_remedy, PCI_REMEDY_MAX,
			"%srun \"driverctl set-override %.32s %.32s\"",
			*driver ? "unless the host needs it, " : "", address, wanted);
	return MIN_OF(r, 0);
}

struct search {
	const char *root;
	struct strings *nodes;
};

static int on_device(const char *directory, void *userdata)
{
	const struct search *search = userdata;
	int r;

	/* Functions behind a bridge have devices of their own. */
	if (form_is_pci_address(strrchr(directory, '/') + 1))
		return SYSFS_WALK_NOT_BELOW;
	r = nvme_read_nodes(search->root, directory, search->nodes);
	return sysroot_is_shortage(r) ? r : SYSFS_WALK_ON;
}

int pci_find_nodes(struct pci_scan *pci, const char *directory, struct strings *ret_nodes)
{
	struct search search = { .root = pci->root, .nodes = ret_nodes };
	_cleanup_free_ char *resolved = NULL;
	int r;

	r = sysfs_resolve(pci->root, directory, &resolved);
	if (r >= 0)
		r = sysfs_walk(pci->root, resolved, on_device, &search);
	if (r == -E2BIG)
		scan_note(pci->scan,
			"%s has more than %d directories below it, and only some are read",
			directory, SYSFS_WALK_MAX);
	return sysroot_is_shortage(r) ? r : 0;
}

int pci_add_network_info(struct device *device, const struct pci_function *function,
	const char *vdpa, const char *path)
{
	const struct device_info_member members[] = {
		{ "parent-device", vdpa },
		{ "driver", vdpa ? "vhost" : NULL },
		{ "path", path },
		{ "pci-address", function->address },
		{ "pf-pci-address", function->pf[0] ? function->pf : NULL },
	};

	/* The file is found by the id, which for a whole IOMMU group is one function's. */
	if (function->class >> 16 != CLASS_NETWORK || !streq(function->address, device->id))
		return 0;
	return device_set_info(device, vdpa ? "vdpa" : "pci", members, ARRAY_SIZE(members));
}
