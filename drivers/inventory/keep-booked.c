/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how a device that the kubelet has booked stays in the list (promise P17) although it was
 * removed, excluded or changed. If a unit still offers the id, only its NUMA nodes must be kept. If
 * none does, a placeholder is listed: a unit with nothing but the id, the nodes and a reason.
 * Placeholders are computed again whenever units or bookings change, so no cause of a device's
 * removal needs a case of its own. What is booked is decided in supervisor/books/booked.c.
 *
 * A resource may have moved between the device plugin and DRA. Bookings of the other way are not
 * listed; they withhold their ids until they are free, so that no second pod gets the device.
 */
#include "drivers/inventory/units.h"

#include "common/map.h"

/* The effect of bookings on one unit. */
struct booking_effect {
	bool booked, in_use;
	unsigned withheld;
	uint64_t numa_kept;
	const char *companion; /* see struct unit */
};

static int index_of(const struct unit_list *list, const char *id, size_t length, size_t *ret)
{
	char unit_id[DEVICE_ID_MAX + 1];

	if (length > DEVICE_ID_MAX)
		return -ENOENT;
	memcpy(unit_id, id, length);
	unit_id[length] = '\0';
	return unit_list_find(list, unit_id, ret) ? 0 : -ENOENT;
}

/* Finds the unit that offers the id, in the form that the declaration gives it now. */
static int find_offering(const struct unit_list *list, const char *id, size_t *ret)
{
	size_t length = strlen(id);
	unsigned replica = 0;

	if (declaration_is_shared(list->declaration) && !offered_id_split(id, &length, &replica))
		return -ENOENT;
	if (index_of(list, id, length, ret) < 0)
		return -ENOENT;
	return replica < list->units[*ret]->replicas ? 0 : -ENOENT;
}

static uint64_t hash_of(const struct booking *booking)
{
	uint64_t hash = hash_string(booking->id);

	for (size_t i = 0; i < booking->n_numa; i++)
		hash = hash * 31 + (uint64_t)booking->numa[i];
	return hash | 1;
}

static void add_booking(
	const struct unit *unit, const struct booking *booking, struct booking_effect *effect)
{
	effect->booked = true;
	effect->in_use = effect->in_use || (booking->uses & BOOKED_ALONE);
	if (booking->n_numa > 0 &&
		!booking_has_numa(booking, unit->device->numa, unit->device->n_numa))
		effect->numa_kept = effect->numa_kept * 31 + hash_of(booking);
}

/* Returns whether it differs, or -ENOMEM. */
static int set_companion(struct unit *unit, const char *companion)
{
	char *copy = NULL;

	if (streq(companion ?: "", unit->companion ?: ""))
		return 0;
	if (companion) {
		copy = strdup(companion);
		if (!copy)
			return -ENOMEM;
	}
	free(unit->companion);
	unit->companion = copy;
	return 1;
}

/* Returns 1 if the list changes, 0 if not, or -ENOMEM. */
static int apply_effect(struct unit *unit, const struct booking_effect *effect)
{
	bool changed = unit->numa_kept != effect->numa_kept || unit->withheld != effect->withheld;
	bool was_withheld = unit_is_withheld(unit);
	bool returned = unit->lost && !effect->in_use && unit->list->kubelet_booked;
	bool matters = unit->owner_name || returned;
	int r = set_companion(unit, effect->companion);

	if (r < 0)
		return r;
	unit->numa_kept = effect->numa_kept;
	unit->withheld = effect->withheld;
	matters = matters || r > 0 || unit->device->absence || was_withheld ||
		unit_is_withheld(unit) ||
		/* Whether a pod loses it. */
		(!unit->present && unit->in_use != effect->in_use);
	if (returned || unit->booked != effect->booked || unit->in_use != effect->in_use || r > 0 ||
		was_withheld != unit_is_withheld(unit)) {
		unit->booked = effect->booked;
		unit->in_use = effect->in_use;
		unit->lost = unit->lost && !returned;
		/* One that has failed is tested when it is free. */
		r = matters || unit->health ? unit_evaluate(unit) : 0;
		changed = changed || matters || r > 0;
	}
	return r < 0 ? r : changed;
}

/* --- ids that no unit offers --- */

static int compare_excluded(const void *id, const void *element)
{
	const struct device *const *device = element;

	return strcmp(id, (*device)->id);
}

static struct device *find_excluded(const struct unit_list *list, const char *id, size_t length)
{
	char unit_id[DEVICE_ID_MAX + 1];
	struct device **found;

	if (length > DEVICE_ID_MAX || list->n_excluded == 0)
		return NULL;
	memcpy(unit_id, id, length);
	unit_id[length] = '\0';
	found = bsearch(unit_id, list->excluded, list->n_excluded, sizeof(list->excluded[0]),
		compare_excluded);
	return found ? *found : NULL;
}

/* Why no unit offers the id, and the excluded device that it stands for, or NULL. */
static const char *reason_of(
	const struct unit_list *list, const char *id, struct device **ret_excluded)
{
	size_t length = strlen(id), index;
	struct device *excluded = find_excluded(list, id, length);
	unsigned replica;

	if (!excluded && offered_id_split(id, &length, &replica))
		excluded = find_excluded(list, id, length);
	*ret_excluded = excluded;
	if (excluded)
		return "excluded by the configuration, but assigned to a pod";
	if (index_of(list, id, length, &index) >= 0)
		return "not offered under this id, because `share` has changed, but assigned to a pod";
	return "not found with the applied configuration, but assigned to a pod";
}

static int placeholder_new(struct unit_list *list, const struct booking *booking,
	const char *reason, struct device *excluded, struct unit **ret)
{
	_cleanup_(unit_freep) struct unit *unit = calloc(1, sizeof(*unit));
	int r;

	if (!unit)
		return -ENOMEM;
	unit->owner = list->owner;
	unit->list = list;
	unit->booked = true;
	unit->in_use = booking->uses & BOOKED_ALONE;
	unit->since = now_usec(CLOCK_REALTIME);
	unit->excluded = excluded ? device_ref(excluded) : NULL;
	unit->reason = strdup(reason);
	r = unit->reason ? device_new(booking->id, &unit->device) : -ENOMEM;
	for (size_t i = 0; i < booking->n_numa && r >= 0; i++)
		r = device_add_numa(unit->device, booking->numa[i]);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(unit);
	return 0;
}

static int compare_placeholder(const void *id, const void *element)
{
	const struct unit *const *unit = element;

	return strcmp(id, (*unit)->device->id);
}

static bool same_device(const struct device *a, const struct device *b)
{
	return a == b || (a && b && device_equal(a, b));
}

/* The placeholder of the id: the current one if nothing has changed, or a new one. */
static int find_placeholder(
	struct unit_list *list, const struct booking *booking, struct unit **ret)
{
	struct device *excluded;
	const char *reason = reason_of(list, booking->id, &excluded);
	struct unit **old = list->n_placeholders > 0
		? bsearch(booking->id, list->placeholders, list->n_placeholders, sizeof(*old),
			  compare_placeholder)
		: NULL;

	if (old && streq((*old)->reason, reason) && same_device((*old)->excluded, excluded) &&
		(*old)->in_use == (bool)(booking->uses & BOOKED_ALONE) &&
		booking_has_numa(booking, (*old)->device->numa, (*old)->device->n_numa)) {
		*ret = *old;
		return 0;
	}
	return placeholder_new(list, booking, reason, excluded, ret);
}

static void free_placeholders(
	struct unit **units, size_t n, struct unit **but_for, size_t n_but_for)
{
	for (size_t i = 0, k = 0; i < n; i++) {
		while (k < n_but_for && strcmp(but_for[k]->device->id, units[i]->device->id) < 0)
			k++;
		if (k == n_but_for || but_for[k] != units[i])
			(void)unit_free(units[i]);
	}
	free(units);
}

/* Takes the new placeholders. Returns whether they differ from the current ones. */
static bool replace_placeholders(struct unit_list *list, struct unit **units, size_t n)
{
	bool changed = n != list->n_placeholders;

	for (size_t i = 0; i < n && !changed; i++)
		changed = units[i] != list->placeholders[i];
	free_placeholders(list->placeholders, list->n_placeholders, units, n);
	list->placeholders = units;
	list->n_placeholders = n;
	return changed;
}

/* Finds the effects on units, and the placeholders for all other bookings. */
static int sort_bookings(
	struct unit_list *list, struct booking_effect *effects, struct unit **units, size_t *ret_n)
{
	size_t n = 0, index;
	int r = 0;

	for (size_t i = 0; list->booked && i < list->booked->count && r >= 0; i++) {
		const struct booking *booking = &list->booked->items[i];

		if (find_offering(list, booking->id, &index) >= 0) {
			add_booking(list->units[index], booking, &effects[index]);
			continue;
		}
		r = find_placeholder(list, booking, &units[n]);
		n += r >= 0;
	}
	*ret_n = n;
	return r;
}

/* Withholds an id that is offered now, or all ids of a unit that had the id before `share` was
 * changed. */
static void withhold(const struct unit_list *list, const char *id, struct booking_effect *effects)
{
	size_t length = strlen(id), index;
	unsigned replica;

	if (find_offering(list, id, &index) >= 0)
		effects[index].withheld++;
	else if (index_of(list, id, length, &index) >= 0 ||
		(offered_id_split(id, &length, &replica) &&
			index_of(list, id, length, &index) >= 0))
		effects[index].withheld = list->units[index]->replicas;
	else
		return;
	effects[index].in_use = true;
}

/* If any device of the resource has NUMA nodes, a starting kubelet requires a common set of nodes
 * for the devices of a container, and finds none if one of them has no nodes. A device that was
 * booked without nodes is therefore listed with all of them, which suits any set. */
static int collect_nodes(const struct unit_list *list, struct booking *all)
{
	int r = 0;

	for (size_t i = 0; i < list->n_units && r >= 0; i++)
		r = booking_add_numa(
			all, list->units[i]->device->numa, list->units[i]->device->n_numa);
	for (size_t i = 0; i < list->joined->count && r >= 0; i++)
		r = booking_add_numa(
			all, list->joined->items[i].numa, list->joined->items[i].n_numa);
	return r;
}

static int add_completed(
	const struct unit_list *list, const struct booking *all, struct bookings *bookings)
{
	int r = 0;

	for (size_t i = 0; i < list->joined->count && r >= 0; i++) {
		const struct booking *booking = &list->joined->items[i];
		const struct booking *nodes = booking->n_numa > 0 ? booking : all;

		r = bookings_add(bookings, booking->id, booking->uses, nodes->numa, nodes->n_numa,
			booking->allocated_at);
	}
	return r < 0 ? r : bookings_sort(bookings);
}

static int complete_nodes(struct unit_list *list)
{
	_cleanup_bookings_ struct bookings *completed = NULL;
	struct booking all = { 0 };
	int r;

	list->booked = bookings_unref(list->booked);
	if (!list->joined)
		return 0;
	r = collect_nodes(list, &all);
	if (r >= 0)
		r = bookings_new(&completed);
	if (r >= 0)
		r = add_completed(list, &all, completed);
	free(all.numa);
	if (r < 0)
		return r;
	list->booked = TAKE_PTR(completed);
	return 0;
}

/* Finds for each free unit one in use of which a container has the same whole. */
static int find_companions(const struct unit_list *list, struct booking_effect *effects)
{
	struct map in_use = { 0 };
	int r = 0;

	for (size_t i = 0; i < list->n_units && r >= 0; i++) {
		const struct device *device = list->units[i]->device;

		if (!device->whole || !effects[i].in_use)
			continue;
		r = map_put(&in_use, device->whole, (void *)device->id);
		r = r == -EEXIST ? 0 : r;
	}
	for (size_t i = 0; i < list->n_units && r >= 0; i++) {
		const struct device *device = list->units[i]->device;

		if (device->whole && !effects[i].in_use)
			effects[i].companion = map_get(&in_use, device->whole);
	}
	map_done(&in_use);
	return r;
}

static int apply_bookings(struct unit_list *list)
{
	size_t n_booked = list->booked ? list->booked->count : 0, n = 0;
	_cleanup_free_ struct booking_effect *effects = calloc(list->n_units + 1, sizeof(*effects));
	struct unit **units = calloc(n_booked + 1, sizeof(struct unit *));
	bool changed = false;
	int r = effects && units ? sort_bookings(list, effects, units, &n) : -ENOMEM;

	if (r < 0) {
		free_placeholders(units, n, list->placeholders, list->n_placeholders);
		return r;
	}
	for (size_t i = 0; list->elsewhere && i < list->elsewhere->count; i++)
		withhold(list, list->elsewhere->items[i].id, effects);
	r = find_companions(list, effects);
	for (size_t i = 0; i < list->n_units && r >= 0; i++) {
		r = apply_effect(list->units[i], &effects[i]);
		changed = changed || r > 0;
	}
	changed = replace_placeholders(list, units, n) || changed;
	return r < 0 ? r : changed;
}

int unit_list_apply_bookings(struct unit_list *list)
{
	int r = complete_nodes(list);

	if (r >= 0)
		r = apply_bookings(list);
	list->not_applied = r < 0;
	return r;
}

/* --- what is booked --- */

static struct bookings *replace(struct bookings *old, struct bookings *new)
{
	(void)bookings_unref(old);
	return new->count > 0 ? new : bookings_unref(new);
}

/* Where the kubelet's data contain an allocated id, they decide whether its pod still exists. */
static int date(const struct bookings *allocations, const struct bookings *kubelet_booked,
	struct bookings **ret)
{
	int r;

	r = bookings_select(allocations, BOOKED_BY_PLUGIN, 0, ret);
	for (size_t i = 0; r >= 0 && i < (*ret)->count; i++)
		if (bookings_find(kubelet_booked, (*ret)->items[i].id))
			(*ret)->items[i].uses &= ~BOOKED_FOR_POD;
	return r;
}

static int join(struct unit_list *list)
{
	bool plugin = list->declaration->serve != SERVE_DRA;
	const unsigned ours = plugin ? BOOKED_BY_PLUGIN : BOOKED_IN_DRA;
	const unsigned others = plugin ? BOOKED_BY_CLAIM : BOOKED_FOR_POD;
	_cleanup_bookings_ struct bookings *dated = NULL, *allocated = NULL, *all = NULL;
	struct bookings *elsewhere, *joined = NULL;
	int r;

	r = date(list->allocations, list->kubelet_booked, &dated);
	if (r >= 0)
		r = bookings_merge(dated, list->pending, &allocated);
	if (r >= 0)
		r = bookings_merge(list->kubelet_booked, allocated, &all);
	if (r >= 0)
		r = bookings_select(all, ours, 0, &joined);
	if (r >= 0)
		r = bookings_select(all, others, ours, &elsewhere);
	if (r < 0) {
		(void)bookings_unref(joined);
		return r;
	}
	list->all_booked = replace(list->all_booked, TAKE_PTR(all));
	list->joined = replace(list->joined, joined);
	list->elsewhere = replace(list->elsewhere, elsewhere);
	return unit_list_apply_bookings(list);
}

/* Keeps only the allocations for which `stays` returns true. */
static int keep_allocations(struct unit_list *list,
	bool (*stays)(const struct booking *booking, const void *argument), const void *argument)
{
	const struct bookings *old = list->allocations;
	struct bookings *kept;
	int r;

	if (!old)
		return 0;
	r = bookings_new(&kept);
	for (size_t i = 0; i < old->count && r >= 0; i++)
		if (stays(&old->items[i], argument))
			r = bookings_add(kept, old->items[i].id, old->items[i].uses,
				old->items[i].numa, old->items[i].n_numa,
				old->items[i].allocated_at);
	if (r < 0) {
		(void)bookings_unref(kept);
		return r;
	}
	if (kept->count == 0)
		kept = bookings_unref(kept);
	(void)bookings_unref(list->allocations);
	list->allocations = kept;
	return 0;
}

static bool is_later(const struct booking *booking, const void *argument)
{
	const uint64_t *until = argument;

	return booking->allocated_at > *until;
}

static bool drop_gone(struct unit_list *list, uint64_t until)
{
	size_t kept = 0, before = list->n_units;

	for (size_t i = 0; i < list->n_units; i++) {
		struct unit *unit = list->units[i];

		if ((!unit->present || unit_may_be_gone(unit)) && unit->gone_since <= until &&
			!unit->booked)
			(void)unit_free(unit);
		else
			list->units[kept++] = unit;
	}
	list->n_units = kept;
	return kept < before;
}

int unit_list_set_booked(struct unit_list *list, struct bookings *booked, uint64_t gone_until,
	uint64_t allocated_until)
{
	const uint64_t until = MAX_OF(gone_until, allocated_until);
	int r;

	/* This includes allocations that the message lists, because they may belong to an earlier
	 * pod. */
	r = keep_allocations(list, is_later, &until);
	if (r < 0)
		return r;
	(void)bookings_unref(list->kubelet_booked);
	list->kubelet_booked = bookings_ref(booked);
	r = join(list);
	if (r < 0)
		return r;
	return drop_gone(list, gone_until) || r > 0;
}

void unit_list_note_assigned(struct unit_list *list, const char *const *ids, size_t n_ids)
{
	for (size_t i = 0; i < n_ids; i++) {
		size_t length = strlen(ids[i]), index;
		unsigned replica;

		/* `share` may have changed since the id was offered. */
		(void)offered_id_split(ids[i], &length, &replica);
		if (index_of(list, ids[i], length, &index) >= 0)
			device_note_assigned(list->units[index]->device);
	}
}

int unit_list_note_allocated(
	struct unit_list *list, const struct snapshot *shown, const char *const *ids, size_t n_ids)
{
	_cleanup_bookings_ struct bookings *new = NULL;
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	struct bookings *merged;
	int r;

	unit_list_note_assigned(list, ids, n_ids);
	r = bookings_new(&new);
	if (r >= 0)
		r = snapshot_add_bookings(shown, ids, n_ids, now, new);
	if (r >= 0)
		r = bookings_sort(new);
	if (r >= 0)
		r = bookings_merge(list->allocations, new, &merged);
	if (r < 0)
		return r;
	(void)bookings_unref(list->allocations);
	list->allocations = merged;
	return join(list);
}

int unit_list_set_pending(struct unit_list *list, struct bookings *pending)
{
	if (!pending && !list->pending)
		return 0;
	(void)bookings_unref(list->pending);
	list->pending = bookings_ref(pending);
	return join(list);
}

static bool is_of_another(const struct booking *booking, const void *argument)
{
	return !offered_id_is_of(booking->id, argument);
}

int unit_list_forget(struct unit_list *list, const char *id)
{
	int r;

	r = keep_allocations(list, is_of_another, id);
	if (r >= 0)
		r = join(list);
	for (size_t i = 0; i < list->n_units && r >= 0; i++) {
		struct unit *unit = list->units[i];

		if (unit->present || !streq(unit->device->id, id))
			continue;
		(void)unit_free(unit);
		list->n_units--;
		memmove(&list->units[i], &list->units[i + 1],
			(list->n_units - i) * sizeof(struct unit *));
		return unit_list_apply_bookings(list) < 0 ? -ENOMEM : 1;
	}
	return r;
}

void unit_list_booked_done(struct unit_list *list)
{
	free_placeholders(list->placeholders, list->n_placeholders, NULL, 0);
	list->placeholders = NULL;
	list->n_placeholders = 0;
	list->kubelet_booked = bookings_unref(list->kubelet_booked);
	list->allocations = bookings_unref(list->allocations);
	list->pending = bookings_unref(list->pending);
	list->all_booked = bookings_unref(list->all_booked);
	list->joined = bookings_unref(list->joined);
	list->elsewhere = bookings_unref(list->elsewhere);
	list->booked = bookings_unref(list->booked);
}
