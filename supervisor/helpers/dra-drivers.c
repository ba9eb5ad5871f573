/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which drivers there are: those of resources and claims, and for a while those that were.
 * A driver is never renamed: the number of each is used once.
 */
#include "supervisor/helpers/dra-drivers.h"

#include "dra/model/slice-lacks.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"

struct dra_registrant *dra_drivers_find(const struct dra_drivers *all, uint64_t number)
{
	for (size_t i = 0; i < all->n_items; i++)
		if (all->items[i]->number == number)
			return all->items[i];
	return NULL;
}

struct dra_registrant *dra_drivers_find_name(const struct dra_drivers *all, const char *name)
{
	for (size_t i = 0; i < all->n_items; i++)
		if (streq(all->items[i]->name, name))
			return all->items[i];
	return NULL;
}

/* NULL: DRA does not serve the resource. */
static const char *driver_of(const struct child *child)
{
	return child->leaving ? NULL : resource_config_driver(resource_applied(child->resource));
}

struct dra_registrant *dra_drivers_find_of(const struct dra_drivers *all, const struct child *child)
{
	const char *name = driver_of(child);

	return name ? dra_drivers_find_name(all, name) : NULL;
}

/* --- which there are --- */

static int add(struct dra_drivers *all, const char *name)
{
	int r;

	if (dra_drivers_find_name(all, name))
		return 0;
	r = array_reserve((void **)&all->items, all->n_items, sizeof(struct dra_registrant *));
	if (r >= 0)
		r = dra_registrant_new(all->manager, all->process, all->last_number + 1, name,
			all->on_change, all->userdata, &all->items[all->n_items]);
	if (r < 0)
		return r;
	all->last_number++;
	all->n_items++;
	return 0;
}

static json_t *list_resources(const struct dra_drivers *all, const struct dra_registrant *driver)
{
	const struct manager *manager = all->manager;
	json_t *names = json_array();

	for (size_t i = 0; i < manager->n_children; i++)
		if (dra_drivers_find_of(all, manager->children[i]) == driver)
			(void)json_array_append_new(
				names, json_string(manager->children[i]->resource->name));
	return names;
}

static void note_use(
	const struct dra_drivers *all, struct dra_registrant *driver, const json_t *claims)
{
	bool before = driver->in_use;

	json_decref(driver->resources);
	driver->resources = list_resources(all, driver);
	driver->in_use =
		json_array_size(driver->resources) > 0 || json_object_get(claims, driver->name);
	if (before && !driver->in_use)
		driver->unused_since = now_usec(CLOCK_MONOTONIC);
}

int dra_drivers_update(struct dra_drivers *all)
{
	json_auto_t *claims = dra_claims_by_driver(all->claims);
	const struct manager *manager = all->manager;
	const json_t *count;
	const char *name;
	int r = claims ? 0 : -ENOMEM;

	for (size_t i = 0; i < manager->n_children && r >= 0; i++) {
		name = driver_of(manager->children[i]);
		if (name)
			r = add(all, name);
	}
	json_object_foreach(claims, name, count)
	{
		if (r >= 0)
			r = add(all, name);
	}
	for (size_t i = 0; i < all->n_items && r >= 0; i++)
		note_use(all, all->items[i], claims);
	return r;
}

bool dra_drivers_any_resource(const struct dra_drivers *all)
{
	for (size_t i = 0; i < all->n_items; i++)
		if (json_array_size(all->items[i]->resources) > 0)
			return true;
	return false;
}

/* Closing it calls on_change, which finds only the drivers that stay. */
static void drop(struct dra_drivers *all, size_t at)
{
	struct dra_registrant *driver = all->items[at];

	all->n_items--;
	memmove(&all->items[at], &all->items[at + 1],
		(all->n_items - at) * sizeof(struct dra_registrant *));
	dra_registrant_close(driver, "no resource has the DRA driver any more");
	(void)dra_registrant_free(driver);
}

bool dra_drivers_drop_unused(struct dra_drivers *all)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	size_t before = all->n_items, i = 0;

	while (i < all->n_items) {
		const struct dra_registrant *driver = all->items[i];

		if (driver->in_use || now < driver->unused_since + DRA_LINGER_TIME)
			i++;
		else
			drop(all, i);
	}
	return all->n_items < before;
}

uint64_t dra_drivers_next(const struct dra_drivers *all)
{
	uint64_t next = USEC_INFINITY;

	for (size_t i = 0; i < all->n_items; i++)
		if (!all->items[i]->in_use)
			next = MIN_OF(next, all->items[i]->unused_since + DRA_LINGER_TIME);
	return next;
}

json_t *dra_drivers_settings(const struct dra_drivers *all)
{
	json_auto_t *settings = json_array();

	for (size_t i = 0; i < all->n_items; i++) {
		const struct dra_registrant *driver = all->items[i];

		if (json_array_append_new(settings,
			    json_pack("{s:I, s:s, s:O}", "number", (json_int_t)driver->number,
				    "name", driver->name, "resources", driver->resources)) < 0)
			return NULL;
	}
	return json_incref(settings);
}

/* --- sessions --- */

void dra_drivers_open(const struct dra_drivers *all)
{
	for (size_t i = 0; i < all->n_items; i++)
		dra_registrant_open(all->items[i]);
}

void dra_drivers_suspend(const struct dra_drivers *all, const char *why)
{
	for (size_t i = 0; i < all->n_items; i++)
		dra_registrant_suspend(all->items[i], why);
}

void dra_drivers_close(const struct dra_drivers *all, const char *why)
{
	for (size_t i = 0; i < all->n_items; i++)
		dra_registrant_close(all->items[i], why);
}

void dra_drivers_check(const struct dra_drivers *all)
{
	for (size_t i = 0; i < all->n_items; i++)
		dra_registrant_check(all->items[i]);
}

/* --- --- */

/* What the API server lacks, for people. */
static json_t *describe_lacks(uint64_t lacks)
{
	json_t *texts = json_array();

	for (size_t i = 0; i < _LACK_MAX; i++)
		if (lacks & 1U << i)
			(void)json_array_append_new(
				texts, json_string(slice_lack_text((enum slice_lack)i)));
	return texts;
}

static json_t *describe(const struct dra_registrant *driver, const json_t *claims)
{
	return json_pack("{s:s, s:b, s:I, s:I, s:I, s:s, s:s, s:o, s:O}", "driver", driver->name,
		"registered", (int)driver->registered, "generation", (json_int_t)driver->generation,
		"slices", (json_int_t)driver->slices, "claims",
		json_integer_value(json_object_get(claims, driver->name)), "registration_failure",
		driver->failure, "api_failure", driver->api_failure, "lacks",
		describe_lacks(driver->lacks), "resources", driver->resources);
}

json_t *dra_drivers_describe(const struct dra_drivers *all, const char *first)
{
	json_auto_t *claims = dra_claims_by_driver(all->claims);
	json_t *list = json_array();

	for (size_t i = 0; i < all->n_items; i++) {
		const struct dra_registrant *driver = all->items[i];
		json_t *described = describe(driver, claims);

		if (first && streq(driver->name, first))
			(void)json_array_insert_new(list, 0, described);
		else
			(void)json_array_append_new(list, described);
	}
	return list;
}

static json_t *pack_numbers(const struct dra_registrant *driver, const json_t *claims)
{
	json_t *object = json_pack("{s:I, s:I}", "slices", (json_int_t)driver->slices, "claims",
		json_integer_value(json_object_get(claims, driver->name)));

	for (size_t i = 0; i < _CLUSTER_EVENT_MAX; i++)
		(void)json_object_set_new(object, cluster_events[i],
			json_pack("[I, I]", (json_int_t)driver->counts[i].number,
				(json_int_t)driver->counts[i].usec));
	return object;
}

json_t *dra_drivers_numbers(const struct dra_drivers *all)
{
	json_auto_t *claims = dra_claims_by_driver(all->claims);
	json_t *numbers = json_object();

	for (size_t i = 0; i < all->n_items; i++)
		(void)json_object_set_new(
			numbers, all->items[i]->name, pack_numbers(all->items[i], claims));
	return numbers;
}

void dra_drivers_done(struct dra_drivers *all)
{
	for (size_t i = 0; i < all->n_items; i++)
		(void)dra_registrant_free(all->items[i]);
	free(all->items);
}
