/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which of the devices that a driver finds are left out by `exclude`. An entry of `exclude`
 * is a `match` of its own: the driver lists what it finds, and devices with the same ids are
 * dropped. Both lists read the same host, so the watches of the first serve both. Entries that find
 * nothing, or apply to no device, are explained here, where everything is known of a scan.
 */
#include "drivers/inventory/listing.h"

#include "drivers/host/sysfs-locked.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/driver.h"
#include "drivers/model/template.h"

/* Whether an earlier entry took candidates of the same kind. */
static bool takes_earlier(const struct scan *listed, size_t entry)
{
	for (size_t i = 0; i < entry && entry < listed->n_tallies; i++)
		if (listed->tallies[i].matched > 0 &&
			listed->tallies[i].conditions == listed->tallies[entry].conditions)
			return true;
	return false;
}

/* Why an entry has no candidate on the host. */
static void explain_none(const struct scan *listed, const char *place, size_t entry,
	const struct tally *tally, const char *noun, struct scan *scan)
{
	struct stat st;

	if (*scan->root && sysroot_is_absent(sysroot_stat(scan->root, "/sys", &st)))
		scan_explain(scan,
			"%smatch[%zu]: host_root %s has no /sys, so no %s is known: mount it from the host",
			place, entry, scan->root, noun);
	else if (!*tally->hint && takes_earlier(listed, entry))
		scan_explain(scan, "%smatch[%zu]%s: no earlier entry leaves a %s", place, entry,
			tally->part, noun);
	else
		scan_explain(scan, "%smatch[%zu]%s: the host has no %s%s%s", place, entry,
			tally->part, noun, *tally->hint ? ": " : "", tally->hint);
}

/* Why each entry of `match` that finds nothing does so; `place` is in front of "match". */
static void explain_entries(const struct declaration *declaration, const struct scan *listed,
	const char *place, struct scan *scan)
{
	for (size_t i = 0; i < declaration->match.count; i++) {
		struct tally none = { 0 };
		const struct tally *tally = i < listed->n_tallies ? &listed->tallies[i] : &none;
		const char *noun =
			tally->conditions ? tally->conditions->noun : declaration->driver->noun;
		char text[640];

		if (tally->matched > 0)
			continue;
		if (tally->candidates > 0) {
			tally_describe(tally, text, sizeof(text));
			scan_explain(scan, "%smatch[%zu]%s: %s", place, i, tally->part, text);
		} else if (noun) {
			explain_none(listed, place, i, tally, noun, scan);
		} else if (*tally->hint) {
			scan_explain(scan, "%smatch[%zu]: %s", place, i, tally->hint);
		}
	}
}

static void drop_found(struct scan *scan, const struct scan *excluded)
{
	size_t kept = 0;

	for (size_t i = 0; i < scan->n_devices; i++) {
		struct device *device = scan->devices[i];

		if (map_get(&excluded->by_id, device->id)) {
			(void)map_remove(&scan->by_id, device->id);
			(void)device_unref(device);
			continue;
		}
		scan->devices[kept++] = device;
	}
	scan->n_devices = kept;
}

static int exclude_selected(
	const struct declaration *declaration, size_t index, struct scan *scan, struct error *error)
{
	const struct exclusion *exclusion = groups_get(&declaration->exclude, index);
	struct declaration selected = *declaration;
	_cleanup_scan_ struct scan excluded = {
		.root = scan->root,
		.state = scan->state,
		.lists = scan->lists,
		.userdata = scan->userdata,
	};
	unsigned refusals = sysfs_locked_refusals();
	char place[48];
	size_t n_found;
	int r;

	if (exclusion->match.count == 0)
		return 0;
	selected.match = exclusion->match;
	r = declaration->driver->list(&selected, &excluded, error);
	/* A device must not be offered while it is unknown whether it is excluded. */
	if (r >= 0 && sysfs_locked_refusals() != refusals)
		r = error_set(error, -EBUSY, "the kernel has locked an attribute of a device");
	if (r < 0) {
		error_prefix(error, "exclude");
		return r;
	}
	n_found = scan->n_devices;
	drop_found(scan, &excluded);
	(void)snprintf(place, sizeof(place), "exclude[%zu]", index);
	if (excluded.n_devices > 0 && scan->n_devices == n_found)
		scan_explain(scan, "%s leaves out no device: `match` finds none of its %zu", place,
			excluded.n_devices);
	(void)strcat(place, ".");
	explain_entries(&selected, &excluded, place, scan);
	return 0;
}

/* --- entries of other keys that apply to no device --- */

/* Writes the id that is most like the pattern, as `: there is "ID"`; empty if none is. */
static void find_like(const struct scan *scan, char *pattern, char *ret_hint, size_t size)
{
	*ret_hint = '\0';
	for (size_t i = 0; i < scan->n_devices && !*ret_hint; i++)
		if (patterns_nearly_match(&(struct strings){ &pattern, 1 }, scan->devices[i]->id))
			(void)snprintf(ret_hint, size, ": there is \"%s\"", scan->devices[i]->id);
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
				"health[%zu]: host_root %s has no %s, so there is no file in it and each device counts as healthy: mount it from the host",
				i, scan->root, directory);
	}
}

/* Explains entries of `exclude`, `cordon` and `share` that apply to no device. To be called only if
 * there is a device, because one file may be for many hosts. */
static void explain_rules(const struct declaration *declaration, struct scan *scan)
{
	for (size_t i = 0; i < declaration->exclude.count; i++) {
		const struct exclusion *exclusion = groups_get(&declaration->exclude, i);

		if (exclusion->match.count == 0)
			explain_exclusion(exclusion, i, scan);
	}
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

int list_devices(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	int r;

	r = declaration->driver->list(declaration, scan, error);
	if (r >= 0)
		explain_entries(declaration, scan, "", scan);
	if (r >= 0 && scan->n_devices > 0)
		explain_rules(declaration, scan);
	if (r >= 0 && scan->n_devices > 0 && *scan->root)
		explain_probes(declaration, scan);
	for (size_t i = 0; i < declaration->exclude.count && r >= 0; i++)
		r = exclude_selected(declaration, i, scan, error);
	return r;
}
