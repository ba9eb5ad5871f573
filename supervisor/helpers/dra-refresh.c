/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a process is asked about claims again: one after the other, each group of its
 * devices. After each file that changed it rests, because every change of a CDI file makes the
 * container runtime read all of them. What cannot be built leaves the file as it is: the process
 * reports the next change, such as a device that is there again. What cannot be written, for
 * example because the disk is full, begins another round.
 */
#include "supervisor/helpers/dra-refresh.h"

#include <systemd/sd-event.h>

#include "common/json-read.h"
#include "common/log.h"
#include "supervisor/books/booked.h"
#include "supervisor/books/dra-claim.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/helpers/dra-question.h"

#define WRITE_INTERVAL (100 * USEC_PER_MSEC)
/* Between the beginnings of two rounds. */
#define ROUND_INTERVAL (100 * USEC_PER_MSEC)
/* As long as something cannot be written. */
#define RETRY_INTERVAL USEC_PER_SEC

/* The claims of one process. */
struct refresh {
	struct refresh *next;
	struct dra_refreshes *all;
	const struct child *child;
	struct dra_question question;
	uint64_t position; /* of the claim in hand, see dra_claims_next() */
	json_t *claim;     /* NULL: none yet */
	size_t at;
	bool running;
	bool again;          /* there was another change meanwhile */
	bool failed;         /* in this round, and another attempt may succeed */
	uint64_t not_before; /* the next round; CLOCK_MONOTONIC */
	sd_event_source *timer;
	struct log_once logged;
	struct log_budget log_budget;
};

struct dra_refreshes {
	struct manager *manager;
	struct dra_claims *claims;
	struct refresh *first;
};

static struct refresh *refresh_free(struct refresh *refresh)
{
	for (struct refresh **r = &refresh->all->first; *r; r = &(*r)->next)
		if (*r == refresh) {
			*r = refresh->next;
			break;
		}
	sd_event_source_disable_unref(refresh->timer);
	json_decref(refresh->claim);
	free(refresh);
	return NULL;
}

static void go_on(struct refresh *refresh, uint64_t delay)
{
	(void)sd_event_source_set_time(refresh->timer, now_usec(CLOCK_MONOTONIC) + delay);
	(void)sd_event_source_set_enabled(refresh->timer, SD_EVENT_ONESHOT);
}

static void note(struct refresh *refresh, const struct error *error)
{
	const struct log_fields fields = { .resource = refresh->child->resource->name };

	if (log_once_admits_within(&refresh->logged, &refresh->log_budget, &fields, error->message))
		log_full(LOG_WARNING, &fields,
			"cannot bring the CDI file of the claim %s/%s up to date: %s; it stays as "
			"it is",
			text_of(refresh->claim, "namespace"), text_of(refresh->claim, "name"),
			error->message);
}

/* Moves on to the next group of the resource. Returns false if there is none. */
static bool find_group(struct refresh *refresh)
{
	const char *resource = refresh->child->resource->name;

	for (;;) {
		for (; refresh->at < dra_claim_count(refresh->claim); refresh->at++)
			if (streq(text_of(dra_claim_device(refresh->claim, refresh->at),
					  "resource"),
				    resource) &&
				dra_claim_begins_group(refresh->claim, refresh->at))
				return true;
		json_decref(refresh->claim);
		refresh->claim = json_incref((json_t *)(uintptr_t)dra_claims_next(
			refresh->all->claims, &refresh->position));
		refresh->at = 0;
		if (!refresh->claim)
			return false;
	}
}

static void begin(struct refresh *refresh)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	refresh->running = true;
	refresh->again = refresh->failed = false;
	refresh->position = 0;
	json_decref(refresh->claim);
	refresh->claim = NULL;
	refresh->at = 0;
	go_on(refresh, refresh->not_before - MIN_OF(refresh->not_before, now));
	refresh->not_before = MAX_OF(refresh->not_before, now) + ROUND_INTERVAL;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct refresh *refresh = userdata;
	struct error error = { 0 };
	int r;

	if (!find_group(refresh)) {
		refresh->running = false;
		if (refresh->failed)
			refresh->not_before = now_usec(CLOCK_MONOTONIC) + RETRY_INTERVAL;
		if (refresh->again || refresh->failed)
			begin(refresh);
		return 0;
	}
	r = dra_question_ask(&refresh->question, refresh->all->manager, refresh->claim, refresh->at,
		true, &error);
	if (r >= 0)
		return 0;
	refresh->failed = refresh->failed || r != -ENOENT;
	note(refresh, &error);
	refresh->at++;
	go_on(refresh, WRITE_INTERVAL);
	return 0;
}

static struct refresh *find(const struct dra_refreshes *refreshes, const struct child *child)
{
	struct refresh *refresh = refreshes->first;

	while (refresh && refresh->child != child)
		refresh = refresh->next;
	return refresh;
}

void dra_refresh_begin(struct dra_refreshes *refreshes, const struct child *child)
{
	struct refresh *refresh = find(refreshes, child);

	if (refresh && refresh->running) {
		refresh->again = true;
		return;
	}
	if (!refresh) {
		refresh = calloc(1, sizeof(*refresh));
		if (!refresh)
			return;
		*refresh = (struct refresh){
			.next = refreshes->first, .all = refreshes, .child = child
		};
		refreshes->first = refresh;
		if (sd_event_add_time(refreshes->manager->event, &refresh->timer, CLOCK_MONOTONIC,
			    USEC_INFINITY, 0, on_timer, refresh) < 0) {
			(void)refresh_free(refresh);
			return;
		}
	}
	begin(refresh);
}

/* Whether another attempt to write a file may succeed. */
static bool is_passing(int r)
{
	return r < 0 && r != -ENOENT && r != -E2BIG && r != -ESTALE;
}

void dra_refresh_take(
	struct dra_refreshes *refreshes, const struct child *child, struct control_message *message)
{
	struct refresh *refresh = find(refreshes, child);
	_cleanup_edits_ struct dra_edits edits = { 0 };
	struct error error = { 0 };
	uint64_t delay = 0;
	bool written;
	int r;

	if (!refresh || !dra_question_is_answer(&refresh->question, child, message))
		return;
	/* It cannot build them now, for example because the device is away. */
	if (message->fds[0] >= 0) {
		r = dra_question_read(child, message, refresh->claim, refresh->at, &edits, &error);
		written = r >= 0;
		if (r >= 0)
			r = dra_claims_set_edits(refreshes->claims, refresh->claim, refresh->at,
				edits.names, edits.edits, json_string_value(edits.hash), &error);
		if (written)
			booked_checkpoint_changed(refresh->all->manager->booked);
		if (r < 0 && r != -ENOENT)
			note(refresh, &error);
		refresh->failed = refresh->failed || r == -ENOMEM || (written && is_passing(r));
		delay = WRITE_INTERVAL;
	}
	refresh->at++;
	go_on(refresh, delay);
}

void dra_refresh_child_gone(struct dra_refreshes *refreshes, const struct child *child)
{
	struct refresh *refresh = find(refreshes, child);

	if (refresh)
		(void)refresh_free(refresh);
}

int dra_refresh_new(struct manager *manager, struct dra_claims *claims, struct dra_refreshes **ret)
{
	struct dra_refreshes *refreshes = calloc(1, sizeof(*refreshes));

	if (!refreshes)
		return -ENOMEM;
	refreshes->manager = manager;
	refreshes->claims = claims;
	*ret = refreshes;
	return 0;
}

struct dra_refreshes *dra_refresh_free(struct dra_refreshes *refreshes)
{
	if (!refreshes)
		return NULL;
	while (refreshes->first)
		(void)refresh_free(refreshes->first);
	free(refreshes);
	return NULL;
}
