/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the owners of devices are decided again, and which children are sent the result.
 * Every decision is one pass over the claims in memory (ownership.c), whose number is bounded. The
 * claims of children are read first, in several turns of the loop if that takes long. When hardware
 * is plugged in, all children receive the same event, and the slowest may be the first in the file.
 */
#include "supervisor/ownership/arbiter.h"

#include "common/foreign.h"
#include "common/log.h"
#include "common/map.h"
#include "common/pace.h"
#include "common/sealed.h"
#include "common/text.h"
#include "supervisor/ownership/exclusive.h"
#include "supervisor/ownership/ownership.h"
#include "supervisor/ownership/taken.h"

/* The interval of retries while a child waits for others, or does not read. */
#define LOOK_AGAIN (20 * USEC_PER_MSEC)
/* After this time no further list is read in the same turn of the loop. */
#define READING_TIME (5 * USEC_PER_MSEC)

#define TEXT_OF(number)      TEXT_OF_VALUE(number)
#define TEXT_OF_VALUE(value) #value
#define REFUSAL                                                                                \
	"the devices that were found last are not offered: with them, all resources together " \
	"would have more than " TEXT_OF(                                                       \
		CLAIMS_MAX) " device nodes and addresses; match fewer devices"

struct claimant {
	struct arbiter *arbiter;
	const char *resource;
	const struct claimant_operations *operations;
	void *userdata;
	size_t rank;
	int overlap; /* enum overlap */
	struct taken_devices taken;
	struct strings held; /* devices of claims that are being prepared, one for each claim */

	struct hardware_claims *list; /* the devices found; NULL: not known */
	int fd;                       /* the newest devices found, not read yet, or -EBADF */
	bool refused;                 /* the last text was refused; `list` is older */
	uint64_t number;              /* number of the process's last message; 0: none */
	bool asked;                   /* it waits for an answer */
	uint64_t asked_at;            /* CLOCK_MONOTONIC */
	bool has_new;                 /* it has found new hardware, and the resources before it
				       * were not asked to scan since */
	uint64_t awaits;              /* the number of the scan of others; 0: none */
	uint64_t scan, scanned;       /* the last number that it was asked to scan for, and the last
				       * one that it answered */
	uint64_t scan_since;          /* when it was asked for a scan, or answered an earlier one of
				       * several */
	uint64_t caused[ARBITER_SCANS_MAX]; /* when it had others scan, a ring */
	size_t n_caused;
	char *sent;              /* the last answer to the process; NULL: none */
	struct bookings *booked; /* NULL: nothing, or not known */
	bool replays;            /* see claimant_replays() */
	char *note;              /* for people; NULL: none */
	struct log_budget log_budget;
};

struct arbiter {
	sd_event_source *timer;
	bool stopped;
	struct pace pace;
	uint64_t n_scans; /* the number of the last scan that resources were asked for */
	struct claimant **all;
	size_t n_all;
	size_t n_read;        /* of `all`, before the next decision */
	uint64_t taken_until; /* when the next device that was taken is dropped; 0: none is */
	bool contested;       /* a device is claimed by several, so bookings matter */
	struct foreign_bookings *foreign;
	size_t n_foreign;
};

static void come_again(struct arbiter *arbiter, uint64_t at)
{
	if (arbiter->stopped)
		return;
	(void)sd_event_source_set_time(arbiter->timer, MAX_OF(at, arbiter->pace.not_before));
	(void)sd_event_source_set_enabled(arbiter->timer, SD_EVENT_ONESHOT);
}

void arbiter_decide(struct arbiter *arbiter)
{
	come_again(arbiter, now_usec(CLOCK_MONOTONIC));
}

/* --- one resource --- */

/* Whether it has sent its claims, or will not send them soon. */
static bool is_known(const struct claimant *claimant)
{
	return claimant->list || !claimant->operations->is_starting(claimant->userdata);
}

static bool all_booked_are_known(const struct arbiter *arbiter)
{
	for (size_t i = 0; i < arbiter->n_all; i++) {
		const struct claimant *claimant = arbiter->all[i];

		if (claimant->booked && claimant->booked->count > 0 && !is_known(claimant))
			return false;
	}
	return true;
}

static int send_owners(const struct claimant *claimant, const char *owners)
{
	const char *refusal = claimant->refused ? REFUSAL : "";
	_cleanup_close_ int fd = -EBADF;

	if (*owners) {
		fd = sealed_new("owners", owners, strlen(owners));
		if (fd < 0)
			return fd;
	}
	return claimant->operations->answer(claimant->number, fd, refusal, claimant->userdata);
}

/* Sends a child a missing answer; `settled`: the claims of the resources before it are known.
 * Claims that arrived after the last read have to wait. Returns whether to try again. */
static bool answer(struct claimant *claimant, const char *owners, bool settled)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	char *copy;

	if (claimant->number == 0 || (!claimant->asked && streq(claimant->sent, owners)))
		return false;
	if (claimant->fd >= 0 ||
		(claimant->asked && now < claimant->asked_at + ARBITER_TIMEOUT && !settled))
		return true;
	copy = strdup(owners);
	if (!copy || send_owners(claimant, owners) < 0) {
		free(copy);
		return true;
	}
	free(claimant->sent);
	claimant->sent = copy;
	claimant->asked = claimant->has_new = false;
	claimant->awaits = 0;
	return false;
}

static void note(struct claimant *claimant, char *text)
{
	const struct log_fields fields = { .resource = claimant->resource };
	bool differs;

	/* It names devices as the child does. */
	if (text)
		text_sanitize(text);
	differs = !text != !claimant->note || (text && !streq(text, claimant->note));
	if (text && differs && log_budget_admits(&claimant->log_budget, &fields))
		log_full(LOG_WARNING, &fields, "%s", text);
	free(claimant->note);
	claimant->note = text;
	if (differs)
		claimant->operations->on_note(claimant->userdata);
}

/* The limit minus the claims of other children, but never less than an equal share, so that no
 * child can use the share of others. */
static size_t room(const struct arbiter *arbiter, size_t limit, size_t used)
{
	return MAX_OF(limit > used ? limit - used : 0, limit / arbiter->n_all);
}

/* Whether the list has a claim that the other one lacks. Without memory, it counts as one. */
static bool has_new_claims(const struct hardware_claims *list, const struct hardware_claims *known)
{
	_cleanup_(map_done) struct map claims = { 0 };

	for (size_t i = 0; i < known->n_devices; i++)
		for (const char *const *claim = known->devices[i].claims; *claim; claim++)
			if (map_put(&claims, *claim, (void *)*claim) == -ENOMEM)
				return true;
	for (size_t i = 0; i < list->n_devices; i++)
		for (const char *const *claim = list->devices[i].claims; *claim; claim++)
			if (!map_get(&claims, *claim))
				return true;
	return false;
}

static int read_list(struct claimant *claimant)
{
	const struct arbiter *arbiter = claimant->arbiter;
	_cleanup_close_ int fd = TAKE_FD(claimant->fd);
	size_t claims = 0, bytes = 0;
	struct hardware_claims *list;
	int r;

	for (size_t i = 0; i < arbiter->n_all; i++) {
		const struct hardware_claims *other = arbiter->all[i]->list;

		if (other && arbiter->all[i] != claimant) {
			claims += other->n_claims;
			bytes += other->size;
		}
	}
	r = hardware_claims_read(fd, room(arbiter, CLAIMS_MAX, claims),
		room(arbiter, CLAIMS_BYTES_MAX, bytes), &list);
	if (r < 0 && r != -EBADMSG && r != -EFBIG) {
		/* Not the child's fault. */
		claimant->fd = TAKE_FD(fd);
		return r;
	}
	claimant->refused = r == -EFBIG;
	if (r == -EBADMSG) {
		claimant_end_process(claimant);
		claimant->operations->on_malformed(claimant->userdata);
	}
	if (r < 0)
		return 0;
	/* Resources before a new one have scanned before it. */
	if (claimant->list && has_new_claims(list, claimant->list))
		claimant->has_new = true;
	(void)hardware_claims_free(claimant->list);
	claimant->list = list;
	return 0;
}

/* --- all of them --- */

static int compare_ranks(const void *a, const void *b)
{
	const struct claimant *const *left = a, *const *right = b;

	return (*left)->rank < (*right)->rank ? -1 : (*left)->rank > (*right)->rank;
}

/* Returns 1 if there may be more to read, 0 at the end, or negative errno. */
static int read_next(struct arbiter *arbiter)
{
	while (arbiter->n_read < arbiter->n_all) {
		struct claimant *claimant = arbiter->all[arbiter->n_read++];

		if (claimant->fd >= 0) {
			int r = read_list(claimant);

			return r < 0 ? r : 1;
		}
	}
	return 0;
}

static void set_replays(struct claimant *claimant, bool replays)
{
	bool differs = replays != claimant->replays;

	claimant->replays = replays;
	if (differs)
		claimant->operations->on_replays(claimant->userdata);
}

static char *note_of(const struct claimant *claimant, char **note)
{
	return claimant->refused ? strdup(REFUSAL) : TAKE_PTR(*note);
}

/* --- scans before an answer --- */

/* Whether the resource may have others scan again. */
static bool admit_scan(struct claimant *claimant, uint64_t now)
{
	uint64_t *oldest = &claimant->caused[claimant->n_caused % ARBITER_SCANS_MAX];

	if (*oldest > 0 && now < *oldest + ARBITER_SCANS_PERIOD)
		return false;
	*oldest = now;
	claimant->n_caused++;
	return true;
}

static void scan(struct claimant *claimant, uint64_t number, uint64_t now)
{
	if (claimant->scanned == claimant->scan)
		claimant->scan_since = now;
	claimant->scan = number;
	if (claimant->number == 0 || claimant->operations->scan(number, claimant->userdata) < 0)
		claimant->scanned = number;
}

/* Has the resources before one that has found new hardware scan. All are sorted. */
static void scan_for_new(struct arbiter *arbiter, uint64_t now)
{
	size_t n = 0;

	for (size_t i = 0; i < arbiter->n_all; i++) {
		struct claimant *claimant = arbiter->all[i];

		if (!claimant->has_new || (i > 0 && !admit_scan(claimant, now)))
			continue;
		claimant->has_new = false;
		claimant->awaits = arbiter->n_scans + 1;
		n = i;
	}
	if (n == 0)
		return;
	arbiter->n_scans++;
	for (size_t i = 0; i < n; i++)
		scan(arbiter->all[i], arbiter->n_scans, now);
}

/* Whether the resources before that one have scanned for it, or do not within the time. */
static bool others_have_scanned(const struct arbiter *arbiter, size_t index, uint64_t now)
{
	const struct claimant *claimant = arbiter->all[index];

	if (claimant->has_new)
		return false;
	for (size_t i = 0; i < index && claimant->awaits > 0; i++) {
		const struct claimant *other = arbiter->all[i];

		/* What arrived after the last read is to be read first. */
		if (other->fd >= 0)
			return false;
		if (other->scan >= claimant->awaits && other->scanned < claimant->awaits &&
			now < other->scan_since + ARBITER_TIMEOUT)
			return false;
	}
	return true;
}

/* What is known of each resource, in their order; those of foreign names come last. NULL: no
 * memory.
 */
static struct decision *make_decisions(struct arbiter *arbiter)
{
	const size_t n = arbiter->n_all;
	struct decision *decisions = calloc(n + arbiter->n_foreign + 1, sizeof(*decisions));

	if (!decisions)
		return NULL;
	qsort(arbiter->all, n, sizeof(struct claimant *), compare_ranks);
	for (size_t i = 0; i < n; i++) {
		const struct claimant *claimant = arbiter->all[i];

		decisions[i] = (struct decision){
			.name = claimant->resource,
			.overlap = claimant->overlap,
			.root = claimant->operations->root(claimant->userdata),
			.list = claimant->list,
			.booked = claimant->booked,
			.taken = &claimant->taken.by_id,
			.held = &claimant->held,
			.name_user = claimant->operations->name_user,
			.userdata = claimant->userdata,
		};
	}
	for (size_t i = 0; i < arbiter->n_foreign; i++)
		decisions[n + i] = (struct decision){
			.name = arbiter->foreign[i].resource,
			.booked = arbiter->foreign[i].booked,
			.foreign = true,
		};
	return decisions;
}

/* --- devices that were allocated just now --- */

static uint64_t drop_all_taken(struct arbiter *arbiter, uint64_t now)
{
	uint64_t next = 0;

	for (size_t i = 0; i < arbiter->n_all; i++) {
		struct claimant *claimant = arbiter->all[i];
		uint64_t due = taken_drop(&claimant->taken, claimant->booked, now);

		if (due > 0 && (next == 0 || due < next))
			next = due;
	}
	return next;
}

/* Offered ids as a set of units. */
struct units {
	struct strings names;
	struct map set;
};

static void units_done(struct units *units)
{
	map_done(&units->set);
	strings_done(&units->names);
}
#define _cleanup_units_ _cleanup_(units_done)

static int add_unit(struct units *units, const char *id)
{
	size_t length = strcspn(id, "#");
	char *name;
	int r = strings_add(&units->names, id, length);

	if (r < 0)
		return r;
	name = units->names.items[units->names.count - 1];
	r = map_put(&units->set, name, name);
	return r == -EEXIST ? 0 : r;
}

/* Whether hardware of the units is free. */
static int check_units(struct claimant *claimant, const struct units *units, struct error *error)
{
	struct arbiter *arbiter = claimant->arbiter;
	_cleanup_free_ struct decision *decisions = make_decisions(arbiter);
	size_t i = 0;

	if (!decisions)
		return error_set(error, -ENOMEM, "out of memory");
	while (arbiter->all[i] != claimant)
		i++;
	return exclusive_check(
		decisions, arbiter->n_all + arbiter->n_foreign, &decisions[i], &units->set, error);
}

/* Ids that are not in the list exclude nothing. */
static int take_units(struct claimant *claimant, const struct units *units)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	int r = 0;

	for (size_t i = 0; claimant->list && i < claimant->list->n_devices && r >= 0; i++) {
		const char *id = claimant->list->devices[i].id;

		if (map_get(&units->set, id))
			r = taken_add(&claimant->taken, id,
				bookings_have_unit(claimant->booked, id, BOOKED_ALONE), now);
	}
	return r;
}

int claimant_take(
	struct claimant *claimant, const char *const *ids, size_t n_ids, struct error *error)
{
	_cleanup_units_ struct units units = { 0 };
	int r = 0;

	if (!claimant_excludes(claimant))
		return 0;
	for (size_t i = 0; i < n_ids && r >= 0; i++)
		r = add_unit(&units, ids[i]);
	if (r < 0)
		return error_set(error, r, "out of memory");
	r = check_units(claimant, &units, error);
	if (r < 0)
		return r;
	r = take_units(claimant, &units);
	if (r < 0)
		return error_set(error, r, "%s",
			r == -ENOSPC ? "too many devices were allocated and are not booked yet"
				     : "out of memory");
	arbiter_decide(claimant->arbiter);
	return 0;
}

int claimant_hold(struct claimant *claimant, const char *id, struct error *error)
{
	_cleanup_units_ struct units units = { 0 };
	bool excludes = claimant_excludes(claimant);
	const char *unit;
	int r;

	if (add_unit(&units, id) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	unit = units.names.items[0];
	r = excludes ? check_units(claimant, &units, error) : 0;
	if (r < 0)
		return r;
	/* The next configuration may have it exclude others. */
	if (strings_add(&claimant->held, unit, strlen(unit)) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	if (excludes)
		arbiter_decide(claimant->arbiter);
	return 0;
}

void claimant_release(struct claimant *claimant, const char *id, bool booked)
{
	_cleanup_free_ char *unit = strndup(id, strcspn(id, "#"));

	/* What another claim has booked stays in use until this one is booked, too. */
	if (booked && unit && !bookings_have_unit(claimant->booked, unit, BOOKED_ALONE))
		(void)claimant_take(claimant, &id, 1, &(struct error){ 0 });
	if (unit && strings_remove(&claimant->held, unit) && claimant_excludes(claimant))
		arbiter_decide(claimant->arbiter);
}

bool arbiter_is_exclusive(const struct arbiter *arbiter)
{
	for (size_t i = 0; i < arbiter->n_all; i++)
		if (claimant_excludes(arbiter->all[i]))
			return true;
	return false;
}

/* Returns 1 if a child still has to be answered, 0 if not, or -ENOMEM. */
static int decide(struct arbiter *arbiter)
{
	const size_t n = arbiter->n_all, n_total = n + arbiter->n_foreign;
	_cleanup_free_ struct decision *decisions = NULL;
	bool again = false, settled = all_booked_are_known(arbiter);
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	int r;

	arbiter->taken_until = drop_all_taken(arbiter, now);
	decisions = make_decisions(arbiter);
	if (!decisions)
		return -ENOMEM;
	scan_for_new(arbiter, now);
	r = ownership_decide(decisions, n_total);
	if (r < 0)
		return r;
	arbiter->contested = false;
	for (size_t i = 0; i < n; i++) {
		struct claimant *claimant = arbiter->all[i];

		arbiter->contested = arbiter->contested || decisions[i].owners;
		again = answer(claimant, decisions[i].owners ?: "",
				settled && others_have_scanned(arbiter, i, now)) ||
			again;
		settled = settled && is_known(claimant);
		set_replays(claimant, decisions[i].replays);
		note(claimant, note_of(claimant, &decisions[i].note));
	}
	decisions_done(decisions, n_total);
	return again;
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct arbiter *arbiter = userdata;
	bool reads;
	uint64_t end;
	int r;

	pace_begin(&arbiter->pace);
	do
		r = read_next(arbiter);
	while (r > 0 && now_usec(CLOCK_MONOTONIC) < arbiter->pace.begun + READING_TIME);
	reads = r > 0;
	if (r == 0)
		r = decide(arbiter);
	if (!reads)
		arbiter->n_read = 0;
	end = pace_end(&arbiter->pace, 0);
	if (r != 0)
		come_again(arbiter, reads ? end : end + LOOK_AGAIN);
	else if (arbiter->taken_until > 0)
		come_again(arbiter, arbiter->taken_until);
	return 0;
}

int arbiter_new(sd_event *event, struct arbiter **ret)
{
	_cleanup_(arbiter_freep) struct arbiter *arbiter = calloc(1, sizeof(*arbiter));
	int r;

	if (!arbiter)
		return -ENOMEM;
	r = sd_event_add_time(
		event, &arbiter->timer, CLOCK_MONOTONIC, USEC_INFINITY, 1, on_due, arbiter);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(arbiter);
	return 0;
}

void arbiter_stop(struct arbiter *arbiter)
{
	arbiter->stopped = true;
	(void)sd_event_source_set_enabled(arbiter->timer, SD_EVENT_OFF);
}

struct arbiter *arbiter_free(struct arbiter *arbiter)
{
	if (!arbiter)
		return NULL;
	sd_event_source_disable_unref(arbiter->timer);
	foreign_bookings_free(arbiter->foreign, arbiter->n_foreign);
	free(arbiter->all);
	free(arbiter);
	return NULL;
}

void foreign_bookings_free(struct foreign_bookings *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(items[i].resource);
		(void)bookings_unref(items[i].booked);
	}
	free(items);
}

void arbiter_set_foreign(struct arbiter *arbiter, struct foreign_bookings *items, size_t n)
{
	foreign_bookings_free(arbiter->foreign, arbiter->n_foreign);
	arbiter->foreign = items;
	arbiter->n_foreign = n;
	arbiter_decide(arbiter);
}

/* --- what a resource does --- */

int arbiter_add(struct arbiter *arbiter, const char *resource,
	const struct claimant_operations *operations, void *userdata, struct claimant **ret)
{
	struct claimant *claimant;

	if (array_reserve((void **)&arbiter->all, arbiter->n_all, sizeof(struct claimant *)) < 0)
		return -ENOMEM;
	claimant = malloc(sizeof(*claimant));
	if (!claimant)
		return -ENOMEM;
	*claimant = (struct claimant){
		.arbiter = arbiter,
		.resource = resource,
		.operations = operations,
		.userdata = userdata,
		.fd = -EBADF,
	};
	arbiter->all[arbiter->n_all++] = claimant;
	*ret = claimant;
	return 0;
}

void claimant_set_rank(struct claimant *claimant, size_t rank)
{
	claimant->rank = rank;
}

void claimant_set_overlap(struct claimant *claimant, int overlap)
{
	claimant->overlap = overlap;
}

void claimant_set_booked(struct claimant *claimant, struct bookings *booked)
{
	struct bookings *before = claimant->booked;
	bool is_used = (before && before->count > 0) || (booked && booked->count > 0);

	claimant->booked = bookings_ref(booked);
	if (booked != before && (is_used || claimant->arbiter->contested))
		arbiter_decide(claimant->arbiter);
	(void)bookings_unref(before);
}

bool claimant_excludes(const struct claimant *claimant)
{
	return claimant->overlap == OVERLAP_EXCLUSIVE;
}

bool claimant_replays(const struct claimant *claimant)
{
	return claimant->replays;
}

void claimant_submit(struct claimant *claimant, int fd, uint64_t number)
{
	(void)foreign_close(claimant->fd);
	claimant->fd = fd;
	claimant->number = number;
	claimant->asked = true;
	claimant->asked_at = now_usec(CLOCK_MONOTONIC);
	come_again(claimant->arbiter, claimant->asked_at);
}

void claimant_scanned(struct claimant *claimant, uint64_t number)
{
	if (number <= claimant->scanned || number > claimant->scan)
		return;
	claimant->scanned = number;
	if (number < claimant->scan)
		claimant->scan_since = now_usec(CLOCK_MONOTONIC);
	arbiter_decide(claimant->arbiter);
}

bool claimant_is_waiting(const struct claimant *claimant)
{
	return claimant->asked;
}

int claimant_nodes(const struct claimant *claimant, const char *id, struct strings *ret)
{
	int r = 0;

	if (!claimant->list || claimant->fd >= 0)
		return -EAGAIN;
	for (size_t i = 0; i < claimant->list->n_devices; i++) {
		const struct hardware_device *device = &claimant->list->devices[i];

		if (!streq(device->id, id))
			continue;
		for (const char *const *claim = device->claims; *claim && r >= 0; claim++)
			if (**claim == '/')
				r = strings_add(ret, *claim, strlen(*claim));
	}
	return r;
}

const char *claimant_note(const struct claimant *claimant)
{
	return claimant->note;
}

void claimant_end_process(struct claimant *claimant)
{
	claimant->fd = foreign_close(claimant->fd);
	claimant->number = 0;
	claimant->asked = claimant->refused = claimant->has_new = false;
	claimant->awaits = 0;
	claimant->scanned = claimant->scan;
	free(claimant->sent);
	claimant->sent = NULL;
}

void claimant_drop_claims(struct claimant *claimant)
{
	if (!claimant->list)
		return;
	arbiter_decide(claimant->arbiter);
	claimant->list = hardware_claims_free(claimant->list);
}

struct claimant *claimant_free(struct claimant *claimant)
{
	struct arbiter *arbiter;
	size_t kept = 0;

	if (!claimant)
		return NULL;
	arbiter = claimant->arbiter;
	for (size_t i = 0; i < arbiter->n_all; i++)
		if (arbiter->all[i] != claimant)
			arbiter->all[kept++] = arbiter->all[i];
	arbiter->n_all = kept;
	arbiter_decide(arbiter);
	claimant_end_process(claimant);
	(void)hardware_claims_free(claimant->list);
	(void)bookings_unref(claimant->booked);
	taken_done(&claimant->taken);
	strings_done(&claimant->held);
	free(claimant->note);
	free(claimant);
	return NULL;
}
