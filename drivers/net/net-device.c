/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a container gets of a network function in addition to its interface, which CNI
 * moves: nodes for RDMA and vhost, and the description of a device in the form of the SR-IOV plugin
 * (its README, "_INFO").
 */
#include <jansson.h>

#include "drivers/host/sysroot.h"
#include "drivers/model/device-info.h"
#include "drivers/net/net.h"

#define VHOST_NODE "/dev/vhost-net"
#define TUN_NODE   "/dev/net/tun"

static int add_vhost(const struct net_match *match, struct device *device, json_t *info)
{
	size_t first = device->n_nodes;
	int r;

	r = device_add_node(device, VHOST_NODE, NULL, match->permissions);
	if (r >= 0)
		r = device_add_node(device, TUN_NODE, NULL, match->permissions);
	if (r < 0)
		return r;
	device_share_nodes(device, first);
	return json_object_set_new(info, "vhost",
		       json_pack("{s:s, s:s}", "net-mount", VHOST_NODE, "tun-mount", TUN_NODE)) < 0
		? -ENOMEM
		: 0;
}

static int add_rdma(struct scan *scan, const struct net_match *match,
	const struct net_function *function, const struct infiniband_table *infiniband,
	struct device *device, json_t *info)
{
	_cleanup_infiniband_nodes_ struct infiniband_nodes nodes = { 0 };
	json_t *rdma;
	int r;

	r = infiniband_add_nodes(
		scan, infiniband, &function->infiniband, match->permissions, device, &nodes);
	if (r < 0)
		return r;
	rdma = json_pack("{s:s}", "rdma_dev", function->infiniband.items[0]);
	for (size_t i = 0; i < INFINIBAND_UCM && r >= 0; i++)
		if (nodes.paths[i] &&
			json_object_set_new(
				rdma, infiniband_node_names[i], json_string(nodes.paths[i])) < 0)
			r = -ENOMEM;
	if (json_object_set_new(info, "rdma", rdma) < 0)
		r = -ENOMEM;
	return r;
}

/* Drivers that pass a function to user space, so that no interface is made of it. */
static bool gives_away(const char *driver)
{
	return strstr(driver, "vfio") || strstr(driver, "uio") || streq(driver, "pci-stub");
}

static int set_problem(const struct net_function *function, struct device *device)
{
	if (!*function->driver)
		return device_set_lack(device,
			"%s is bound to no driver: load the module of its driver, or bind it",
			function->name);
	if (gives_away(function->driver))
		return device_set_lack(device,
			"%s is bound to %.64s, not to a driver of network interfaces: driver = "
			"\"pci\" offers such functions, with access = \"vfio\" or \"uio\"",
			function->name, function->driver);
	if (function->is_elsewhere)
		return device_set_absence(device,
			"the interface of %s is in another network namespace, but no pod uses the "
			"device: end the container or service that has it, or move it back",
			function->name);
	return 0;
}

/* Describes the device for ${info}. */
static int add_info(struct device *device, const json_t *info)
{
	char *text = json_dumps(info, JSON_COMPACT | JSON_SORT_KEYS);
	int r = text ? device_add_variable(device, DEVICE_INFO, text) : -ENOMEM;

	free(text);
	return r;
}

/* "pci:0000:3b:02.1", "auxiliary:mlx5_core.sf.4", "net:eth0" */
static int add_claim(struct device *device, const char *bus, const char *name)
{
	char *claim;
	int r;

	if (format_text(&claim, "%s:%s", bus, name) < 0)
		return -ENOMEM;
	r = device_add_claim(device, claim);
	free(claim);
	return r;
}

static int add_claims(struct device *device, const struct net_function *function)
{
	const struct strings *const interfaces[] = { &function->interfaces,
		&function->representors };
	bool is_pci = form_is_pci_address(function->name);
	int r;

	r = add_claim(device, is_pci ? "pci" : "auxiliary", function->name);
	if (r >= 0 && *function->pf_address && !streq(function->pf_address, function->name))
		r = device_add_pci_container(device, function->pf_address);
	for (size_t i = 0; i < ARRAY_SIZE(interfaces); i++)
		for (size_t k = 0; k < interfaces[i]->count && r >= 0; k++)
			r = add_claim(device, "net", interfaces[i]->items[k]);
	return r;
}

/* Describes the device for CNI; the specification has no type for sub-functions. */
static int add_device_information(
	const struct net_match *match, const struct net_function *function, struct device *device)
{
	const struct device_info_member members[] = {
		{ "pci-address", function->address },
		{ "vhost-net", match->vhost_net ? VHOST_NODE : NULL },
		{ "rdma-device", match->rdma ? function->infiniband.items[0] : NULL },
		{ "pf-pci-address", function->is_vf ? function->pf_address : NULL },
	};

	if (!form_is_pci_address(function->name))
		return 0;
	return device_set_info(device, "pci", members, ARRAY_SIZE(members));
}

int net_add_function(const struct net_match *match, const struct net_function *function,
	const struct infiniband_table *infiniband, struct scan *scan)
{
	char id[DEVICE_ID_MAX + 1];
	struct device *device;
	json_t *info;
	int r;

	device_id_make(function->name, id);
	r = scan_add(scan, id, &device);
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	info = json_pack("{s:{s:s}}", "generic", "deviceID", id);
	r = info ? net_function_describe(scan_root(scan), function, &match->function, device)
		 : -ENOMEM;
	if (r >= 0)
		r = set_problem(function, device);
	if (r >= 0 && match->rdma)
		r = add_rdma(scan, match, function, infiniband, device, info);
	if (r >= 0 && match->vhost_net)
		r = add_vhost(match, device, info);
	if (r >= 0)
		r = add_info(device, info);
	if (r >= 0)
		r = add_device_information(match, function, device);
	if (r >= 0)
		r = add_claims(device, function);
	/* Conditions on interfaces and RDMA devices cannot be checked while a container
	 * uses them. */
	if (r >= 0 && (match->rdma || function_match_sees_interfaces(&match->function)))
		r = device_set_mobile(device, function->directory);
	json_decref(info);
	/* If it is disappearing, the next scan does not find it. */
	return sysroot_is_shortage(r) ? r : 0;
}

int net_add_interface(const char *interface, const char *directory, struct scan *scan)
{
	_cleanup_free_ char *hardware_link = NULL, *hardware = NULL;
	static const char *const of_functions[] = { "pf", "pf_interface", "vf", "sf", "rdma" };
	const char *root = scan_root(scan);
	char id[DEVICE_ID_MAX + 1], driver[NAME_MAX + 1];
	struct device *device;
	int r;

	device_id_make(interface, id);
	r = scan_add(scan, id, &device);
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	if (format_text(&hardware_link, "%s/device", directory) < 0)
		return -ENOMEM;
	r = sysfs_resolve(root, hardware_link, &hardware);
	if (sysroot_is_shortage(r))
		return r;
	if (sysfs_read_link(root, directory, "device/driver", driver) < 0)
		driver[0] = '\0';
	r = device_set_mobile(device, hardware);
	if (r >= 0)
		r = add_claim(device, "net", interface);
	if (r >= 0)
		r = device_add_variable(device, "interface", interface);
	if (r >= 0)
		r = net_interface_describe(root, directory, device);
	if (r >= 0)
		r = device_add_variable(device, "driver", driver);
	for (size_t i = 0; i < ARRAY_SIZE(of_functions) && r >= 0; i++)
		r = device_add_variable(device, of_functions[i], "");
	if (r >= 0)
		r = sysfs_describe(root, directory, device);
	/* If it is disappearing, the next scan does not find it. */
	return sysroot_is_shortage(r) ? r : 0;
}
