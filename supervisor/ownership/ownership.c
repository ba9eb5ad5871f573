/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which resource owns a device that several match: the first in the order of the
 * configuration. One pass over all devices with two tables: the owner of each claim, and the
 * resource of each id. A device that already belongs to another resource claims nothing here, so
 * one pass is enough even where A overlaps B, and B overlaps C. If it is assigned to a pod, it owns
 * its claims nevertheless, which is reported to the earlier resources at the end. A device whose id
 * is booked for a foreign resource belongs to that one.
 */
#include "supervisor/ownership/ownership.h"

#include "common/map.h"
#include "supervisor/ownership/exclusive.h"
#include "supervisor/ownership/replayed.h"

/* A device that owns its claims. */
struct owner {
	struct decision *decision;
	const struct hardware_device *device;
	const struct decision *kept_by; /* the resource that assigned it to a pod; NULL: none */
};

struct tables {
	struct map claims; /* to the owner */
	struct map ids;    /* to the decision */
	struct owner *owners;
	size_t n_owners;
	struct decision *all;
	size_t n_all;
};

#define STILL_USED ", where a pod still uses it"

static bool share(const struct decision *a, const struct decision *b)
{
	return a == b || decision_shares(a, b);
}

/* The foreign resource for which the id is booked, or NULL. */
static struct decision *find_foreign(const struct tables *tables, const char *id)
{
	for (size_t i = 0; i < tables->n_all; i++)
		if (tables->all[i].foreign &&
			bookings_have_unit(tables->all[i].booked, id, BOOKED_ALONE))
			return &tables->all[i];
	return NULL;
}

/* Reports the owners of the device's claims. Returns whether the device belongs to another
 * resource, or -ENOMEM; `ret_owner`: who owns its claims from now on, NULL: their owners stay. */
static int find_owner(const struct tables *tables, struct decision *decision,
	const struct hardware_device *device, struct decision **ret_owner)
{
	struct decision *foreign = find_foreign(tables, device->id);
	bool booked = foreign || bookings_have_unit(decision->booked, device->id, BOOKED_ALONE);
	struct decision *user = foreign ?: decision;
	bool contested = foreign;

	if (foreign && decision_write(decision, device->id, "%s" STILL_USED, foreign->name) < 0)
		return -ENOMEM;
	for (const char *const *claim = device->claims; *claim; claim++) {
		struct owner *owner = map_get(&tables->claims, *claim);

		if (!owner || share(owner->decision, user))
			continue;
		if (!contested &&
			decision_write(decision, device->id, "%s%s", owner->decision->name,
				owner->decision->foreign ? STILL_USED : "") < 0)
			return -ENOMEM;
		contested = true;
		if (!booked)
			break;
		owner->kept_by = owner->kept_by ?: user;
	}
	*ret_owner = !contested || booked ? user : NULL;
	return contested;
}

/* `first`: the first id that another resource uses for other hardware, `n`: how many there are. */
static int make_note(
	struct decision *decision, const char *first, const struct decision *other, size_t n)
{
	char more[64] = "";

	if (n == 0)
		return 0;
	if (n > 1)
		(void)snprintf(more, sizeof(more), " (and %zu more)", n - 1);
	return format_text(&decision->note,
		"the id \"%s\" also belongs to another device, of %s%s: the kubelet tracks "
		"the health of devices by id alone, so rename one of them",
		first, other->name, more);
}

static int take(
	struct tables *tables, struct decision *decision, const struct hardware_device *device)
{
	struct owner *owner = &tables->owners[tables->n_owners++];
	int r = 0;

	*owner = (struct owner){ .decision = decision, .device = device };
	for (const char *const *claim = device->claims; *claim && r >= 0; claim++) {
		r = map_put(&tables->claims, *claim, owner);
		r = r == -EEXIST ? 0 : r;
	}
	return r;
}

static int decide(struct tables *tables, struct decision *decision)
{
	const struct decision *other = NULL;
	const char *first = NULL;
	size_t n_same = 0;

	for (size_t i = 0; decision->list && i < decision->list->n_devices; i++) {
		const struct hardware_device *device = &decision->list->devices[i];
		const struct decision *same;
		struct decision *owner = NULL;
		int contested = find_owner(tables, decision, device, &owner);

		if (contested < 0 || (owner && take(tables, owner, device) < 0))
			return -ENOMEM;
		if (contested)
			continue;
		same = map_get(&tables->ids, device->id);
		if (same && !share(same, decision)) {
			first = first ?: device->id;
			other = other ?: same;
			n_same++;
		} else if (map_put(&tables->ids, device->id, decision) == -ENOMEM) {
			return -ENOMEM;
		}
	}
	return make_note(decision, first, other, n_same);
}

/* Reports devices that another resource has assigned to pods. */
static int report_kept(const struct tables *tables)
{
	int r = 0;

	for (size_t i = 0; i < tables->n_owners && r >= 0; i++) {
		const struct owner *owner = &tables->owners[i];

		if (owner->kept_by && !owner->decision->foreign)
			r = decision_write(owner->decision, owner->device->id, "%s" STILL_USED,
				owner->kept_by->name);
	}
	return r;
}

int ownership_decide(struct decision *decisions, size_t n)
{
	struct tables tables = { .all = decisions, .n_all = n };
	size_t n_devices = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		n_devices += decisions[i].list ? decisions[i].list->n_devices : 0;
	tables.owners = calloc(n_devices + 1, sizeof(*tables.owners));
	if (!tables.owners)
		return -ENOMEM;
	for (size_t i = 0; i < n && r >= 0; i++)
		r = decide(&tables, &decisions[i]);
	if (r >= 0)
		r = report_kept(&tables);
	if (r >= 0)
		r = replayed_decide(decisions, n);
	if (r >= 0)
		r = exclusive_decide(decisions, n);
	for (size_t i = 0; i < n; i++)
		if (decision_close(&decisions[i]) < 0)
			r = -ENOMEM;
	if (r < 0)
		decisions_done(decisions, n);
	free(tables.owners);
	map_done(&tables.claims);
	map_done(&tables.ids);
	return r;
}
