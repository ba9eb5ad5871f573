/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the resources that evict pods, by name: those whose configuration evicts any, and those
 * that an earlier daemon has saved.
 */
#include "supervisor/eviction/eviction-list.h"

struct evicting *eviction_list_find(const struct evictions *evictions, const char *resource)
{
	for (size_t i = 0; evictions && i < evictions->n_items; i++)
		if (streq(evictions->items[i]->resource, resource))
			return evictions->items[i];
	return NULL;
}

static struct evicting *evicting_free(struct evicting *evicting)
{
	if (!evicting)
		return NULL;
	eviction_plan_done(&evicting->plan);
	json_decref(evicting->results);
	free(evicting->resource);
	free(evicting);
	return NULL;
}
DEFINE_CLEANUP(struct evicting *, evicting_free)

int eviction_list_add(struct evictions *evictions, const char *resource, struct evicting **ret)
{
	_cleanup_(evicting_freep) struct evicting *evicting = calloc(1, sizeof(*evicting));
	int r;

	if (!evicting)
		return -ENOMEM;
	evicting->resource = strdup(resource);
	evicting->results = json_array();
	if (!evicting->resource || !evicting->results)
		return -ENOMEM;
	r = array_reserve(
		(void **)&evictions->items, evictions->n_items, sizeof(struct evicting *));
	if (r < 0)
		return r;
	*ret = evictions->items[evictions->n_items++] = TAKE_PTR(evicting);
	return 0;
}

void eviction_list_drop(struct evictions *evictions, const struct evicting *evicting)
{
	for (size_t i = 0; i < evictions->n_items; i++)
		if (evictions->items[i] == evicting) {
			(void)evicting_free(evictions->items[i]);
			evictions->items[i] = evictions->items[--evictions->n_items];
			return;
		}
}

void eviction_list_done(struct evictions *evictions)
{
	for (size_t i = 0; i < evictions->n_items; i++)
		(void)evicting_free(evictions->items[i]);
	free(evictions->items);
}
