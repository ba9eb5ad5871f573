/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the kubelet hears that a claim is unprepared: not before its devices are clean. A
 * request that has waited long enough is answered with an error, and the kubelet asks again.
 */
#include "supervisor/helpers/dra-ends.h"

#include <systemd/sd-event.h>

#include "dra/model/dra-names.h"
#include "supervisor/books/cleaning.h"
#include "supervisor/children/manager.h"

struct end {
	struct end *next;
	uint64_t request, deadline;
	char uid[DRA_CLAIM_ID_MAX + 1];
};

struct dra_ends {
	struct manager *manager;
	struct end *first;
	sd_event_source *timer;
	dra_end_handler on_end;
	void *userdata;
};

static void plan(const struct dra_ends *ends)
{
	uint64_t next = USEC_INFINITY;

	for (const struct end *end = ends->first; end; end = end->next)
		next = MIN_OF(next, end->deadline);
	(void)sd_event_source_set_time(ends->timer, next);
	(void)sd_event_source_set_enabled(ends->timer, SD_EVENT_ONESHOT);
}

static void try_all(void *userdata)
{
	struct dra_ends *ends = userdata;
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	struct end **link = &ends->first;

	while (*link) {
		struct end *end = *link;
		struct error error = { 0 };
		int r = cleaning_end_claim(ends->manager->cleaning, end->uid, &error);

		if (r < 0 && now < end->deadline) {
			link = &end->next;
			continue;
		}
		*link = end->next;
		ends->on_end(end->request, r < 0 ? &error : NULL, ends->userdata);
		free(end);
	}
	plan(ends);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	try_all(userdata);
	return 0;
}

void dra_ends_add(struct dra_ends *ends, uint64_t request, const char *claim_uid)
{
	struct error error = { 0 };
	struct end *end = NULL;
	int r = cleaning_end_claim(ends->manager->cleaning, claim_uid, &error);

	if (r < 0)
		end = calloc(1, sizeof(*end));
	if (!end) {
		ends->on_end(request, r < 0 ? &error : NULL, ends->userdata);
		return;
	}
	end->request = request;
	end->deadline = now_usec(CLOCK_MONOTONIC) + DRA_END_TIMEOUT;
	(void)snprintf(end->uid, sizeof(end->uid), "%s", claim_uid);
	end->next = ends->first;
	ends->first = end;
	plan(ends);
}

void dra_ends_drop(struct dra_ends *ends)
{
	while (ends->first) {
		struct end *end = ends->first;

		ends->first = end->next;
		free(end);
	}
}

int dra_ends_new(
	struct manager *manager, dra_end_handler on_end, void *userdata, struct dra_ends **ret)
{
	_cleanup_(dra_ends_freep) struct dra_ends *ends = calloc(1, sizeof(*ends));
	int r;

	if (!ends)
		return -ENOMEM;
	ends->manager = manager;
	ends->on_end = on_end;
	ends->userdata = userdata;
	r = sd_event_add_time(manager->event, &ends->timer, CLOCK_MONOTONIC, USEC_INFINITY,
		USEC_PER_SEC, on_timer, ends);
	if (r < 0)
		return r;
	cleaning_observe(manager->cleaning, try_all, ends);
	*ret = TAKE_PTR(ends);
	return 0;
}

struct dra_ends *dra_ends_free(struct dra_ends *ends)
{
	if (!ends)
		return NULL;
	if (ends->manager->cleaning)
		cleaning_observe(ends->manager->cleaning, NULL, NULL);
	dra_ends_drop(ends);
	sd_event_source_disable_unref(ends->timer);
	free(ends);
	return NULL;
}
