/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A network function: a PCI function of class 02, or a sub-function of one on the auxiliary bus. It
 * stays in /sys when its interface is moved into a container, so conditions use the function and
 * not the interface where possible. Shared by drivers "net" and "rdma".
 */

#include "drivers/host/ranges.h"
#include "drivers/host/sysfs.h"
#include "drivers/model/condition.h"
#include "drivers/model/form.h"

#define FUNCTION_PCI       "/sys/bus/pci/devices"
#define FUNCTION_AUXILIARY "/sys/bus/auxiliary/devices"

enum function_role { ROLE_ANY, ROLE_PF, ROLE_VF };

/* The conditions of a match entry on a function; within a list any one value is enough, and every
 * key that is set must match. Begins with the origin, so an entry can begin with it. */
struct function_match {
	struct origin origin;
	struct integers vendor, device;
	struct strings driver, address, pf, interface, kind;
	char *functions; /* ranges such as "0-3,5" */
	int role;        /* enum function_role */
};

extern const char *const function_roles[];
int function_check_kind(const char *value, struct error *error);

/* "0000:3b:02.1", "mlx5_core.sf.4", or a shell pattern of one. */
int function_check_address(const char *value, struct error *error);

/* Adds the problems of an entry that concern more than one key. */
void function_match_check(const struct function_match *match, struct report *report);

/* The options of a function_match at the beginning of an entry's structure. */
/* clang-format off */
#define FUNCTION_OPTIONS                                                                           \
	{                                                                                          \
		.key = "vendor",                                                                   \
		.type = OPTION_INTEGERS,                                                           \
		.offset = offsetof(struct function_match, vendor),                                 \
		.maximum = 0xffff,                                                                 \
		.hexadecimal = true,                                                               \
		.help = "PCI vendor of the function, such as 0x8086.",                             \
	},                                                                                         \
	{                                                                                          \
		.key = "device",                                                                   \
		.type = OPTION_INTEGERS,                                                           \
		.offset = offsetof(struct function_match, device),                                 \
		.maximum = 0xffff,                                                                 \
		.hexadecimal = true,                                                               \
		.help = "PCI device number of the function, such as 0x154c.",                      \
	},                                                                                         \
	{                                                                                          \
		.key = "driver",                                                                   \
		.type = OPTION_STRINGS,                                                            \
		.offset = offsetof(struct function_match, driver),                                 \
		.help = "Driver it is bound to, such as \"mlx5_core\"; a shell pattern.",          \
	},                                                                                         \
	{                                                                                          \
		.key = "address",                                                                  \
		.type = OPTION_STRINGS,                                                            \
		.offset = offsetof(struct function_match, address),                                \
		.check = function_check_address,                                                   \
		.help = "PCI address of the function, or name of the sub-function on the "         \
			"auxiliary bus; a shell pattern.",                                         \
	},                                                                                         \
	{                                                                                          \
		.key = "pf",                                                                       \
		.type = OPTION_STRINGS,                                                            \
		.offset = offsetof(struct function_match, pf),                                     \
		.check = form_pci_address_or_name,                                                 \
		.help = "Interface or PCI address of its physical function, or its own "           \
			"if it is one; a shell pattern.",                                          \
	},                                                                                         \
	{                                                                                          \
		.key = "functions",                                                                \
		.type = OPTION_STRING,                                                             \
		.offset = offsetof(struct function_match, functions),                              \
		.check = ranges_check,                                                             \
		.help = "Only these numbers of virtual functions or sub-functions of their "       \
			"physical function, such as \"0-3,5\".",                                   \
	},                                                                                         \
	{                                                                                          \
		.key = "role",                                                                     \
		.type = OPTION_CHOICE,                                                             \
		.offset = offsetof(struct function_match, role),                                   \
		.choices = function_roles,                                                         \
		.help = "Physical or virtual function; \"any\" leaves out physical functions "     \
			"that have virtual ones.",                                                 \
	},                                                                                         \
	{                                                                                          \
		.key = "interface",                                                                \
		.type = OPTION_STRINGS,                                                            \
		.offset = offsetof(struct function_match, interface),                              \
		.help = "Name of its network interface; a shell pattern.",                         \
	},                                                                                         \
	{                                                                                          \
		.key = "kind",                                                                     \
		.type = OPTION_STRINGS,                                                            \
		.offset = offsetof(struct function_match, kind),                                   \
		.check = function_check_kind,                                                      \
		.help = "Link type of its interface: \"ether\", \"infiniband\", "                  \
			"\"can\", \"ieee802154\" or \"none\".",                                    \
	}

#define FUNCTION_VARIABLES                                                                         \
	{ .name = "interface",                                                                     \
		.help = "Name of the interface, empty while it is in a container. A function "     \
			"with several has those that `interface` matches, separated by commas." }, \
	{ .name = "mac",                                                                           \
		.help = "Hardware address of the interface, as it was when the interface was on "  \
			"the host; empty if the function has several." },                          \
	{ .name = "driver",                                                                        \
		.help = "Driver that the device is bound to, empty if none.",                      \
		.permanent = true },                                                               \
	{ .name = "pf",                                                                            \
		.help = "PCI address of the physical function, empty if there is none.",           \
		.permanent = true },                                                               \
	{ .name = "pf_interface",                                                                  \
		.help = "Interface of the physical function, empty if it is not on the host. "     \
			"If it has several, those that `pf` matches, separated by commas." },      \
	{ .name = "vf",                                                                            \
		.help = "Number of the virtual function, empty if it is not one.",                 \
		.permanent = true },                                                               \
	{ .name = "sf",                                                                            \
		.help = "Number of the sub-function, empty if it is not one.",                     \
		.permanent = true },                                                               \
	{ .name = "rdma", .help = "Name of the RDMA device, empty if it has none on the host." }
/* clang-format on */

/* One function as the host shows it. */
struct net_function {
	const char *root;                  /* the reader's */
	char *name;                        /* "0000:3b:02.1", "mlx5_core.sf.4" */
	char *directory;                   /* without symbolic links */
	char address[PCI_ADDRESS_SIZE];    /* of the PCI function: itself or its parent */
	char pf_address[PCI_ADDRESS_SIZE]; /* of the physical function: itself if it is one */
	char driver[NAME_MAX + 1];         /* "" if it is bound to none */
	int64_t vendor, device;
	int64_t number; /* of the virtual function or sub-function; -1: it is none, or unknown */
	bool is_vf, has_vfs;
	struct strings interfaces;    /* its own that are in this network namespace */
	bool is_elsewhere;            /* it has interfaces, all of its own in other namespaces */
	struct strings representors;  /* of the ports of its switch, in this network namespace */
	struct strings pf_interfaces; /* the physical function's own */
	struct strings infiniband;    /* its InfiniBand devices */
};

void net_function_done(struct net_function *function);
#define _cleanup_net_function_ _cleanup_(net_function_done)

/* Reads functions one after the other and keeps the data that the functions of one physical
 * function share. */
struct function_reader {
	const char *root;
	char pf_address[PCI_ADDRESS_SIZE];
	struct strings vfs; /* addresses of its virtual functions by number, "" if unknown */
	struct strings pf_interfaces, pf_representors;
	bool pf_has_interfaces; /* perhaps in other namespaces */
};

void function_reader_done(struct function_reader *reader);
#define _cleanup_function_reader_ _cleanup_(function_reader_done)

/* Reads the entry `name` of FUNCTION_PCI or FUNCTION_AUXILIARY. Returns 0, -ENODEV if it is not a
 * network function, -ENOMEM, or the error of reading it (it may have been removed). */
int net_function_read(struct function_reader *reader, const char *bus, const char *name,
	struct net_function *ret);

/* Why a function cannot be read now. */
#define FUNCTION_LOCKED "the kernel has locked the network interfaces of its physical function"

/* The conditions of function_match, at the beginning of an entry's structure, on a net_function at
 * the beginning of a candidate's; all but `kind`. */
/* clang-format off */
#define FUNCTION_CONDITIONS                                                                        \
	{                                                                                          \
		.key = "role",                                                                     \
		.test = function_test_role,                                                        \
		.found = function_found_role,                                                      \
		.is_default = function_has_any_role,                                               \
	},                                                                                         \
	{ CONDITION_OF_INTEGERS("vendor", struct function_match, vendor,                           \
		struct net_function, vendor) },                                                    \
	{ CONDITION_OF_INTEGERS("device", struct function_match, device,                           \
		struct net_function, device) },                                                    \
	{ CONDITION_OF_TEXT("driver", struct function_match, driver,                               \
		struct net_function, driver) },                                                    \
	{ CONDITION_OF_STRING("address", struct function_match, address,                           \
		struct net_function, name) },                                                      \
	{ .key = "pf", .test = function_test_pf, .found = function_found_pf },                     \
	{ .key = "functions", .test = function_test_functions, .found = function_found_functions }, \
	{                                                                                          \
		.key = "interface",                                                                \
		.test = function_test_interface,                                                   \
		.found = function_found_interface,                                                 \
		.near = function_near_interface,                                                   \
	}
/* clang-format on */

bool function_has_any_role(const void *entry);
int function_test_role(const void *entry, void *candidate);
int function_test_pf(const void *entry, void *candidate);
int function_test_functions(const void *entry, void *candidate);
int function_test_interface(const void *entry, void *candidate);
bool function_near_interface(const void *entry, const void *candidate);
void function_found_role(const void *entry, const void *candidate, char *ret_found);
void function_found_pf(const void *entry, const void *candidate, char *ret_found);
void function_found_functions(const void *entry, const void *candidate, char *ret_found);
void function_found_interface(const void *entry, const void *candidate, char *ret_found);

/* Whether one of the interfaces that `interface` names has one of the kinds. */
int function_test_kind(const void *entry, void *candidate);
void function_found_kind(const void *entry, const void *candidate, char *ret_found);

/* Whether the entry has conditions that cannot be checked while an interface is in a container. */
bool function_match_sees_interfaces(const struct function_match *match);

/* Sets on a device the values of its function: sysfs_describe(), and the variables of
 * FUNCTION_VARIABLES, empty where there is none. Several interfaces are those that the
 * entry matched. Returns 0 or negative errno. */
int net_function_describe(const char *root, const struct net_function *function,
	const struct function_match *match, struct device *device);

/* Sets the hardware address of the interface with that directory; NULL: there is none. Returns 0 or
 * negative errno. */
int net_interface_describe(const char *root, const char *directory, struct device *device);

/* The protocol of an interface (a directory of /sys/class/net), in the words of `kind`: from
 * ARPHRD_* of <linux/if_arp.h>. NULL: unknown, or one that `kind` has no word for. */
const char *interface_kind(const char *root, const char *directory);
