/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which resource owns a device that several match: the first in the order of the
 * configuration. One pass over all devices with two tables: the owners of each claim, and the
 * resource of each id. A claim has several owners if resources share it. A device that already
 * belongs to another resource claims nothing here, so one pass is enough even where A overlaps B,
 * and B overlaps C. If it is assigned to a pod, it owns its claims nevertheless, which is reported
 * at the end to each other owner that does not share with it. A device whose id is booked for a
 * foreign resource belongs to that one.
 */
#include "supervisor/ownership/ownership.h"

#include "common/map.h"
#include "supervisor/ownership/exclusive.h"
#include "supervisor/ownership/replayed.h"

/* A device that owns its claims. */
struct owner {
	struct decision *decision;
	const struct hardware_device *device;
};

/* A resource that owns a claim, by one or several devices. */
struct claim_owner {
	struct claim_owner *next; /* of the claim */
	struct decision *decision;
	const struct decision *kept_by; /* the resource that assigned it to a pod; NULL: none */
};

struct tables {
	struct map claims; /* to the first owner */
	struct map ids;    /* to the decision */
	struct owner *owners;
	size_t n_owners;
	struct claim_owner *claim_owners;
	size_t n_claim_owners;
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
		struct claim_owner *owner = map_get(&tables->claims, *claim);

		for (; owner; owner = owner->next) {
			if (share(owner->decision, user))
				continue;
			if (!contested &&
				decision_write(decision, device->id, "%s%s", owner->decision->name,
					owner->decision->foreign ? STILL_USED : "") < 0)
				return -ENOMEM;
			contested = true;
			if (booked && !owner->kept_by)
				owner->kept_by = user;
		}
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

static struct claim_owner *find_claim_owner(
	const struct tables *tables, const char *claim, const struct decision *decision)
{
	struct claim_owner *owner = map_get(&tables->claims, claim);

	while (owner && owner->decision != decision)
		owner = owner->next;
	return owner;
}

static int add_claim_owner(struct tables *tables, const char *claim, struct decision *decision)
{
	struct claim_owner *last = map_get(&tables->claims, claim), *added;

	if (find_claim_owner(tables, claim, decision))
		return 0;
	while (last && last->next)
		last = last->next;
	added = &tables->claim_owners[tables->n_claim_owners++];
	*added = (struct claim_owner){ .decision = decision };
	if (!last)
		return map_put(&tables->claims, claim, added);
	last->next = added;
	return 0;
}

static int take(
	struct tables *tables, struct decision *decision, const struct hardware_device *device)
{
	struct owner *owner = &tables->owners[tables->n_owners++];
	int r = 0;

	*owner = (struct owner){ .decision = decision, .device = device };
	for (const char *const *claim = device->claims; *claim && r >= 0; claim++)
		r = add_claim_owner(tables, *claim, decision);
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

static const struct decision *find_keeper(const struct tables *tables, const struct owner *owner)
{
	for (const char *const *claim = owner->device->claims; *claim; claim++) {
		const struct claim_owner *found = find_claim_owner(tables, *claim, owner->decision);

		if (found && found->kept_by)
			return found->kept_by;
	}
	return NULL;
}

/* Reports devices that another resource has assigned to pods. */
static int report_kept(const struct tables *tables)
{
	int r = 0;

	for (size_t i = 0; i < tables->n_owners && r >= 0; i++) {
		const struct owner *owner = &tables->owners[i];
		const struct decision *keeper =
			owner->decision->foreign ? NULL : find_keeper(tables, owner);

		if (keeper)
			r = decision_write(
				owner->decision, owner->device->id, "%s" STILL_USED, keeper->name);
	}
	return r;
}

static int tables_new(struct tables *tables)
{
	size_t n_devices = 0, n_claims = 0;

	for (size_t i = 0; i < tables->n_all; i++) {
		const struct hardware_claims *list = tables->all[i].list;

		n_devices += list ? list->n_devices : 0;
		n_claims += list ? list->n_claims : 0;
	}
	tables->owners = calloc(n_devices + 1, sizeof(*tables->owners));
	tables->claim_owners = calloc(n_claims + 1, sizeof(*tables->claim_owners));
	return tables->owners && tables->claim_owners ? 0 : -ENOMEM;
}

static void tables_done(struct tables *tables)
{
	free(tables->owners);
	free(tables->claim_owners);
	map_done(&tables->claims);
	map_done(&tables->ids);
}

int ownership_decide(struct decision *decisions, size_t n)
{
	struct tables tables = { .all = decisions, .n_all = n };
	int r;

	r = tables_new(&tables);
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
	tables_done(&tables);
	return r;
}
