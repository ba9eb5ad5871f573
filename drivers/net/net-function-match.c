/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a network function meets the conditions of an entry, and whether the conditions
 * are consistent.
 */
#include <fnmatch.h>
#include <linux/if_arp.h>

#include "common/text.h"
#include "drivers/host/glob.h"
#include "drivers/host/selector.h"
#include "drivers/net/net-function.h"

const char *const function_roles[] = {
	[ROLE_ANY] = "any", [ROLE_PF] = "pf", [ROLE_VF] = "vf", NULL
};

static const struct {
	const char *name;
	int64_t type;
} kinds[] = {
	{ "ether", ARPHRD_ETHER },
	{ "infiniband", ARPHRD_INFINIBAND },
	{ "can", ARPHRD_CAN },
	{ "ieee802154", ARPHRD_IEEE802154 },
	{ "none", ARPHRD_NONE },
};

int function_check_kind(const char *value, struct error *error)
{
	const char *names[ARRAY_SIZE(kinds)], *near;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		names[i] = kinds[i].name;
		if (streq(names[i], value))
			return 0;
	}
	near = suggest_word(value, names, ARRAY_SIZE(names));
	if (near)
		return error_set(
			error, -EINVAL, "unknown kind \"%s\", did you mean \"%s\"?", value, near);
	return error_set(error, -EINVAL,
		"unknown kind \"%s\", the kinds are: ether, infiniband, can, ieee802154, none",
		value);
}

/* "MODULE.NAME.NUMBER", as the auxiliary bus calls devices. */
static bool is_auxiliary_name(const char *value)
{
	const char *first = strchr(value, '.'), *last = strrchr(value, '.');

	return first && first > value && last > first + 1 && text_is_number(last + 1);
}

int function_check_address(const char *value, struct error *error)
{
	if (strchr(value, ':'))
		return form_pci_address(value, error);
	if (form_is_pattern(value) || is_auxiliary_name(value))
		return 0;
	return error_set(error, -EINVAL,
		"must be a PCI address, such as \"0000:3b:02.1\", the name of a sub-function, such as "
		"\"mlx5_core.sf.4\", or a pattern of one, not \"%s\"",
		value);
}

void function_match_check(const struct function_match *match, struct report *report)
{
	if (match->device.count > 0 && match->vendor.count == 0)
		(void)report_add(
			report, &match->origin, "device", "has no meaning without \"vendor\"");
}

const char *interface_kind(const char *root, const char *directory)
{
	int64_t type;

	if (sysfs_read_number(root, directory, "type", &type) < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].type == type)
			return kinds[i].name;
	return NULL;
}

/* --- conditions --- */

bool function_has_any_role(const void *entry)
{
	return ((const struct function_match *)entry)->role == ROLE_ANY;
}

/* Neither a sub-function nor RDMA in software is a physical or a virtual function. */
static bool has_role(const struct net_function *function)
{
	return form_is_pci_address(function->name);
}

int function_test_role(const void *entry, void *candidate)
{
	const struct function_match *match = entry;
	const struct net_function *function = candidate;

	if (match->role == ROLE_ANY)
		return !function->has_vfs;
	return has_role(function) && function->is_vf == (match->role == ROLE_VF);
}

void function_found_role(const void *entry, const void *candidate, char *ret_found)
{
	const struct net_function *function = candidate;

	(void)snprintf(ret_found, CONDITION_FOUND_MAX, "%s%s",
		!has_role(function)         ? "is neither a physical nor a virtual function"
			: function->is_vf   ? "is a virtual function of "
			: function->has_vfs ? "has virtual functions"
					    : "is not a virtual function",
		function->is_vf ? function->pf_address : "");
}

int function_test_pf(const void *entry, void *candidate)
{
	const struct strings *patterns = &((const struct function_match *)entry)->pf;
	const struct net_function *function = candidate;

	if (patterns_match(patterns, function->pf_address))
		return 1;
	for (size_t i = 0; i < function->pf_interfaces.count; i++)
		if (patterns_match(patterns, function->pf_interfaces.items[i]))
			return 1;
	return 0;
}

void function_found_pf(const void *entry, const void *candidate, char *ret_found)
{
	const struct net_function *function = candidate;
	const struct strings *interfaces = &function->pf_interfaces;

	(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has %s%s%.64s", function->pf_address,
		interfaces->count > 0 ? ", interface " : "",
		interfaces->count > 0 ? interfaces->items[0] : "");
}

int function_test_functions(const void *entry, void *candidate)
{
	const struct function_match *match = entry;

	return !match->functions ||
		ranges_contain(match->functions, ((struct net_function *)candidate)->number);
}

void function_found_functions(const void *entry, const void *candidate, char *ret_found)
{
	const struct net_function *function = candidate;

	if (function->number < 0)
		(void)strcpy(ret_found, "has no number");
	else
		(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has number %lld",
			(long long)function->number);
}

int function_test_interface(const void *entry, void *candidate)
{
	const struct strings *patterns = &((const struct function_match *)entry)->interface;
	const struct net_function *function = candidate;

	for (size_t i = 0; i < function->interfaces.count; i++)
		if (patterns_match(patterns, function->interfaces.items[i]))
			return 1;
	return patterns->count == 0;
}

/* The bond or bridge that an interface is a port of. */
static bool read_master(const struct net_function *function, size_t index, char *ret_master)
{
	char directory[64];

	(void)snprintf(directory, sizeof(directory), "/sys/class/net/%.20s",
		function->interfaces.items[index]);
	return sysfs_read_link(function->root, directory, "master", ret_master) >= 0;
}

bool function_near_interface(const void *entry, const void *candidate)
{
	const struct strings *patterns = &((const struct function_match *)entry)->interface;
	const struct net_function *function = candidate;
	char master[NAME_MAX + 1];

	for (size_t i = 0; i < function->interfaces.count; i++)
		if (patterns_nearly_match(patterns, function->interfaces.items[i]) ||
			(read_master(function, i, master) && patterns_match(patterns, master)))
			return true;
	return false;
}

/* What an interface is for its ports, by a directory that only such an interface has; another kind
 * of master, such as a team or a VRF, has none. */
static const struct {
	const char *directory, *phrase;
} masters[] = {
	{ "bonding", "is a bond of it" },
	{ "bridge", "is a bridge of it" },
};

static const char *master_phrase(const char *root, const char *master)
{
	for (size_t i = 0; i < ARRAY_SIZE(masters); i++) {
		_cleanup_strings_ struct strings names = { 0 };
		char directory[64];

		(void)snprintf(directory, sizeof(directory), "/sys/class/net/%.20s/%s", master,
			masters[i].directory);
		if (sysfs_list(root, directory, &names) >= 0)
			return masters[i].phrase;
	}
	return "is its master";
}

void function_found_interface(const void *entry, const void *candidate, char *ret_found)
{
	const struct net_function *function = candidate;
	char master[NAME_MAX + 1];
	const char *interface;

	if (function->interfaces.count == 0) {
		(void)strcpy(ret_found, "has none on the host");
		return;
	}
	interface = function->interfaces.items[0];
	if (read_master(function, 0, master))
		(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has %.20s: %.20s %s", interface,
			master, master_phrase(function->root, master));
	else
		(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has %.20s", interface);
}

static const char *kind_of(const struct net_function *function, size_t index)
{
	char directory[64];

	(void)snprintf(directory, sizeof(directory), "/sys/class/net/%.20s",
		function->interfaces.items[index]);
	return interface_kind(function->root, directory);
}

int function_test_kind(const void *entry, void *candidate)
{
	const struct function_match *match = entry;
	const struct net_function *function = candidate;

	for (size_t i = 0; match->kind.count > 0 && i < function->interfaces.count; i++) {
		const char *kind = patterns_match(&match->interface, function->interfaces.items[i])
			? kind_of(function, i)
			: NULL;

		if (kind && patterns_match(&match->kind, kind))
			return 1;
	}
	return match->kind.count == 0;
}

void function_found_kind(const void *entry, const void *candidate, char *ret_found)
{
	const struct net_function *function = candidate;
	const char *kind = function->interfaces.count > 0 ? kind_of(function, 0) : NULL;

	(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has %s%s", kind ?: "none",
		function->interfaces.count == 0 ? ": no interface of it is on the host" : "");
}

bool function_match_sees_interfaces(const struct function_match *match)
{
	return match->interface.count > 0 || match->kind.count > 0 || match->pf.count > 0;
}
