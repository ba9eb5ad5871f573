/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a configuration and a snapshot alive for as long as a call uses them. The last user on
 * either thread frees them.
 */
#include "proto/plugin/offer.h"

int applied_config_new(struct config *config, struct applied_config **ret)
{
	struct applied_config *applied_config = malloc(sizeof(*applied_config));

	if (!applied_config)
		return -ENOMEM;
	assert(config->n_resources == 1);
	atomic_init(&applied_config->references, 1);
	applied_config->config = config;
	applied_config->declaration = &config->resources[0].declaration;
	*ret = applied_config;
	return 0;
}

struct applied_config *applied_config_ref(struct applied_config *applied_config)
{
	atomic_fetch_add(&applied_config->references, 1);
	return applied_config;
}

struct applied_config *applied_config_unref(struct applied_config *applied_config)
{
	if (applied_config && atomic_fetch_sub(&applied_config->references, 1) == 1) {
		config_free(applied_config->config);
		free(applied_config);
	}
	return NULL;
}

int offer_new(struct applied_config *applied_config, struct snapshot *snapshot, struct offer **ret)
{
	struct offer *offer = calloc(1, sizeof(*offer));

	if (!offer)
		return -ENOMEM;
	atomic_init(&offer->references, 1);
	offer->applied_config = applied_config_ref(applied_config);
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

int offer_readmit(struct offer *offer, struct bookings *booked, const struct strings *but_for)
{
	_cleanup_bookings_ struct bookings *readmitted = NULL;
	int r;

	assert(!offer->readmitted);
	if (but_for->count == 0) {
		offer->readmitted = bookings_ref(booked);
		return 0;
	}
	r = bookings_new(&readmitted);
	for (size_t i = 0; i < booked->count && r >= 0; i++)
		if (!strings_contain(but_for, booked->items[i].id))
			r = bookings_add(
				readmitted, booked->items[i].id, booked->items[i].uses, NULL, 0, 0);
	if (r < 0)
		return r;
	/* It is as sorted as the bookings are. */
	offer->readmitted = TAKE_PTR(readmitted);
	return 0;
}

bool offer_is_listed_healthy(const struct offer *offer, size_t unit, const char *offered_id)
{
	static const bool may_stay[_CAUSE_MAX] = {
		[CAUSE_RETURNED] = true,
		[CAUSE_CORDONED] = true,
		[CAUSE_DEVICE] = true,
		[CAUSE_PROBE] = true,
		[CAUSE_UNPROBED] = true,
	};
	const struct snapshot_unit *shown = &offer->snapshot->units[unit];

	return shown->healthy ||
		(offer->readmitted && may_stay[shown->cause] &&
			bookings_find(offer->readmitted, offered_id));
}

bool offer_is_readmitted(const struct offer *offer, const char *offered_id)
{
	unsigned replica;
	size_t unit;

	return offer->readmitted &&
		snapshot_find(offer->snapshot, offered_id, &unit, &replica) >= 0 &&
		!offer->snapshot->units[unit].healthy &&
		offer_is_listed_healthy(offer, unit, offered_id);
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
		applied_config_unref(offer->applied_config);
		snapshot_unref(offer->snapshot);
		map_done(&offer->no_cdi);
		strings_done(&offer->no_cdi_ids);
		(void)bookings_unref(offer->readmitted);
		free(offer);
	}
	return NULL;
}
