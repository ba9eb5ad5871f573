/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a PCI function can be assigned with VFIO. The kernel gives user space an IOMMU
 * group as a whole, or not at all while one of the kernel's own drivers is bound to a member
 * (Documentation/driver-api/vfio.rst). The driver that is in the way is named here, because the
 * only error that VFIO returns to the container is "Operation not permitted".
 */
#include "drivers/host/sysroot.h"
#include "drivers/model/form.h"
#include "drivers/pci/pci.h"

#define GROUPS "/sys/kernel/iommu_groups"

struct group {
	char name[NAME_MAX + 1]; /* "" if there is none */
	bool no_iommu;
	/* Functions that are not bridges, without the one in question. */
	size_t n_others;
	char other[NAME_MAX + 1];      /* the first of them */
	char in_the_way[NAME_MAX + 1]; /* member bound to a driver of the kernel's; "" if none */
	char its_driver[NAME_MAX + 1];
};

/* vfio-pci and its variants (mlx5_vfio_pci, qat_vfio_pci, ...), and a virtual function that
 * NVIDIA's driver has made a virtual GPU of. */
static bool is_vfio(struct pci_scan *pci, const char *directory, const char *driver)
{
	return strstr(driver, "vfio") || pci_read_vgpu_type(pci, directory) > 0;
}

/* Drivers that leave a member alone, or that must stay on a bridge. */
static bool is_harmless(const char *driver)
{
	return !*driver || streq(driver, "pci-stub") || streq(driver, "pcieport");
}

static int read_member(struct pci_scan *pci, const struct pci_function *function,
	const char *member, struct group *group)
{
	char directory[sizeof(GROUPS) + 2 * NAME_MAX + 16], driver[NAME_MAX + 1];
	bool is_bridge;
	int64_t class;
	int r;

	(void)snprintf(directory, sizeof(directory), GROUPS "/%s/devices/%s", group->name, member);
	r = sysfs_read_number(pci->root, directory, "class", &class);
	if (sysroot_is_shortage(r))
		return r;
	is_bridge = r >= 0 && class >> 16 == PCI_CLASS_BRIDGE;
	r = pci_read_driver(pci, directory, driver);
	if (r < 0)
		return r;
	if (!group->in_the_way[0] && !is_vfio(pci, directory, driver) && !is_harmless(driver)) {
		(void)stpcpy(group->in_the_way, member);
		(void)stpcpy(group->its_driver, driver);
	}
	if (is_bridge)
		return 0;
	if (group->n_others++ == 0)
		(void)stpcpy(group->other, member);
	if (!form_is_pci_address(member))
		return 0;
	(void)snprintf(directory, sizeof(directory), PCI_DEVICES "/%s", member);
	return scan_watch(pci->scan, directory);
}

static int read_group(
	struct pci_scan *pci, const struct pci_function *function, struct group *group)
{
	_cleanup_strings_ struct strings members = { 0 };
	char directory[sizeof(GROUPS) + NAME_MAX + 16], value[SYSFS_VALUE_MAX + 1];
	int r;

	r = sysfs_read_link(pci->root, function->directory, "iommu_group", group->name);
	if (sysroot_is_shortage(r))
		return r;
	/* The kernel numbers them. */
	if (r < 0 || strspn(group->name, "0123456789") != strlen(group->name)) {
		group->name[0] = '\0';
		return 0;
	}
	(void)snprintf(directory, sizeof(directory), GROUPS "/%s", group->name);
	group->no_iommu = sysfs_read(pci->root, directory, "name", value) >= 0 &&
		streq(value, "vfio-noiommu");
	(void)strcat(directory, "/devices");
	r = sysfs_list(pci->root, directory, &members);
	if (sysroot_is_shortage(r))
		return r;
	for (size_t i = 0; r >= 0 && i < members.count; i++) {
		if (streq(members.items[i], function->address))
			continue;
		r = read_member(pci, function, members.items[i], group);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Whether two functions are in one slot, so that no other slot would separate them. */
static bool share_slot(const char *a, const char *b)
{
	return strncmp(a, b, strcspn(a, ".")) == 0;
}

/* Sets the reason that the driver of a function, of the group's member in the way or else the
 * function itself, keeps it from being assigned. */
static int set_driver_problem(struct pci_scan *pci, const struct pci_function *function,
	const struct group *group, struct device *device)
{
	char directory[sizeof(PCI_DEVICES) + NAME_MAX + 1], remedy[PCI_REMEDY_MAX];
	const char *member = group ? group->in_the_way : function->address;
	const char *driver = group ? group->its_driver : function->driver;
	int r;

	(void)snprintf(directory, sizeof(directory), PCI_DEVICES "/%s", member);
	r = pci_describe_rebinding(pci, member, directory, driver, "vfio-pci", remedy);
	if (r < 0)
		return r;
	if (group)
		return device_set_problem(device,
			"IOMMU group %.12s cannot be assigned: its member %.32s is bound to %.32s: %s%s",
			group->name, member, driver, remedy,
			share_slot(member, function->address)
				? ""
				: "; or use a slot with a group of its own");
	if (!*driver)
		return device_set_problem(
			device, "%s is bound to no driver: %s", function->address, remedy);
	return device_set_problem(device, "%s is bound to %.64s, not to vfio-pci: %s",
		function->address, driver, remedy);
}

/* Sets the reason why a function cannot be assigned, if there is one. */
static int set_problem(struct pci_scan *pci, const struct pci_match *match,
	const struct pci_function *function, const struct group *group, struct device *device)
{
	const char *address = function->address;

	if (function->has_vfs)
		return device_set_problem(device,
			"%s has virtual functions, which would be assigned with it: match them instead with role = \"vf\", or write 0 to its sriov_numvfs, which takes them from the pods that use them",
			address);
	if (!is_vfio(pci, function->directory, function->driver))
		return set_driver_problem(pci, function, NULL, device);
	if (!group->name[0])
		return device_set_problem(device,
			"%s has no IOMMU group: enable the IOMMU in the firmware and the kernel "
			"(intel_iommu=on), or VFIO without it (enable_unsafe_noiommu_mode)",
			address);
	if (group->in_the_way[0])
		return set_driver_problem(pci, function, group, device);
	if (match->iommu_group == PCI_GROUP_REFUSE && group->n_others > 0)
		return device_set_problem(device,
			"%s shares IOMMU group %.12s with %zu more (%.64s ...), which would be assigned with it: iommu_group = \"fold\" combines them into one device",
			address, group->name, group->n_others, group->other);
	return 0;
}

/* --- nodes --- */

/* Adds a node that other devices need, too, once. */
static int add_shared_node(struct device *device, const struct pci_match *match, const char *path)
{
	int r;

	if (device_has_node(device, path))
		return 0;
	r = device_add_node(device, path, NULL, match->permissions);
	if (r >= 0)
		device_share_nodes(device, device->n_nodes - 1);
	return r;
}

int pci_add_group_nodes(
	struct device *device, const struct pci_match *match, const char *group, bool no_iommu)
{
	char path[NAME_MAX + 32];
	int r;

	(void)snprintf(path, sizeof(path), "/dev/vfio/%s%s", no_iommu ? "noiommu-" : "", group);
	r = device_add_node(device, path, NULL, match->permissions);
	if (r >= 0)
		r = add_shared_node(device, match, "/dev/vfio/vfio");
	if (r >= 0)
		r = pci_add_info(device, "vfio", "/dev/vfio/vfio", path);
	return r;
}

/* The function's own node of VFIO, beside which "iommufd" is needed. */
static int add_character_device(struct pci_scan *pci, struct device *device,
	const struct pci_match *match, const struct pci_function *function)
{
	_cleanup_strings_ struct strings nodes = { 0 };
	char directory[sizeof(function->directory) + 16];
	int r;

	(void)snprintf(directory, sizeof(directory), "%s/vfio-dev", function->directory);
	r = pci_find_nodes(pci, directory, &nodes);
	if (r < 0)
		return r;
	if (nodes.count == 0)
		return device_set_lack(device,
			"%s has no node in /dev/vfio/devices: the kernel needs "
			"CONFIG_VFIO_DEVICE_CDEV, or use access = \"vfio\"",
			function->address);
	r = device_add_node(device, nodes.items[0], NULL, match->permissions);
	return r < 0 ? r : add_shared_node(device, match, "/dev/iommu");
}

/* --- whole groups and slots --- */

static struct pci_fold *find_fold(struct pci_scan *pci, const char *key)
{
	for (size_t i = 0; *key && i < pci->n_folds; i++)
		if (streq(pci->folds[i].key, key))
			return &pci->folds[i];
	return NULL;
}

/* The device claims the group, which may have functions that other resources match, or is a part of
 * it. */
static int claim_group(struct device *device, const char *group, bool whole)
{
	char claim[sizeof("iommu_group:") + NAME_MAX];

	(void)snprintf(claim, sizeof(claim), "iommu_group:%s", group);
	if (!whole)
		return device_add_container(device, claim);
	return strings_contain(&device->claims, claim) ? 0 : device_add_claim(device, claim);
}

static int add_fold(
	struct pci_scan *pci, const char *key, const char *address, struct device *device)
{
	struct pci_fold *fold;

	if (array_reserve((void **)&pci->folds, pci->n_folds, sizeof(*pci->folds)) < 0)
		return -ENOMEM;
	fold = &pci->folds[pci->n_folds++];
	*fold = (struct pci_fold){
		.key = strdup(key), .device = device, .addresses = strdup(address)
	};
	return fold->key && fold->addresses ? 0 : -ENOMEM;
}

static int extend_fold(struct pci_scan *pci, struct pci_fold *fold, const char *address)
{
	char *addresses;

	if (format_text(&addresses, "%s,%s", fold->addresses, address) < 0)
		return -ENOMEM;
	free(fold->addresses);
	fold->addresses = addresses;
	return 0;
}

/* Functions of one group are as close to each other as devices can be. */
static int add_companion(struct pci_scan *pci, const char *group, struct device *device)
{
	struct pci_companion *companion;
	char name[NAME_MAX + 32];
	int r;

	if (array_reserve((void **)&pci->companions, pci->n_companions, sizeof(*pci->companions)) <
		0)
		return -ENOMEM;
	(void)snprintf(name, sizeof(name), "IOMMU group %s", group);
	r = device_set_whole(device, name);
	for (size_t i = 0; i < pci->n_companions && r >= 0; i++) {
		companion = &pci->companions[i];
		if (streq(companion->group, group))
			r = device_add_distance(device, companion->device->id, 1);
	}
	companion = &pci->companions[pci->n_companions++];
	(void)strcpy(companion->group, group);
	companion->device = device;
	return r;
}

int pci_finish_folds(struct pci_scan *pci)
{
	int r = 0;

	for (size_t i = 0; i < pci->n_folds && r >= 0; i++)
		r = device_add_variable(pci->folds[i].device, "addresses", pci->folds[i].addresses);
	return r;
}

/* What the function shares with others of its device: "" if it is a device of its own. */
static void make_key(const struct pci_match *match, const struct pci_function *function,
	const struct group *group, char ret_key[static NAME_MAX + 1])
{
	ret_key[0] = '\0';
	if (match->iommu_group == PCI_GROUP_FOLD)
		(void)strcpy(ret_key, group->name);
	else if (match->iommu_group == PCI_GROUP_SLOT)
		(void)snprintf(ret_key, NAME_MAX + 1, "%.*s", (int)strcspn(function->address, "."),
			function->address);
}

/* Makes the device that the function is, or the first function of. Returns as pci_add_device(). */
static int start_device(struct pci_scan *pci, const struct pci_match *match,
	const struct pci_function *function, const struct group *group, const char *key,
	struct device **ret_device)
{
	struct device *device;
	int r;

	r = pci_add_device(pci, function->address, function->directory, function, &device);
	if (r <= 0)
		return r;
	r = *key ? add_fold(pci, key, function->address, device)
		 : device_add_variable(device, "addresses", function->address);
	if (r >= 0 && group->name[0] && match->iommu_group == PCI_GROUP_TOGETHER)
		r = add_companion(pci, group->name, device);
	if (r >= 0 && group->name[0])
		r = device_add_variable(device, "iommu_group", group->name);
	if (r < 0)
		return r;
	*ret_device = device;
	return 1;
}

/* Adds the group of one of the device's functions, unless the device has it. */
static int add_group(const struct pci_match *match, const struct group *group, const char *key,
	struct device *device)
{
	size_t n_claims = device->claims.count;
	int r = claim_group(device, group->name, *key);

	if (r < 0 || match->access != PCI_VFIO || (*key && device->claims.count == n_claims))
		return r;
	return pci_add_group_nodes(device, match, group->name, group->no_iommu);
}

int pci_list_vfio(
	struct pci_scan *pci, const struct pci_match *match, const struct pci_function *function)
{
	struct group group = { 0 };
	char key[NAME_MAX + 1];
	struct pci_fold *known;
	struct device *device;
	int r;

	r = read_group(pci, function, &group);
	if (r < 0)
		return r;
	make_key(match, function, &group, key);
	known = find_fold(pci, key);
	if (known) {
		device = known->device;
		r = extend_fold(pci, known, function->address);
		if (r >= 0)
			r = device_add_pci_claim(device, function->address);
	} else {
		r = start_device(pci, match, function, &group, key, &device);
		if (r <= 0)
			return r;
	}
	if (r >= 0 && group.name[0])
		r = add_group(match, &group, key, device);
	if (r >= 0)
		r = set_problem(pci, match, function, &group, device);
	/* Without a group, it has no node. */
	device->lacks_node = device->lacks_node || !group.name[0];
	if (r >= 0 && match->access == PCI_VFIO_CDEV)
		r = add_character_device(pci, device, match, function);
	return r < 0 ? r : pci_add_network_info(device, function, NULL, NULL);
}
