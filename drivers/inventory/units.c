/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which devices the list has after a scan: new ones, changed ones, and those that have
 * disappeared but stay listed. Merging happens in two passes. The first pairs old units with found
 * devices and allocates what is new, so that it can fail without effect. The second changes units;
 * it fails only for single units, which the next scan repairs. Units are also saved here for the
 * next configuration or process, which begins with them.
 */
#include "drivers/inventory/units.h"

#include "common/log.h"
#include "drivers/health/saved-device.h"
#include "drivers/host/sysroot.h"
#include "drivers/inventory/list-size.h"
#include "drivers/inventory/needs.h"

struct pair_of {
	struct unit *unit;
	struct device *device; /* NULL: removed */
	bool is_new;
};

/* Whether a complete scan has not found the device, while the kubelet had booked it. */
static bool was_missing(const struct unit_list *list, const char *id)
{
	for (size_t i = 0; list->scanned && i < list->n_placeholders; i++)
		if (offered_id_is_of(list->placeholders[i]->device->id, id) &&
			unit_has_pod(list->placeholders[i]) && !list->placeholders[i]->excluded)
			return true;
	return false;
}

int unit_new(struct unit_list *list, struct device *device, size_t index, struct unit **ret)
{
	const struct saved_unit *saved = saved_state_find(list->saved, device->id);
	_cleanup_(unit_freep) struct unit *unit = NULL;
	int r;

	unit = calloc(1, sizeof(*unit));
	if (!unit)
		return -ENOMEM;
	unit->owner = list->owner;
	unit->list = list;
	unit->device = device_ref(device);
	unit->present = true;
	unit->healthy = true;
	unit->since = list->now;
	unit->replicas = declaration_replicas(list->declaration, device->id);
	unit->cordon = declaration_cordon(list->declaration, device->id);
	unit->in_use = bookings_have_unit(list->all_booked, device->id, BOOKED_ALONE);
	if (saved && saved->assigned)
		device_note_assigned(device);
	unit->lost = saved ? saved->lost : was_missing(list, device->id);
	if (list->health) {
		r = health_unit_new(list->health, device, index, saved, unit, &unit->health);
		if (r < 0)
			return r;
	}
	r = unit_take_dirty(unit);
	if (r >= 0)
		r = unit_evaluate(unit);
	if (r < 0)
		return r;
	unit->changes = saved ? saved->changes + (saved->healthy != unit->healthy) : 0;
	if (saved && saved->healthy == unit->healthy)
		unit->since = saved->since;
	*ret = TAKE_PTR(unit);
	return 0;
}

static void forget_excluded(struct unit_list *list)
{
	for (size_t i = 0; i < list->n_excluded; i++)
		(void)device_unref(list->excluded[i]);
	free(list->excluded);
	list->excluded = NULL;
	list->n_excluded = 0;
}

/* Applies the declaration's keys that are common to all drivers. The scan is sorted. */
static int filter(struct unit_list *list, struct scan *scan)
{
	const struct declaration *declaration = list->declaration;
	size_t kept = 0;

	forget_excluded(list);
	list->excluded = calloc(scan->n_devices + 1, sizeof(list->excluded[0]));
	if (!list->excluded)
		return -ENOMEM;
	for (size_t i = 0; i < scan->n_devices; i++) {
		struct device *device = scan->devices[i];

		if (!declaration->topology)
			device->n_numa = 0;
		if (declaration_leaves_out(declaration, device)) {
			(void)map_remove(&scan->by_id, device->id);
			list->excluded[list->n_excluded++] = device;
			continue;
		}
		scan->devices[kept++] = device;
	}
	scan->n_devices = kept;
	return 0;
}

static uint64_t device_size(const struct unit_list *list, const struct device *device)
{
	return device_list_unit_size(strlen(device->id), declaration_is_shared(list->declaration),
		declaration_replicas(list->declaration, device->id), device->numa, device->n_numa);
}

/* Booked devices are listed in any case. Most of them are found, so only the others count. */
static uint64_t placeholders_size(const struct unit_list *list)
{
	uint64_t size = 0;

	for (size_t i = 0; i < list->n_placeholders; i++) {
		const struct device *device = list->placeholders[i]->device;

		size += device_list_entry_size(strlen(device->id), device->numa, device->n_numa);
	}
	return size;
}

static int check_size(
	const struct unit_list *list, const struct scan *scan, bool *ret_drop, struct error *error)
{
	uint64_t found = 0, gone = 0;

	/* DRA has no list: devices are published in slices. */
	if (list->declaration->serve == SERVE_DRA)
		return 0;
	for (size_t i = 0; i < scan->n_devices; i++)
		found += device_size(list, scan->devices[i]);
	for (size_t i = 0; i < list->n_units; i++)
		if (!map_get(&scan->by_id, list->units[i]->device->id))
			gone += device_size(list, list->units[i]->device);
	*ret_drop = gone > 0 &&
		device_list_check(scan->n_devices, found + gone + placeholders_size(list), error) <
			0;
	return device_list_check(scan->n_devices, found, error);
}

static int check_claims(const struct scan *scan, struct error *error)
{
	size_t n = 0;

	for (size_t i = 0; i < scan->n_devices; i++)
		n += device_count_claims(scan->devices[i]);
	if (n > CLAIMS_MAX)
		return error_set(error, -ENOSPC,
			"the %zu devices found have %zu device nodes and addresses, the limit for all resources together is %d: match fewer devices",
			scan->n_devices, n, CLAIMS_MAX);
	return 0;
}

static void forget_new(struct pair_of *pairs, size_t n)
{
	while (n-- > 0)
		if (pairs[n].is_new)
			(void)unit_free(pairs[n].unit);
}

/* Whether the kubelet never had the unit: it belongs to another resource, or its owner is not known
 * yet. One that a pod has was offered by an earlier process. */
static bool is_not_offered(const struct unit *unit)
{
	return unit->owner_name ||
		(unit->awaits_owner && !unit->booked && !device_was_assigned(unit->device));
}

/* Pairs both sorted lists. Returns how many pairs, or -ENOMEM; new units are marked. */
static ssize_t pair_up(struct unit_list *list, struct scan *scan, bool drop, struct pair_of *pairs)
{
	_cleanup_needs_ struct needs needs = { .declaration = list->declaration, .scan = scan };
	size_t i = 0, k = 0, n = 0;
	int order, r;

	while (i < list->n_units || k < scan->n_devices) {
		if (i == list->n_units)
			order = 1;
		else if (k == scan->n_devices)
			order = -1;
		else
			order = strcmp(list->units[i]->device->id, scan->devices[k]->id);
		if (order < 0 && (drop || is_not_offered(list->units[i]))) {
			i++;
			continue;
		}
		pairs[n] = (struct pair_of){ .is_new = order > 0 };
		if (order <= 0)
			pairs[n].unit = list->units[i++];
		r = 0;
		if (order >= 0) {
			pairs[n].device = scan->devices[k++];
			r = needs_check(&needs, pairs[n].device, n);
		}
		if (order > 0 && r >= 0)
			r = unit_new(list, pairs[n].device, n, &pairs[n].unit);
		if (r < 0) {
			forget_new(pairs, n);
			return r;
		}
		n++;
	}
	return (ssize_t)n;
}

/* Whether a unit that the scan did not find is in a container. */
static bool is_away(const struct unit *unit, const char *root)
{
	const char *anchor = unit->device->anchor;
	struct stat st;

	return unit->present && device_was_assigned(unit->device) &&
		(!anchor || sysroot_stat(root, anchor, &st) >= 0);
}

/* Whether the device has another node in the place of one of its own that it had: a container keeps
 * the old one. */
static bool has_lost_node(const struct device *old, const struct device *new)
{
	for (size_t i = 0; i < old->n_nodes; i++) {
		const struct device_node *node = &old->nodes[i];

		if (!node->mount && !node->optional && !node->shared &&
			!device_has_node(new, node->host))
			return true;
	}
	return false;
}

/* Brings an old unit up to date. Returns whether anything changed. */
static bool apply(const struct pair_of *pair, const struct scan *scan, size_t index)
{
	struct unit *unit = pair->unit;
	bool changed = false, was_away;

	if (pair->device) {
		changed = !device_equal(unit->device, pair->device);
		unit->lost |=
			changed && unit_has_pod(unit) && has_lost_node(unit->device, pair->device);
		/* A device that was away, or removed, is in no container any more. */
		if (unit->present && !unit->away && device_was_assigned(unit->device))
			device_note_assigned(pair->device);
		if (changed || unit->away || !unit->present) {
			(void)device_unref(unit->device);
			unit->device = device_ref(pair->device);
		}
	}
	was_away = unit->away;
	unit->away = !pair->device && is_away(unit, scan->root);
	if (unit->present && !was_away && !pair->device)
		unit->gone_since = now_usec(CLOCK_MONOTONIC);
	if (pair->device || unit->away)
		unit_forget_loss(unit);
	else
		unit_describe_loss(unit, scan);
	unit->present = pair->device || unit->away;
	unit->undecided = !unit->present && scan->incomplete && !unit_is_removed(unit, scan);
	changed = changed || unit->away != was_away;
	/* Where memory is short the unit is as it was; the next scan tries again. */
	if (unit->health)
		(void)health_unit_update(unit->health, unit->present ? unit->device : NULL, index);
	return unit_evaluate(unit) > 0 || changed;
}

/* Frees the units that pair_up() left out. Returns how many. */
static size_t forget_gone(struct unit_list *list, const struct scan *scan, bool drop)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n_units; i++)
		if ((drop || is_not_offered(list->units[i])) &&
			!map_get(&scan->by_id, list->units[i]->device->id)) {
			(void)unit_free(list->units[i]);
			n++;
		}
	if (drop)
		log_full(LOG_NOTICE, &(struct log_fields){ .resource = list->declaration->name },
			"removed %zu device%s that no scan found any more, because the list was too long for the kubelet",
			n, n == 1 ? "" : "s");
	return n;
}

int unit_list_merge(struct unit_list *list, struct scan *scan, struct error *error)
{
	_cleanup_free_ struct pair_of *pairs = NULL;
	struct unit **units;
	bool drop = false, changed;
	ssize_t n;
	int r;

	list->now = now_usec(CLOCK_REALTIME);
	scan_sort(scan);
	r = filter(list, scan);
	if (r < 0)
		return error_set(error, r, "out of memory");
	r = check_size(list, scan, &drop, error);
	if (r >= 0)
		r = check_claims(scan, error);
	if (r < 0)
		return r;
	pairs = calloc(list->n_units + scan->n_devices + 1, sizeof(*pairs));
	units = calloc(list->n_units + scan->n_devices + 1, sizeof(*units));
	n = pairs && units ? pair_up(list, scan, drop, pairs) : -ENOMEM;
	if (n < 0) {
		free(units);
		return error_set(error, (int)n, "out of memory");
	}

	changed = forget_gone(list, scan, drop) > 0;
	for (size_t i = 0; i < (size_t)n; i++) {
		units[i] = pairs[i].unit;
		changed = (pairs[i].is_new || apply(&pairs[i], scan, i)) || changed;
	}
	free(list->units);
	list->units = units;
	list->n_units = (size_t)n;
	/* Excluded devices may appear and disappear too. Without memory, the next snapshot contains
	 * the change. */
	return (list->all_booked && unit_list_apply_bookings(list) > 0) || changed;
}

int unit_list_inherit_gone(struct unit_list *list, const struct unit_list *previous)
{
	assert(list->n_units == 0 && !list->units);
	list->now = now_usec(CLOCK_REALTIME);

	list->units = calloc(previous->n_units + 1, sizeof(list->units[0]));
	if (!list->units)
		return -ENOMEM;
	for (size_t i = 0; i < previous->n_units; i++) {
		const struct unit *old = previous->units[i];
		struct unit **unit = &list->units[list->n_units];
		int r;

		/* The next scan may find that a container has taken the device along, or that the
		 * host needs it. */
		if ((old->present && !device_was_assigned(old->device)) ||
			declaration_leaves_out(list->declaration, old->device))
			continue;
		r = unit_new(list, old->device, list->n_units, unit);
		if (r < 0)
			return r;
		list->n_units++;
		(*unit)->present = old->present;
		(*unit)->away = old->away;
		(*unit)->undecided = old->undecided;
		(*unit)->gone_since = old->gone_since;
		(*unit)->loss = old->loss ? strdup(old->loss) : NULL;
		if ((*unit)->health && !old->present)
			(void)health_unit_update((*unit)->health, NULL, list->n_units - 1);
		r = unit_evaluate(*unit);
		if (r < 0)
			return r;
		(*unit)->since = old->since;
		(*unit)->changes = old->changes;
	}
	return unit_list_apply_bookings(list) < 0 ? -ENOMEM : 0;
}

static int compare_units(const void *a, const void *b)
{
	const struct unit *const *x = a, *const *y = b;

	return strcmp((*x)->device->id, (*y)->device->id);
}

int unit_list_restore_assigned(struct unit_list *list)
{
	assert(list->n_units == 0 && !list->units);
	list->now = now_usec(CLOCK_REALTIME);

	if (!list->saved)
		return 0;
	list->units = calloc(list->saved->n_units + 1, sizeof(list->units[0]));
	if (!list->units)
		return -ENOMEM;
	for (size_t i = 0; i < list->saved->n_units; i++) {
		struct device *device = list->saved->units[i]->device;
		struct unit **unit = &list->units[list->n_units];
		int r;

		if (!device || declaration_excludes(list->declaration, device))
			continue;
		r = unit_new(list, device, list->n_units, unit);
		if (r < 0)
			return r;
		list->n_units++;
	}
	qsort(list->units, list->n_units, sizeof(list->units[0]), compare_units);
	return 0;
}

/* Copies nothing. `results` has room for a result of each probe. */
static struct saved_unit describe(const struct unit *unit, struct saved_result *results)
{
	struct saved_unit saved = {
		.id = unit->device->id,
		.healthy = unit->healthy,
		.since = unit->since,
		.changes = unit->changes,
		.assigned = device_was_assigned(unit->device),
		.lost = unit->lost,
		.results = results,
	};

	/* It cannot be scanned again. */
	if (saved.assigned && unit->present && saved_device_is_plain(unit->device))
		saved.device = unit->device;
	if (unit->health)
		saved.n_results = health_unit_results(unit->health, results);
	return saved;
}

/* Passes on the state of each unit, and the earlier saved state of devices that no scan has found
 * yet. */
static int save_each(const struct unit_list *list,
	int (*save)(void *userdata, const struct saved_unit *unit), void *userdata)
{
	const size_t n = list->declaration->health.count;
	/* If two units have a result, the result of the last one stays. */
	_cleanup_free_ struct saved_result *results = calloc(2 * n + 1, sizeof(*results));
	int r = results ? 0 : -ENOMEM;

	for (size_t i = 0; i < list->n_units && r >= 0; i++) {
		struct saved_unit unit;

		if (i + 16 < list->n_units) {
			__builtin_prefetch(list->units[i + 16]);
			__builtin_prefetch(list->units[i + 8]->health);
		}
		unit = describe(list->units[i], results + i % 2 * n);
		r = save(userdata, &unit);
	}
	for (size_t i = 0; list->saved && i < list->saved->n_units && r >= 0; i++)
		if (!unit_list_find(list, list->saved->units[i]->id, NULL))
			r = save(userdata, list->saved->units[i]);
	return r;
}

static int copy_unit(void *userdata, const struct saved_unit *unit)
{
	return saved_state_add_copy(userdata, unit);
}

int unit_list_save(const struct unit_list *list, struct saved_state **ret)
{
	_cleanup_saved_state_ struct saved_state *saved = NULL;
	int r;

	r = saved_state_new(&saved);
	if (r >= 0)
		r = save_each(list, copy_unit, saved);
	if (r < 0)
		return r;
	saved->allocations = bookings_ref(list->allocations);
	*ret = TAKE_PTR(saved);
	return 0;
}

static int write_unit(void *userdata, const struct saved_unit *unit)
{
	return saved_state_write_unit(userdata, unit);
}

int unit_list_write(const struct unit_list *list, uint64_t match_fingerprint, int fd)
{
	struct saved_state_writer writer;
	int r;

	r = saved_state_write_begin(&writer, fd, match_fingerprint);
	if (r >= 0)
		r = save_each(list, write_unit, &writer);
	return r < 0 ? r : saved_state_write_end(&writer, list->allocations);
}

void unit_list_done(struct unit_list *list)
{
	for (size_t i = 0; i < list->n_units; i++)
		(void)unit_free(list->units[i]);
	free(list->units);
	list->units = NULL;
	list->n_units = 0;
	unit_list_booked_done(list);
	forget_excluded(list);
	list->saved = saved_state_free(list->saved);
	free(list->dirty);
	list->dirty = NULL;
}
