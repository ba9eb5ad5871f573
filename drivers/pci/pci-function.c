/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which entry of `match` selects a PCI function, and reads the required attributes from
 * sysfs. A host may have thousands of functions and a resource selects a few, so an attribute is
 * read when the first condition on it is tested.
 */
#include <inttypes.h>

#include "drivers/host/function-interfaces.h"
#include "drivers/host/ranges.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/declaration.h"
#include "drivers/model/form.h"
#include "drivers/pci/pci.h"

/* Short numbers name less of the code: base class, subclass, programming interface. */
static bool admits_class(const struct integers *classes, int64_t class)
{
	for (size_t i = 0; i < classes->count; i++) {
		int64_t wanted = classes->items[i];
		unsigned missing_bits = wanted > 0xffff ? 0 : wanted > 0xff ? 8 : 16;

		if (class >> missing_bits == wanted)
			return true;
	}
	return classes->count == 0;
}

#define UNREAD (-2)

/* Reads the number in the file of the condition's name, which every function has, or that of a
 * subsystem, which a bridge of an old kernel lacks. */
static int read_number(const struct condition *condition, void *candidate)
{
	struct pci_function *function = candidate;
	struct pci_scan *pci = function->pci;
	int64_t *number = (int64_t *)(void *)((char *)candidate + condition->value);
	int r;

	if (*number != UNREAD)
		return 1;
	r = sysfs_read_number(pci->root, function->directory, condition->key, number);
	if (r >= 0)
		return 1;
	if (sysroot_is_shortage(r))
		return r;
	if (startswith(condition->key, "subsystem_")) {
		*number = -1;
		return 1;
	}
	if (!sysroot_is_absent(r) && r != -ENODEV)
		scan_note(pci->scan, "%s/%s cannot be read, the function is left out: %s",
			function->directory, condition->key, strerror(-r));
	return 0;
}

int pci_read_driver(
	struct pci_scan *pci, const char *directory, char ret_driver[static NAME_MAX + 1])
{
	int r = sysfs_read_link(pci->root, directory, "driver", ret_driver);

	if (sysroot_is_shortage(r))
		return r;
	if (r < 0)
		ret_driver[0] = '\0';
	return 0;
}

/* --- physical and virtual functions --- */

static const char *keep_address(struct pci_scan *pci, const char *address)
{
	if (strings_add(&pci->addresses, address, strlen(address)) < 0)
		return NULL;
	return pci->addresses.items[pci->addresses.count - 1];
}

static int keep_number(struct pci_scan *pci, const char *address, uintptr_t number)
{
	const char *kept = keep_address(pci, address);
	int r = kept ? map_put(&pci->vf_numbers, kept, (void *)(number + 1)) : -ENOMEM;

	return r == -EEXIST ? 0 : r;
}

/* Takes the numbers of the virtual functions of a physical function, once. */
static int learn_numbers(struct pci_scan *pci, const char *pf)
{
	char directory[sizeof(PCI_DEVICES) + PCI_ADDRESS_SIZE];
	_cleanup_strings_ struct strings vfs = { 0 };
	int r;

	if (map_get(&pci->vf_numbers, pf))
		return 0;
	(void)stpcpy(stpcpy(directory, PCI_DEVICES "/"), pf);
	r = sysfs_list_vfs(pci->root, directory, &vfs);
	if (r >= 0)
		r = keep_number(pci, pf, 0);
	for (size_t i = 0; i < vfs.count && r >= 0; i++)
		if (*vfs.items[i])
			r = keep_number(pci, vfs.items[i], i);
	return r;
}

static int read_virtual(struct pci_scan *pci, struct pci_function *function)
{
	char pf[NAME_MAX + 1];
	int r;

	function->vf = -1;
	r = sysfs_read_link(pci->root, function->directory, "physfn", pf);
	if (r >= 0 && form_is_pci_address(pf)) {
		(void)stpcpy(function->pf, pf);
		r = learn_numbers(pci, function->pf);
		if (r < 0)
			return r;
		function->vf = (int64_t)(uintptr_t)map_get(&pci->vf_numbers, function->address) - 1;
		return 0;
	}
	r = sysfs_read_number(
		pci->root, function->directory, "sriov_totalvfs", &function->total_vfs);
	function->has_vfs = r >= 0 && sysfs_has_vfs(pci->root, function->directory);
	return sysroot_is_shortage(r) ? r : 0;
}

/* --- conditions --- */

static int read_rest(const struct condition *condition, void *candidate);

static int test_class(const void *entry, void *candidate)
{
	const struct pci_match *match = entry;

	return admits_class(&match->class, ((struct pci_function *)candidate)->class);
}

static bool near_class(const void *entry, const void *candidate)
{
	const struct pci_match *match = entry;

	for (size_t i = 0; i < match->class.count; i++) {
		int64_t number = digits_as_hexadecimal(match->class.items[i]);

		if (admits_class(&(struct integers){ .items = &number, .count = 1 },
			    ((const struct pci_function *)candidate)->class))
			return true;
	}
	return false;
}

static void found_class(
	const void *entry, const void *candidate, char ret_found[static CONDITION_FOUND_MAX])
{
	(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has 0x%06" PRIx64 "%s",
		((const struct pci_function *)candidate)->class,
		near_class(entry, candidate) ? ": write 0x" : "");
}

static bool has_any_role(const void *entry)
{
	return ((const struct pci_match *)entry)->role == PCI_ROLE_ANY;
}

static int test_role(const void *entry, void *candidate)
{
	const struct pci_match *match = entry;
	const struct pci_function *function = candidate;
	bool is_vf = function->pf[0], is_pf = !is_vf && function->total_vfs > 0;

	switch (match->role) {
	case PCI_ROLE_PF:
		return is_pf;
	case PCI_ROLE_VF:
		return is_vf;
	case PCI_ROLE_PLAIN:
		return !is_pf && !is_vf;
	default:
		/* In this case, its virtual functions are the devices. */
		return !function->has_vfs || match->access == PCI_MDEV;
	}
}

static void found_role(
	const void *entry, const void *candidate, char ret_found[static CONDITION_FOUND_MAX])
{
	const struct pci_function *function = candidate;

	(void)snprintf(ret_found, CONDITION_FOUND_MAX, "%s%s",
		function->pf[0]                   ? "is a virtual function of "
			: function->has_vfs       ? "has virtual functions"
			: function->total_vfs > 0 ? "is a physical function without virtual ones"
						  : "is neither a physical nor a virtual function",
		function->pf);
}

static int test_mdev_type(const void *entry, void *candidate)
{
	const struct pci_match *match = entry;
	const struct pci_mdev *mdev = ((struct pci_function *)candidate)->mdev;

	return !mdev || patterns_match(&match->mdev_type, mdev->type) ||
		patterns_match(&match->mdev_type, mdev->name);
}

static void found_mdev_type(
	const void *entry, const void *candidate, char ret_found[static CONDITION_FOUND_MAX])
{
	const struct pci_mdev *mdev = ((const struct pci_function *)candidate)->mdev;

	(void)snprintf(
		ret_found, CONDITION_FOUND_MAX, "has \"%.64s\", \"%.64s\"", mdev->type, mdev->name);
}

/* Finds the own network interfaces of its physical function. Returns 0, -EBUSY or a shortage
 * (sysroot.h). */
static int read_pf_interfaces(const struct pci_function *function)
{
	char directory[sizeof(PCI_DEVICES) + PCI_ADDRESS_SIZE];
	_cleanup_strings_ struct strings representors = { 0 };
	struct pci_scan *pci = function->pci;
	int r;

	if (streq(pci->pf, function->pf))
		return 0;
	pci->pf[0] = '\0';
	strings_done(&pci->pf_interfaces);
	(void)snprintf(directory, sizeof(directory), PCI_DEVICES "/%s", function->pf);
	r = function_interfaces_list(pci->root, directory, &pci->pf_interfaces, &representors);
	if (r == -EBUSY)
		scan_note(pci->scan,
			"virtual functions of %s are left out: the kernel has locked its network interfaces",
			function->pf);
	if (r < 0) {
		strings_done(&pci->pf_interfaces);
		return r;
	}
	(void)stpcpy(pci->pf, function->pf);
	return 0;
}

/* Whether a pattern is that of the physical function's address, or of a network interface of its
 * own. */
static int test_pf(const void *entry, void *candidate)
{
	const struct pci_match *match = entry;
	const struct pci_function *function = candidate;
	const struct strings *interfaces = &function->pci->pf_interfaces;
	int r;

	if (match->pf.count == 0)
		return 1;
	if (!function->pf[0])
		return 0;
	if (patterns_match(&match->pf, function->pf))
		return 1;
	r = read_pf_interfaces(function);
	if (r < 0)
		return r == -EBUSY ? CONDITION_UNKNOWN : r;
	for (size_t i = 0; i < interfaces->count; i++)
		if (patterns_match(&match->pf, interfaces->items[i]))
			return CONDITION_HOLDS;
	return CONDITION_FAILS;
}

static void found_pf(
	const void *entry, const void *candidate, char ret_found[static CONDITION_FOUND_MAX])
{
	const struct pci_function *function = candidate;
	const struct strings *interfaces = &function->pci->pf_interfaces;

	if (function->pf[0])
		(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has %s%s%.64s", function->pf,
			interfaces->count > 0 ? ", interface " : "",
			interfaces->count > 0 ? interfaces->items[0] : "");
	else
		(void)strcpy(ret_found, "is not a virtual function");
}

static int test_functions(const void *entry, void *candidate)
{
	const struct pci_match *match = entry;
	const struct pci_function *function = candidate;

	return !match->functions ||
		(function->pf[0] && ranges_contain(match->functions, function->vf));
}

static void found_functions(
	const void *entry, const void *candidate, char ret_found[static CONDITION_FOUND_MAX])
{
	const struct pci_function *function = candidate;

	if (function->pf[0])
		(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has number %" PRId64, function->vf);
	else
		(void)strcpy(ret_found, "is not a virtual function");
}

static int test_attributes(const void *entry, void *candidate)
{
	const struct pci_match *match = entry;
	const struct pci_function *function = candidate;

	return attribute_rules_match(function->pci->scan, &match->attributes, function->directory);
}

static void found_attributes(
	const void *entry, const void *candidate, char ret_found[static CONDITION_FOUND_MAX])
{
	const struct pci_match *match = entry;
	const struct pci_function *function = candidate;

	attribute_rules_describe(
		function->pci->scan, &match->attributes, function->directory, ret_found);
}

static bool near_attributes(const void *entry, const void *candidate)
{
	const struct pci_match *match = entry;
	const struct pci_function *function = candidate;

	return attribute_rules_near(function->pci->scan, &match->attributes, function->directory);
}

#define NUMBER(name)                                                                             \
	{                                                                                        \
		CONDITION_OF_INTEGERS(#name, struct pci_match, name, struct pci_function, name), \
			.read = read_number                                                      \
	}

static const struct condition conditions[] = {
	{ CONDITION_OF_TEXT("address", struct pci_match, address, struct pci_function, address) },
	NUMBER(vendor),
	NUMBER(device),
	NUMBER(subsystem_vendor),
	NUMBER(subsystem_device),
	{ .key = "class",
		.value = offsetof(struct pci_function, class),
		.read = read_number,
		.test = test_class,
		.found = found_class,
		.near = near_class },
	{ .read = read_rest },
	{ CONDITION_OF_TEXT("driver", struct pci_match, driver, struct pci_function, driver) },
	{ .key = "role", .test = test_role, .found = found_role, .is_default = has_any_role },
	{ .key = "mdev_type", .test = test_mdev_type, .found = found_mdev_type },
	{ .key = "pf", .test = test_pf, .found = found_pf },
	{ .key = "functions", .test = test_functions, .found = found_functions },
	{ .key = "attributes",
		.test = test_attributes,
		.found = found_attributes,
		.near = near_attributes },
};

static bool is_for_mdev(const void *entry)
{
	return ((const struct pci_match *)entry)->access == PCI_MDEV;
}

static bool is_for_function(const void *entry)
{
	return !is_for_mdev(entry);
}

const struct conditions pci_conditions =
	CONDITIONS_FOR("PCI function", conditions, is_for_function);
const struct conditions pci_mdev_conditions =
	CONDITIONS_FOR("mediated device", conditions, is_for_mdev);

/* Reads the values that every device needs and that no condition has read. */
static int read_rest(const struct condition *condition, void *candidate)
{
	struct pci_function *function = candidate;
	struct pci_scan *pci = function->pci;
	int r;

	if (function->is_complete)
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(conditions); i++)
		if (conditions[i].read == read_number) {
			r = read_number(&conditions[i], candidate);
			if (r <= 0)
				return r;
		}
	/* Its driver may come or go. */
	r = scan_watch(pci->scan, function->directory);
	if (r >= 0)
		r = pci_read_driver(pci, function->directory, function->driver);
	if (r >= 0)
		r = read_virtual(pci, function);
	function->is_complete = r >= 0;
	return r < 0 ? r : 1;
}

int pci_function_find(struct pci_scan *pci, const char *address, const struct pci_mdev *mdev,
	struct pci_function *ret_function, const struct pci_match **ret_match)
{
	const struct conditions *asked = mdev ? &pci_mdev_conditions : &pci_conditions;
	const char *name = mdev ? strrchr(mdev->directory, '/') + 1 : address;
	struct pci_function function = { .pci = pci,
		.mdev = mdev,
		.vendor = UNREAD,
		.device = UNREAD,
		.class = UNREAD,
		.subsystem_vendor = UNREAD,
		.subsystem_device = UNREAD };

	if (!form_is_pci_address(address))
		return 0;
	(void)stpcpy(function.address, address);
	(void)snprintf(function.directory, sizeof(function.directory), PCI_DEVICES "/%s", address);
	for (size_t i = 0; i < pci->declaration->match.count; i++) {
		const struct pci_match *match = groups_get(&pci->declaration->match, i);
		int r;

		if (!asked->is_for(match))
			continue;
		r = conditions_hold(asked, match, &function, name, scan_tally(pci->scan, i, asked));
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		r = scan_excludes(pci->scan, pci->declaration, asked, &function, name, name);
		if (r != 0)
			return MIN_OF(r, 0);
		*ret_function = function;
		*ret_match = match;
		return 1;
	}
	return 0;
}
