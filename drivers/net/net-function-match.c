/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a network function meets the conditions of an entry, and whether the conditions
 * are consistent.
 */
#include <fnmatch.h>
#include <linux/if_arp.h>

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

	return first && first > value && last > first + 1 && last[1] &&
		!last[1 + strspn(last + 1, "0123456789")];
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

static bool pf_matches(const struct strings *patterns, const struct net_function *function)
{
	if (patterns_match(patterns, function->pf_address))
		return true;
	for (size_t i = 0; i < function->pf_interfaces.count; i++)
		if (patterns_match(patterns, function->pf_interfaces.items[i]))
			return true;
	return false;
}

static bool any_interface_matches(
	const struct function_match *match, const char *root, const struct net_function *function)
{
	if (match->interface.count == 0 && match->kind.count == 0)
		return true;
	for (size_t i = 0; i < function->interfaces.count; i++) {
		char directory[64];
		const char *kind;

		if (!patterns_match(&match->interface, function->interfaces.items[i]))
			continue;
		if (match->kind.count == 0)
			return true;
		(void)snprintf(directory, sizeof(directory), "/sys/class/net/%.20s",
			function->interfaces.items[i]);
		kind = interface_kind(root, directory);
		if (kind && patterns_match(&match->kind, kind))
			return true;
	}
	return false;
}

bool net_function_matches(
	const char *root, const struct net_function *function, const struct function_match *match)
{
	if (match->role == ROLE_ANY ? function->has_vfs
				    : function->is_vf != (match->role == ROLE_VF))
		return false;
	return integers_admit(&match->vendor, function->vendor) &&
		integers_admit(&match->device, function->device) &&
		patterns_match(&match->driver, function->driver) &&
		patterns_match(&match->address, function->name) &&
		pf_matches(&match->pf, function) &&
		(!match->functions || ranges_contain(match->functions, function->number)) &&
		any_interface_matches(match, root, function);
}

bool function_match_sees_interfaces(const struct function_match *match)
{
	return match->interface.count > 0 || match->kind.count > 0 || match->pf.count > 0;
}
