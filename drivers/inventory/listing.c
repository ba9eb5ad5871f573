/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains entries of the declaration that find nothing, or apply to no device, and names devices
 * that the host uses: here, everything is known of a scan.
 */
#include "drivers/inventory/listing.h"

#include <sys/sysmacros.h>

#include "common/finding.h"
#include "drivers/host/host-use.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/driver.h"
#include "drivers/model/template.h"

/* Whether an earlier entry took candidates of the same kind. */
static bool takes_earlier(const struct scan *scan, size_t entry)
{
	for (size_t i = 0; i < entry && entry < scan->n_tallies; i++)
		if (scan->tallies[i].matched > 0 &&
			scan->tallies[i].conditions == scan->tallies[entry].conditions)
			return true;
	return false;
}

/* Why an entry has no candidate on the host. */
static void explain_none(
	size_t entry, const struct tally *tally, const char *noun, struct scan *scan)
{
	struct stat st;

	if (*scan->root && sysroot_is_absent(sysroot_stat(scan->root, "/sys", &st)))
		scan_explain(scan,
			"match[%zu]: host_root %s has no /sys, so no %s is known: " REMEDY_MOUNT,
			entry, scan->root, noun);
	else if (!*tally->hint && takes_earlier(scan, entry))
		scan_explain(scan, "match[%zu]%s: no earlier entry leaves a %s", entry, tally->part,
			noun);
	else
		scan_explain(scan, "match[%zu]%s: the host has no %s%s%s", entry, tally->part, noun,
			*tally->hint ? ": " : "", tally->hint);
}

/* Why each entry of `match` that finds nothing does so. */
static void explain_entries(const struct declaration *declaration, struct scan *scan)
{
	for (size_t i = 0; i < declaration->match.count; i++) {
		struct tally none = { 0 };
		const struct tally *tally = i < scan->n_tallies ? &scan->tallies[i] : &none;
		const char *noun =
			tally->conditions ? tally->conditions->noun : declaration->driver->noun;
		char text[640];

		if (tally->matched > 0)
			continue;
		if (tally->candidates > 0) {
			tally_describe(tally, text, sizeof(text));
			scan_explain(scan, "match[%zu]%s: %u %s%s, none left: %s", i, tally->part,
				tally->candidates, noun, tally->candidates == 1 ? "" : "s", text);
		} else if (noun) {
			explain_none(i, tally, noun, scan);
		} else if (*tally->hint) {
			scan_explain(scan, "match[%zu]: %s", i, tally->hint);
		}
	}
}

/* --- entries of other keys that apply to no device --- */

/* Writes the variable of the device that is like the pattern, such as a node or an address. */
static void find_variable(
	const struct device *device, const struct strings *pattern, char *ret_hint, size_t size)
{
	for (size_t i = 0; i < device->n_variables && !*ret_hint; i++) {
		const struct device_variable *variable = &device->variables[i];

		if (patterns_nearly_match(pattern, variable->value))
			(void)snprintf(ret_hint, size, ": %s has \"%s=%.100s\"", device->id,
				variable->name, variable->value);
	}
}

/* Writes the id that is most like the pattern, as `: there is "ID"`, or else the device with such a
 * variable; empty if there is none. */
static void find_like(const struct scan *scan, char *pattern, char *ret_hint, size_t size)
{
	const struct strings wanted = { &pattern, 1 };

	*ret_hint = '\0';
	for (size_t i = 0; i < scan->n_devices && !*ret_hint; i++)
		if (patterns_nearly_match(&wanted, scan->devices[i]->id))
			(void)snprintf(ret_hint, size, ": there is \"%s\"", scan->devices[i]->id);
	for (size_t i = 0; i < scan->n_devices && !*ret_hint; i++)
		find_variable(scan->devices[i], &wanted, ret_hint, size);
}

/* Writes what a device has instead of "variable=pattern", the one that is most like it first. */
static void find_value(const struct scan *scan, const char *condition, char *ret_hint, size_t size)
{
	const char *equals = strchr(condition, '=');
	char variable[128], *pattern = equals ? (char *)equals + 1 : NULL;
	bool near = false;

	*ret_hint = '\0';
	(void)snprintf(variable, sizeof(variable), "%.*s", (int)strcspn(condition, "="), condition);
	for (size_t i = 0; pattern && i < scan->n_devices && !near; i++) {
		const char *value = device_variable(scan->devices[i], variable);

		near = value && patterns_nearly_match(&(struct strings){ &pattern, 1 }, value);
		if (value && (near || !*ret_hint))
			(void)snprintf(ret_hint, size, ": %s has \"%s=%.100s\"",
				scan->devices[i]->id, variable, value);
	}
}

static void explain_exclusion(const struct exclusion *exclusion, size_t index, struct scan *scan)
{
	char hint[320] = "";

	for (size_t i = 0; i < scan->n_devices; i++)
		if (exclusion_holds(exclusion, scan->devices[i]))
			return;
	if (exclusion->id)
		find_like(scan, exclusion->id, hint, sizeof(hint));
	else if (exclusion->where.count > 0)
		find_value(scan, exclusion->where.items[0], hint, sizeof(hint));
	scan_explain(scan, "exclude[%zu] leaves out no device%s", index, hint);
}

/* An entry of `match` in `exclude`, and what it has left out. */
static void explain_selector(
	size_t index, size_t entry, const struct tally *tally, struct scan *scan)
{
	char text[640];

	if (tally->matched > 0 && scan->n_devices == 0)
		scan_explain(scan,
			"exclude[%zu].match[%zu] leaves out %u %s%s, so that no device is left",
			index, entry, tally->matched, tally->conditions->noun,
			tally->matched == 1 ? "" : "s");
	if (tally->matched > 0 || tally->candidates == 0 || scan->n_devices == 0)
		return;
	tally_describe(tally, text, sizeof(text));
	scan_explain(scan, "exclude[%zu].match[%zu] leaves out none of %u %s%s: %s", index, entry,
		tally->candidates, tally->conditions->noun, tally->candidates == 1 ? "" : "s",
		text);
}

/* A condition of `where` that no device meets. */
static void explain_where(const struct declaration *declaration, struct scan *scan)
{
	for (size_t i = 0; i < declaration->where.count; i++) {
		const char *condition = declaration->where.items[i];
		char hint[320];
		bool holds = false;

		for (size_t k = 0; k < scan->n_devices && !holds; k++)
			holds = declaration_condition_holds(condition, scan->devices[k]);
		if (holds || scan->n_devices == 0)
			continue;
		find_value(scan, condition, hint, sizeof(hint));
		scan_explain(scan, "where: no device has \"%s\"%s", condition, hint);
	}
}

static void explain_exclusions(const struct declaration *declaration, struct scan *scan)
{
	size_t number = 0;

	for (size_t i = 0; i < declaration->exclude.count; i++) {
		const struct exclusion *exclusion = groups_get(&declaration->exclude, i);

		if (exclusion->match.count == 0 && scan->n_devices > 0)
			explain_exclusion(exclusion, i, scan);
		for (size_t k = 0; k < exclusion->match.count; k++, number++)
			if (number < scan->n_exclusions)
				explain_selector(i, k, &scan->exclusions[number], scan);
	}
}

/* A rule for devices of an id. */
static void explain_rule(char *pattern, const char *key, size_t index, struct scan *scan)
{
	char hint[320];

	for (size_t i = 0; i < scan->n_devices; i++)
		if (patterns_match(&(struct strings){ &pattern, 1 }, scan->devices[i]->id))
			return;
	find_like(scan, pattern, hint, sizeof(hint));
	scan_explain(scan, "%s[%zu] names no device%s", key, index, hint);
}

/* In a container, a directory of health files may not be mounted; then no file is ever in it. */
static void explain_probes(const struct declaration *declaration, struct scan *scan)
{
	for (size_t i = 0; i < declaration->health.count; i++) {
		const struct declared_probe *probe = groups_get(&declaration->health, i);
		_cleanup_free_ char *directory = NULL;
		const char *rest;
		struct stat st;

		if (probe->kind != PROBE_FILE || probe->missing != 1 ||
			template_prefix(probe->path, declaration->name, &directory, &rest) < 0 ||
			!strrchr(directory, '/'))
			continue;
		strrchr(directory, '/')[1] = '\0';
		if (sysroot_is_absent(sysroot_stat(scan->root, directory, &st)))
			scan_explain(scan,
				"health[%zu]: host_root %s has no %s, so there is no file in it and each device counts as healthy: " REMEDY_MOUNT,
				i, scan->root, directory);
	}
}

/* Explains entries of `cordon` and `share` that apply to no device. To be called only if there is a
 * device, because one file may be for many hosts. */
static void explain_rules(const struct declaration *declaration, struct scan *scan)
{
	for (size_t i = 0; i < declaration->cordon.count; i++) {
		const struct cordon *cordon = groups_get(&declaration->cordon, i);

		if (!cordon->set_by_command)
			explain_rule(cordon->id, "cordon", i, scan);
	}
	for (size_t i = 0; i < declaration->share.devices.count; i++) {
		const struct share_rule *rule = groups_get(&declaration->share.devices, i);

		explain_rule(rule->id, "share.devices", i, scan);
	}
}

/* --- disks that the host uses --- */

/* Whether a node of the device may be a block device, as far as the scan knows: a
 * resource may have thousands of other devices. */
static bool may_have_disk(const struct device *device)
{
	const char *subsystem = device_variable(device, "subsystem");
	const char *sysfs = device_variable(device, "sysfs");

	return (!subsystem || streq(subsystem, "block")) &&
		!(sysfs && startswith(sysfs, "/sys/dev/char/"));
}

/* Returns 1 if the host uses a disk that a container gets with the device, 0 or -ENOMEM. */
static int uses_device(
	struct host_use *use, const struct device *device, char ret_reason[static HOST_USE_MAX])
{
	for (size_t i = 0; i < device->n_nodes; i++) {
		char path[64], name[NAME_MAX + 1];
		struct stat st;
		int r;

		if (device->nodes[i].mount ||
			sysroot_stat(scan_root(use->scan), device->nodes[i].host, &st) < 0 ||
			!S_ISBLK(st.st_mode))
			continue;
		(void)snprintf(path, sizeof(path), "%u:%u", major(st.st_rdev), minor(st.st_rdev));
		r = sysfs_read_link(scan_root(use->scan), "/sys/dev/block", path, name);
		if (r >= 0)
			r = host_use_of_disk(use, name, ret_reason);
		if (r == -ENOMEM || r > 0)
			return r;
	}
	return 0;
}

/* As the driver net names interfaces that the host needs, but these disks are offered: only the
 * administrator knows whether that is meant. */
static int note_disks(struct scan *scan)
{
	_cleanup_host_use_ struct host_use use = { .scan = scan };
	char reason[HOST_USE_MAX], first[DEVICE_ID_MAX + HOST_USE_MAX + 8], more[48] = "";
	size_t n = 0;

	for (size_t i = 0; i < scan->n_devices; i++) {
		const struct device *device = scan->devices[i];
		int r = may_have_disk(device) ? uses_device(&use, device, reason) : 0;

		if (r < 0)
			return r;
		if (r > 0 && n++ == 0)
			(void)snprintf(first, sizeof(first), "%s (%s)", device->id, reason);
	}
	if (n > 1)
		(void)snprintf(more, sizeof(more), " and %zu more", n - 1);
	if (n > 0)
		scan_note(scan,
			"the host uses %s%s, which is offered to pods: unless that is meant, name it in `exclude`",
			first, more);
	return 0;
}

int list_devices(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	int r;

	r = declaration->driver->list(declaration, scan, error);
	if (r >= 0)
		explain_entries(declaration, scan);
	if (r >= 0)
		explain_where(declaration, scan);
	if (r >= 0)
		explain_exclusions(declaration, scan);
	if (r >= 0 && scan->n_devices > 0)
		explain_rules(declaration, scan);
	if (r >= 0 && scan->n_devices > 0 && *scan->root)
		explain_probes(declaration, scan);
	if (r >= 0 && note_disks(scan) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return r;
}
