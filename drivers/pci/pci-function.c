/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which entry of `match` selects a PCI function, and reads the required attributes from
 * sysfs. A host may have thousands of functions and a resource selects a few, so attributes are
 * read one after the other, until no entry can match the function.
 */
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

static const struct {
	const char *file;
	size_t value, wanted; /* in struct pci_function and struct pci_match */
} numbers[] = {
	{ "vendor", offsetof(struct pci_function, vendor), offsetof(struct pci_match, vendor) },
	{ "device", offsetof(struct pci_function, device), offsetof(struct pci_match, device) },
	{ "subsystem_vendor", offsetof(struct pci_function, subsystem_vendor),
		offsetof(struct pci_match, subsystem_vendor) },
	{ "subsystem_device", offsetof(struct pci_function, subsystem_device),
		offsetof(struct pci_match, subsystem_device) },
};

static int64_t *number_of(struct pci_function *function, size_t index)
{
	return (int64_t *)(void *)((char *)function + numbers[index].value);
}

/* Whether the entry accepts the first `n` numbers. */
static bool admits_numbers(const struct pci_match *match, struct pci_function *function, size_t n,
	const struct pci_mdev *mdev)
{
	if ((match->access == PCI_MDEV) != (mdev != NULL) ||
		!patterns_match(&match->address, function->address))
		return false;
	for (size_t i = 0; i < n; i++) {
		const char *wanted = (const char *)match + numbers[i].wanted;

		if (!integers_admit((const void *)wanted, *number_of(function, i)))
			return false;
	}
	return true;
}

static bool any_admits_numbers(const struct pci_scan *pci, struct pci_function *function, size_t n,
	const struct pci_mdev *mdev)
{
	for (size_t i = 0; i < pci->declaration->match.count; i++)
		if (admits_numbers(groups_get(&pci->declaration->match, i), function, n, mdev))
			return true;
	return false;
}

/* Reads a number that every function has (`needed`) or some have. Returns 1, 0 if it has none, or
 * negative errno. */
static int read_number(struct pci_scan *pci, struct pci_function *function, const char *file,
	bool needed, int64_t *ret)
{
	int r = sysfs_read_number(pci->root, function->directory, file, ret);

	if (r >= 0)
		return 1;
	if (sysroot_is_shortage(r))
		return r;
	if (needed && !sysroot_is_absent(r) && r != -ENODEV)
		scan_note(pci->scan, "%s/%s cannot be read, the function is left out: %s",
			function->directory, file, strerror(-r));
	return 0;
}

/* Reads the numbers for as long as an entry may admit the function. As read_number(). */
static int read_numbers(
	struct pci_scan *pci, struct pci_function *function, const struct pci_mdev *mdev)
{
	int r;

	if (!any_admits_numbers(pci, function, 0, mdev))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		bool needed = i < 2; /* old kernels have no subsystem of a bridge */

		*number_of(function, i) = -1;
		r = read_number(pci, function, numbers[i].file, needed, number_of(function, i));
		if (r < 0 || (r == 0 && needed))
			return r;
		if (!any_admits_numbers(pci, function, i + 1, mdev))
			return 0;
	}
	return read_number(pci, function, "class", true, &function->class);
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

/* Takes the numbers from the links virtfn0, virtfn1, ... of a physical function, once. */
static int learn_numbers(struct pci_scan *pci, const char *pf)
{
	char directory[sizeof(PCI_DEVICES) + PCI_ADDRESS_SIZE], target[NAME_MAX + 1];
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	if (map_get(&pci->vf_numbers, pf))
		return 0;
	r = keep_number(pci, pf, 0);
	if (r < 0)
		return r;
	(void)stpcpy(stpcpy(directory, PCI_DEVICES "/"), pf);
	r = sysfs_list(pci->root, directory, &names);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		const char *digits = startswith(names.items[i], "virtfn");
		char *end;
		unsigned long number;

		if (!digits || !*digits)
			continue;
		number = strtoul(digits, &end, 10);
		if (*end || number > UINT16_MAX)
			continue;
		if (sysfs_read_link(pci->root, directory, names.items[i], target) >= 0)
			r = keep_number(pci, target, number);
	}
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
	r = read_number(pci, function, "sriov_totalvfs", false, &function->total_vfs);
	function->has_vfs = r > 0 && sysfs_has_vfs(pci->root, function->directory);
	return MIN_OF(r, 0);
}

static bool admits_role(const struct pci_match *match, const struct pci_function *function)
{
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

static bool admits_type(const struct pci_match *match, const struct pci_mdev *mdev)
{
	return !mdev || patterns_match(&match->mdev_type, mdev->type) ||
		patterns_match(&match->mdev_type, mdev->name);
}

/* Whether a pattern is that of the physical function's address, or of a network interface it has.
 */
static bool admits_pf(const struct pci_scan *pci, const struct pci_match *match,
	const struct pci_function *function)
{
	char directory[sizeof(PCI_DEVICES) + PCI_ADDRESS_SIZE + 4];
	_cleanup_strings_ struct strings interfaces = { 0 };

	if (match->pf.count == 0)
		return true;
	if (!function->pf[0])
		return false;
	if (patterns_match(&match->pf, function->pf))
		return true;
	(void)snprintf(directory, sizeof(directory), PCI_DEVICES "/%s/net", function->pf);
	if (sysfs_list(pci->root, directory, &interfaces) < 0)
		return false;
	for (size_t i = 0; i < interfaces.count; i++)
		if (patterns_match(&match->pf, interfaces.items[i]))
			return true;
	return false;
}

/* Returns 1, 0 or -ENOMEM. */
static int admits(struct pci_scan *pci, const struct pci_match *match,
	struct pci_function *function, const struct pci_mdev *mdev)
{
	if (!admits_numbers(match, function, ARRAY_SIZE(numbers), mdev) ||
		!admits_class(&match->class, function->class) ||
		!patterns_match(&match->driver, function->driver) ||
		!admits_role(match, function) || !admits_type(match, mdev) ||
		!admits_pf(pci, match, function))
		return 0;
	if (match->functions &&
		(!function->pf[0] || !ranges_contain(match->functions, function->vf)))
		return 0;
	return attribute_rules_match(pci->scan, &match->attributes, function->directory);
}

int pci_function_find(struct pci_scan *pci, const char *address, const struct pci_mdev *mdev,
	struct pci_function *ret_function, const struct pci_match **ret_match)
{
	struct pci_function function = { 0 };
	int r;

	if (!form_is_pci_address(address))
		return 0;
	(void)stpcpy(function.address, address);
	(void)snprintf(function.directory, sizeof(function.directory), PCI_DEVICES "/%s", address);
	r = read_numbers(pci, &function, mdev);
	if (r <= 0)
		return r;
	/* Its driver may come or go. */
	r = scan_watch(pci->scan, function.directory);
	if (r < 0)
		return r;
	r = pci_read_driver(pci, function.directory, function.driver);
	if (r >= 0)
		r = read_virtual(pci, &function);
	if (r < 0)
		return r;
	for (size_t i = 0; i < pci->declaration->match.count; i++) {
		const struct pci_match *match = groups_get(&pci->declaration->match, i);

		r = admits(pci, match, &function, mdev);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		*ret_function = function;
		*ret_match = match;
		return 1;
	}
	return 0;
}
