/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one network function from /sys/bus (Documentation/ABI/testing/sysfs-bus-pci: physfn,
 * virtfnN; sysfs-class-net: type). Attributes that cannot be read count as missing;
 * only a function's class and ids are required, and what is locked now must be read later.
 */
#include "drivers/net/net-function.h"

#include "drivers/host/function-interfaces.h"
#include "drivers/host/sysroot.h"

#define CLASS_NETWORK 0x02

void net_function_done(struct net_function *function)
{
	free(function->name);
	free(function->directory);
	strings_done(&function->interfaces);
	strings_done(&function->representors);
	strings_done(&function->pf_interfaces);
	strings_done(&function->infiniband);
	*function = (struct net_function){ 0 };
}

static void reader_forget(struct function_reader *reader)
{
	reader->pf_address[0] = '\0';
	strings_done(&reader->vfs);
	strings_done(&reader->pf_interfaces);
	strings_done(&reader->pf_representors);
}

void function_reader_done(struct function_reader *reader)
{
	reader_forget(reader);
}

/* Names in a subdirectory; without one there are none. */
static int list_below(
	const char *root, const char *directory, const char *name, struct strings *names)
{
	_cleanup_strings_ struct strings found = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	r = format_text(&path, "%s/%s", directory, name);
	if (r < 0)
		return r;
	r = sysfs_list(root, path, &found);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	return strings_add_all(names, &found);
}

/* Makes the reader read the physical function of that address. */
static int reader_turn_to(struct function_reader *reader, const char *address)
{
	_cleanup_free_ char *directory = NULL;
	int r;

	if (streq(reader->pf_address, address))
		return 0;
	reader_forget(reader);
	r = format_text(&directory, FUNCTION_PCI "/%s", address);
	if (r < 0)
		return r;
	r = sysfs_list_vfs(reader->root, directory, &reader->vfs);
	if (r >= 0)
		r = function_interfaces_list(
			reader->root, directory, &reader->pf_interfaces, &reader->pf_representors);
	if (r < 0)
		return r;
	reader->pf_has_interfaces = r > 0;
	(void)strcpy(reader->pf_address, address);
	return 0;
}

static int64_t vf_number(const struct function_reader *reader, const char *address)
{
	for (size_t i = 0; i < reader->vfs.count; i++)
		if (streq(reader->vfs.items[i], address))
			return (int64_t)i;
	return -1;
}

/* Reads the function's own values. `directory` is the directory of the PCI function. */
static int read_pci(
	struct function_reader *reader, const char *directory, struct net_function *function)
{
	char pf[NAME_MAX + 1];
	int64_t class;
	int r;

	r = sysfs_read_number(reader->root, directory, "class", &class);
	if (r < 0)
		return r;
	if (class >> 16 != CLASS_NETWORK)
		return -ENODEV;
	r = sysfs_read_number(reader->root, directory, "vendor", &function->vendor);
	if (r >= 0)
		r = sysfs_read_number(reader->root, directory, "device", &function->device);
	if (r < 0)
		return r;
	(void)strcpy(function->pf_address, function->address);
	r = sysfs_read_link(reader->root, directory, "physfn", pf);
	if (sysroot_is_shortage(r))
		return r;
	if (r >= 0 && form_is_pci_address(pf)) {
		function->is_vf = true;
		(void)stpcpy(function->pf_address, pf);
	}
	return reader_turn_to(reader, function->pf_address);
}

/* "mlx5_core.sf.4": the second part is the kind of device. */
static bool is_subfunction(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot && startswith(dot, ".sf.");
}

static int read_subfunction(struct function_reader *reader, struct net_function *function)
{
	_cleanup_free_ char *parent = NULL;
	int r;

	r = sysfs_pci_address(reader->root, function->directory, function->address);
	if (r < 0)
		return r;
	r = format_text(&parent, FUNCTION_PCI "/%s", function->address);
	if (r >= 0)
		r = read_pci(reader, parent, function);
	if (r < 0)
		return r;
	if (sysfs_read_number(reader->root, function->directory, "sfnum", &function->number) < 0)
		function->number = -1;
	return 0;
}

/* Reads the interfaces of a function, which may belong to a physical one. */
static int read_interfaces(
	const struct function_reader *reader, bool has_physical, struct net_function *function)
{
	int r;

	if (has_physical) {
		r = function_interfaces_list(
			reader->root, function->directory, &function->interfaces, NULL);
		function->is_elsewhere = r > 0 && function->interfaces.count == 0;
		return r;
	}
	r = strings_add_all(&function->interfaces, &reader->pf_interfaces);
	if (r >= 0)
		r = strings_add_all(&function->representors, &reader->pf_representors);
	function->is_elsewhere = reader->pf_has_interfaces && function->interfaces.count == 0;
	return r;
}

int net_function_read(
	struct function_reader *reader, const char *bus, const char *name, struct net_function *ret)
{
	_cleanup_net_function_ struct net_function function = { .root = reader->root,
		.number = -1 };
	_cleanup_free_ char *path = NULL;
	bool auxiliary = streq(bus, FUNCTION_AUXILIARY);
	int r;

	if (auxiliary ? !is_subfunction(name) : !form_is_pci_address(name))
		return -ENODEV;
	r = format_text(&path, "%s/%s", bus, name);
	if (r < 0)
		return r;
	r = sysfs_resolve(reader->root, path, &function.directory);
	if (r < 0)
		return r;
	function.name = strdup(name);
	if (!function.name)
		return -ENOMEM;
	if (auxiliary)
		r = read_subfunction(reader, &function);
	else {
		(void)stpcpy(function.address, name);
		r = read_pci(reader, function.directory, &function);
		if (r >= 0 && function.is_vf)
			function.number = vf_number(reader, name);
		function.has_vfs = r >= 0 && !function.is_vf && reader->vfs.count > 0;
	}
	if (r < 0)
		return r;
	r = sysfs_read_link(reader->root, function.directory, "driver", function.driver);
	if (sysroot_is_shortage(r))
		return r;
	if (r < 0)
		function.driver[0] = '\0';
	r = read_interfaces(reader, auxiliary || function.is_vf, &function);
	if (r >= 0)
		r = list_below(
			reader->root, function.directory, "infiniband", &function.infiniband);
	if (r >= 0)
		r = strings_add_all(&function.pf_interfaces, &reader->pf_interfaces);
	if (r < 0)
		return r;
	*ret = function;
	function = (struct net_function){ 0 };
	return 0;
}

/* Sets a variable to the names that one of the patterns matches, or to all if none does, with
 * commas between them. The container gets the function as a whole, with each of them. */
static int add_names(struct device *device, const char *variable, const struct strings *names,
	const struct strings *patterns)
{
	_cleanup_fclose_ FILE *stream = NULL;
	_cleanup_free_ char *joined = NULL;
	const char *separator = "";
	bool any = false;
	size_t size;

	stream = open_memstream(&joined, &size);
	if (!stream)
		return -ENOMEM;
	for (size_t i = 0; i < names->count; i++)
		any = any || patterns_match(patterns, names->items[i]);
	for (size_t i = 0; i < names->count; i++) {
		if (any && !patterns_match(patterns, names->items[i]))
			continue;
		(void)fprintf(stream, "%s%s", separator, names->items[i]);
		separator = ",";
	}
	if (fclose(TAKE_PTR(stream)) != 0)
		return -ENOMEM;
	return device_add_variable(device, variable, joined);
}

int net_interface_describe(const char *root, const char *directory, struct device *device)
{
	char address[SYSFS_VALUE_MAX + 1] = "";
	int r = directory ? sysfs_read(root, directory, "address", address) : 0;

	if (sysroot_is_shortage(r))
		return r;
	return device_add_variable(device, "mac", r < 0 ? "" : address);
}

static int add_mac(const char *root, const struct net_function *function, struct device *device)
{
	_cleanup_free_ char *directory = NULL;

	if (function->interfaces.count == 1 &&
		format_text(&directory, "/sys/class/net/%s", function->interfaces.items[0]) < 0)
		return -ENOMEM;
	return net_interface_describe(root, directory, device);
}

int net_function_describe(const char *root, const struct net_function *function,
	const struct function_match *match, struct device *device)
{
	static const struct strings any = { 0 };
	bool is_sf = !form_is_pci_address(function->name);
	char number[24] = "";
	const struct {
		const char *name, *value;
	} variables[] = {
		{ "driver", function->driver },
		{ "pf", function->pf_address },
		{ "vf", is_sf ? "" : number },
		{ "sf", is_sf ? number : "" },
	};
	int r;

	if (function->number >= 0)
		(void)snprintf(number, sizeof(number), "%lld", (long long)function->number);
	r = sysfs_describe(root, function->directory, device);
	for (size_t i = 0; i < ARRAY_SIZE(variables) && r >= 0; i++)
		r = device_add_variable(device, variables[i].name, variables[i].value);
	if (r >= 0)
		r = add_names(device, "interface", &function->interfaces, &match->interface);
	if (r >= 0)
		r = add_mac(root, function, device);
	if (r >= 0)
		r = add_names(device, "pf_interface", &function->pf_interfaces, &match->pf);
	return r < 0 ? r : add_names(device, "rdma", &function->infiniband, &any);
}
