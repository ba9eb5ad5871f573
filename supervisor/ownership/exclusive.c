/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which devices cannot be used because another device of the same hardware is in use. One
 * pass over all devices fills two tables: who uses each piece of hardware as a whole, and who uses
 * a part of it. With both, each device is judged by its own claims alone.
 */
#include "supervisor/ownership/exclusive.h"

#include "common/finding.h"
#include "common/map.h"

struct user {
	const struct decision *decision;
	const struct hardware_device *device;
};

struct tables {
	struct map wholes; /* by claim: to the user */
	struct map parts;  /* by what the user is a part of */
	struct user *users;
	size_t n_users;
};

static bool is_judged(const struct decision *decision)
{
	return decision->overlap == OVERLAP_EXCLUSIVE && decision->list;
}

static bool is_in_use(const struct decision *decision, const char *id)
{
	return bookings_have_unit(decision->booked, id, BOOKED_ALONE) ||
		(decision->taken && map_get(decision->taken, id)) ||
		(decision->held && strings_contain(decision->held, id));
}

static int put_all(struct map *map, const char *const *names, struct user *user)
{
	int r = 0;

	for (; *names && r >= 0; names++) {
		r = map_put(map, *names, user);
		r = r == -EEXIST ? 0 : r;
	}
	return r;
}

static int add_user(struct tables *tables, const struct decision *decision,
	const struct hardware_device *device)
{
	struct user *user = &tables->users[tables->n_users++];
	int r;

	*user = (struct user){ decision, device };
	r = put_all(&tables->wholes, device->claims, user);
	return r < 0 ? r : put_all(&tables->parts, device->containers, user);
}

static int fill(struct tables *tables, const struct decision *decisions, size_t n)
{
	size_t n_devices = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		n_devices += is_judged(&decisions[i]) ? decisions[i].list->n_devices : 0;
	tables->users = calloc(n_devices + 1, sizeof(*tables->users));
	if (!tables->users)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0;
			is_judged(&decisions[i]) && k < decisions[i].list->n_devices && r >= 0;
			k++) {
			const struct hardware_device *device = &decisions[i].list->devices[k];

			if ((device->claims[0] || device->containers[0]) &&
				is_in_use(&decisions[i], device->id))
				r = add_user(tables, &decisions[i], device);
		}
	return r;
}

static void tables_done(struct tables *tables)
{
	map_done(&tables->wholes);
	map_done(&tables->parts);
	free(tables->users);
}

/* Finds the device in use that excludes this one; NULL: none does. */
static const struct user *find_user(
	const struct tables *tables, const struct hardware_device *device)
{
	const struct user *user = NULL;

	for (const char *const *claim = device->claims; *claim && !user; claim++)
		user = map_get(&tables->wholes, *claim) ?: map_get(&tables->parts, *claim);
	for (const char *const *name = device->containers; *name && !user; name++)
		user = map_get(&tables->wholes, *name);
	return user;
}

static void name_user(const struct user *user, char ret[static USER_NAME_MAX])
{
	const struct decision *decision = user->decision;

	(void)snprintf(ret, USER_NAME_MAX, "a pod");
	if (decision->name_user)
		decision->name_user(decision->userdata, user->device->id, ret);
}

static int judge(const struct tables *tables, struct decision *decision)
{
	char by[USER_NAME_MAX];
	int r = 0;

	for (size_t i = 0; i < decision->list->n_devices && r >= 0; i++) {
		const struct hardware_device *device = &decision->list->devices[i];
		const struct user *user = find_user(tables, device);

		if (!user || is_in_use(decision, device->id))
			continue;
		name_user(user, by);
		r = decision_write(decision, device->id, "%c" WHY_IN_USE "%s by %s", OWNERS_IN_USE,
			user->decision->name, by);
	}
	return r;
}

int exclusive_decide(struct decision *decisions, size_t n)
{
	_cleanup_(tables_done) struct tables tables = { 0 };
	int r = fill(&tables, decisions, n);

	for (size_t i = 0; i < n && r >= 0 && tables.n_users > 0; i++)
		if (is_judged(&decisions[i]))
			r = judge(&tables, &decisions[i]);
	return r;
}

static int check(struct tables *tables, const struct decision *decision,
	const struct hardware_device *device, struct error *error)
{
	const struct user *user = find_user(tables, device);
	char by[USER_NAME_MAX];

	if (!user)
		return add_user(tables, decision, device) < 0
			? error_set(error, -ENOMEM, "out of memory")
			: 0;
	name_user(user, by);
	return error_set(error, -EBUSY,
		"device \"%s\" of %s is in use as %s by %s; it is free when that has ended",
		device->id, decision->name, user->decision->name, by);
}

int exclusive_check(const struct decision *decisions, size_t n, const struct decision *decision,
	const struct map *ids, struct error *error)
{
	_cleanup_(tables_done) struct tables tables = { 0 };
	int r = 0;

	if (!is_judged(decision))
		return 0;
	if (fill(&tables, decisions, n) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < decision->list->n_devices && r >= 0; i++) {
		const struct hardware_device *device = &decision->list->devices[i];

		if (map_get(ids, device->id) && !is_in_use(decision, device->id))
			r = check(&tables, decision, device, error);
	}
	return r;
}
