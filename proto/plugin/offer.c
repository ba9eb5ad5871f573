/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference counts of what both threads of a child look at. The last one to let go frees it,
 * whichever thread that is.
 */
#include "proto/plugin/offer.h"

int edition_new(struct config *config, struct edition **ret)
{
	struct edition *edition = malloc(sizeof(*edition));

	if (!edition)
		return -ENOMEM;
	assert(config->n_resources == 1);
	atomic_init(&edition->references, 1);
	edition->config = config;
	edition->declaration = &config->resources[0].declaration;
	*ret = edition;
	return 0;
}

struct edition *edition_ref(struct edition *edition)
{
	atomic_fetch_add(&edition->references, 1);
	return edition;
}

struct edition *edition_unref(struct edition *edition)
{
	if (edition && atomic_fetch_sub(&edition->references, 1) == 1) {
		config_free(edition->config);
		free(edition);
	}
	return NULL;
}

int offer_new(struct edition *edition, struct snapshot *snapshot, struct offer **ret)
{
	struct offer *offer = calloc(1, sizeof(*offer));

	if (!offer)
		return -ENOMEM;
	atomic_init(&offer->references, 1);
	offer->edition = edition_ref(edition);
	offer->snapshot = snapshot_ref(snapshot);
	*ret = offer;
	return 0;
}

int offer_use_cdi(struct offer *offer, const struct strings *but_for)
{
	int r = 0;

	for (size_t i = 0; i < but_for->count && r >= 0; i++) {
		const char *id = but_for->items[i];

		r = strings_add(&offer->no_cdi_ids, id, strlen(id));
		if (r >= 0)
			r = map_put(&offer->no_cdi, offer->no_cdi_ids.items[i], offer);
	}
	offer->cdi = r >= 0;
	return r;
}

bool offer_has_cdi(const struct offer *offer, const char *const *ids, size_t n_ids)
{
	unsigned replica;
	size_t unit;

	for (size_t i = 0; i < n_ids && offer->cdi; i++)
		if (snapshot_find(offer->snapshot, ids[i], &unit, &replica) >= 0 &&
			map_get(&offer->no_cdi, offer->snapshot->units[unit].device->id))
			return false;
	return offer->cdi;
}

struct offer *offer_ref(struct offer *offer)
{
	atomic_fetch_add(&offer->references, 1);
	return offer;
}

struct offer *offer_unref(struct offer *offer)
{
	if (offer && atomic_fetch_sub(&offer->references, 1) == 1) {
		edition_unref(offer->edition);
		snapshot_unref(offer->snapshot);
		map_done(&offer->no_cdi);
		strings_done(&offer->no_cdi_ids);
		free(offer);
	}
	return NULL;
}
