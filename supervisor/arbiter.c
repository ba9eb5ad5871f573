/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the owners of devices are decided again, and which children are sent the result.
 * Every decision is a complete pass over the claims in memory (ownership.c). The pass is divided
 * into slices with pauses between them, so that children with many claims cannot hold up the loop.
 * Messages that arrive meanwhile wait for the next pass; a change of the resources themselves
 * restarts the pass.
 */
#include "supervisor/arbiter.h"

#include "common/foreign.h"
#include "common/log.h"
#include "common/pace.h"
#include "common/sealed.h"
#include "common/text.h"
#include "supervisor/ownership.h"

/* While a child waits for others, or does not read. */
#define LOOK_AGAIN (20 * USEC_PER_MSEC)
/* Duration of a slice, and the number of steps between two reads of the clock. */
#define SLICE       (5 * USEC_PER_MSEC)
#define SLICE_STEPS 1000

struct party {
	struct arbiter *arbiter;
	const char *resource;
	const struct party_operations *operations;
	void *userdata;
	size_t rank;
	bool overlap;

	struct claims_list *list; /* what it found; NULL: not known */
	int fd;                   /* the same, newer and not read yet, or -EBADF */
	uint64_t number;          /* of what the process sent last; 0: nothing */
	bool asked;               /* it waits for an answer */
	uint64_t asked_at;        /* CLOCK_MONOTONIC */
	char *sent;               /* the process, last; NULL: nothing */
	struct bookings *booked;  /* NULL: nothing, or not known */
	struct bookings *decided; /* the same, as the last pass had it */
	char *note;               /* for people; NULL: none */
	struct log_budget log_budget;
};

struct arbiter {
	sd_event_source *timer;
	bool stopped;
	struct pace pace;
	struct party **all;
	size_t n_all;

	/* The pass that goes on; NULL: none. */
	struct claimant *claimants;  /* of `all` */
	struct ownership *ownership; /* NULL: the lists are being read */
	size_t n_read, n_sent;
	bool again, settled;
	bool contested; /* some device is claimed by several: what is booked matters */
};

static void come_again(struct arbiter *arbiter, uint64_t at)
{
	if (arbiter->stopped)
		return;
	(void)sd_event_source_set_time(arbiter->timer, MAX_OF(at, arbiter->pace.not_before));
	(void)sd_event_source_set_enabled(arbiter->timer, SD_EVENT_ONESHOT);
}

/* Ends the pass, if one goes on. */
static void end_pass(struct arbiter *arbiter)
{
	arbiter->ownership = ownership_free(arbiter->ownership);
	if (arbiter->claimants)
		claimants_done(arbiter->claimants, arbiter->n_all);
	free(arbiter->claimants);
	arbiter->claimants = NULL;
}

void arbiter_decide(struct arbiter *arbiter)
{
	end_pass(arbiter);
	come_again(arbiter, now_usec(CLOCK_MONOTONIC));
}

/* --- one resource --- */

/* Whether it has sent its claims, or will not send them soon. */
static bool is_known(const struct party *party)
{
	return party->list || !party->operations->is_starting(party->userdata);
}

static bool all_booked_are_known(const struct arbiter *arbiter)
{
	for (size_t i = 0; i < arbiter->n_all; i++) {
		const struct party *party = arbiter->all[i];

		if (party->booked && party->booked->count > 0 && !is_known(party))
			return false;
	}
	return true;
}

static int send_owners(const struct party *party, const char *owners)
{
	_cleanup_close_ int fd = -EBADF;

	if (*owners) {
		fd = sealed_new("owners", owners, strlen(owners));
		if (fd < 0)
			return fd;
	}
	return party->operations->answer(party->number, fd, party->userdata);
}

/* Sends a child an answer that it lacks; `settled`: the claims of those before it are known. What
 * it sent since its last claims were read has to wait. Returns whether to try again. */
static bool answer(struct party *party, const char *owners, bool settled)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	char *copy;

	if (party->number == 0 || party->fd >= 0 || (!party->asked && streq(party->sent, owners)))
		return false;
	if (party->asked && now < party->asked_at + ARBITER_PATIENCE && !settled)
		return true;
	copy = strdup(owners);
	if (!copy || send_owners(party, owners) < 0) {
		free(copy);
		return true;
	}
	free(party->sent);
	party->sent = copy;
	party->asked = false;
	return false;
}

static void note(struct party *party, char *text)
{
	const struct log_fields fields = { .resource = party->resource };
	bool differs;

	/* It names devices as the child does. */
	if (text)
		text_sanitize(text);
	differs = !text != !party->note || (text && !streq(text, party->note));
	if (text && differs && log_budget_admits(&party->log_budget, &fields))
		log_full(LOG_WARNING, &fields, "%s", text);
	free(party->note);
	party->note = text;
	if (differs)
		party->operations->on_note(party->userdata);
}

/* What one child claims is bounded, and so is what all do: who claims most is the one to go. */
static void make_room(struct arbiter *arbiter)
{
	struct party *most = NULL;
	size_t cost = 0;

	for (size_t i = 0; i < arbiter->n_all; i++) {
		struct party *party = arbiter->all[i];

		cost += party->list ? party->list->cost : 0;
		if (party->list && (!most || party->list->cost > most->list->cost))
			most = party;
	}
	if (cost <= CLAIMS_COST_MAX)
		return;
	most->list = claims_list_free(most->list);
	party_end_process(most);
	most->operations->on_malformed(
		most->userdata, "the child claims more than there is room for");
}

static int read_list(struct party *party)
{
	_cleanup_close_ int fd = TAKE_FD(party->fd);
	struct claims_list *list;
	int r;

	if (fd < 0)
		return 0;
	r = claims_list_read(fd, &list);
	if (r < 0 && r != -EBADMSG && r != -EFBIG) {
		/* Not the child's fault. */
		party->fd = TAKE_FD(fd);
		return r;
	}
	if (r < 0) {
		party_end_process(party);
		party->operations->on_malformed(
			party->userdata, "the child sent claims that are not valid");
		return 0;
	}
	(void)claims_list_free(party->list);
	party->list = list;
	make_room(party->arbiter);
	return 0;
}

/* --- all of them --- */

static int compare_ranks(const void *a, const void *b)
{
	const struct party *const *left = a, *const *right = b;

	return (*left)->rank < (*right)->rank ? -1 : (*left)->rank > (*right)->rank;
}

static int begin_pass(struct arbiter *arbiter)
{
	arbiter->claimants = calloc(arbiter->n_all + 1, sizeof(*arbiter->claimants));
	if (!arbiter->claimants)
		return -ENOMEM;
	qsort(arbiter->all, arbiter->n_all, sizeof(struct party *), compare_ranks);
	arbiter->n_read = arbiter->n_sent = 0;
	arbiter->again = arbiter->contested = false;
	return 0;
}

static int read_next(struct arbiter *arbiter)
{
	struct party *party = arbiter->all[arbiter->n_read];

	/* First, because what it calls may begin the pass again. */
	arbiter->n_read++;
	return read_list(party);
}

static int begin_decision(struct arbiter *arbiter)
{
	for (size_t i = 0; i < arbiter->n_all; i++) {
		struct party *party = arbiter->all[i];

		(void)bookings_unref(party->decided);
		party->decided = bookings_ref(party->booked);
		arbiter->claimants[i] = (struct claimant){
			.name = party->resource,
			.overlap = party->overlap,
			.list = party->list,
			.booked = party->decided,
		};
	}
	arbiter->settled = all_booked_are_known(arbiter);
	return ownership_new(arbiter->claimants, arbiter->n_all, &arbiter->ownership);
}

static void answer_next(struct arbiter *arbiter)
{
	size_t i = arbiter->n_sent++;
	struct party *party = arbiter->all[i];
	_cleanup_free_ char *owners = TAKE_PTR(arbiter->claimants[i].owners);
	char *text = TAKE_PTR(arbiter->claimants[i].note);

	arbiter->contested = arbiter->contested || owners;
	arbiter->again = answer(party, owners ?: "", arbiter->settled) || arbiter->again;
	arbiter->settled = arbiter->settled && is_known(party);
	note(party, text);
}

/* Returns 1 if there is more to do, 0 at the end, or negative errno. */
static int go_on(struct arbiter *arbiter)
{
	int r = 0;

	if (!arbiter->claimants)
		r = begin_pass(arbiter);
	else if (arbiter->n_read < arbiter->n_all)
		r = read_next(arbiter);
	else if (!arbiter->ownership)
		r = begin_decision(arbiter);
	else if ((r = ownership_run(arbiter->ownership, SLICE_STEPS)) == 0) {
		if (arbiter->n_sent == arbiter->n_all)
			return 0;
		answer_next(arbiter);
	}
	return r < 0 ? r : 1;
}

static bool has_news(const struct arbiter *arbiter)
{
	for (size_t i = 0; i < arbiter->n_all; i++)
		if (arbiter->all[i]->fd >= 0 ||
			(arbiter->contested && arbiter->all[i]->booked != arbiter->all[i]->decided))
			return true;
	return false;
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct arbiter *arbiter = userdata;
	uint64_t end;
	int r;

	pace_begin(&arbiter->pace);
	do
		r = go_on(arbiter);
	while (r > 0 && now_usec(CLOCK_MONOTONIC) < arbiter->pace.begun + SLICE);
	end = pace_end(&arbiter->pace, 0);
	if (r <= 0)
		end_pass(arbiter);
	if (r < 0 || (r == 0 && arbiter->again && !has_news(arbiter)))
		come_again(arbiter, end + LOOK_AGAIN);
	else if (r > 0 || has_news(arbiter))
		come_again(arbiter, end);
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
	end_pass(arbiter);
	free(arbiter->all);
	free(arbiter);
	return NULL;
}

/* --- what a resource does --- */

int arbiter_add(struct arbiter *arbiter, const char *resource,
	const struct party_operations *operations, void *userdata, struct party **ret)
{
	struct party *party;

	if (array_reserve((void **)&arbiter->all, arbiter->n_all, sizeof(struct party *)) < 0)
		return -ENOMEM;
	party = malloc(sizeof(*party));
	if (!party)
		return -ENOMEM;
	*party = (struct party){
		.arbiter = arbiter,
		.resource = resource,
		.operations = operations,
		.userdata = userdata,
		.fd = -EBADF,
	};
	end_pass(arbiter);
	arbiter->all[arbiter->n_all++] = party;
	*ret = party;
	return 0;
}

void party_set_rank(struct party *party, size_t rank)
{
	party->rank = rank;
	end_pass(party->arbiter);
}

void party_set_overlap(struct party *party, bool overlap)
{
	party->overlap = overlap;
	end_pass(party->arbiter);
}

void party_set_booked(struct party *party, struct bookings *booked)
{
	struct arbiter *arbiter = party->arbiter;

	(void)bookings_unref(party->booked);
	party->booked = bookings_ref(booked);
	/* A running pass checks for news at its end. */
	if (!arbiter->claimants && has_news(arbiter))
		come_again(arbiter, now_usec(CLOCK_MONOTONIC));
}

void party_submit(struct party *party, int fd, uint64_t number)
{
	(void)foreign_close(party->fd);
	party->fd = fd;
	party->number = number;
	party->asked = true;
	party->asked_at = now_usec(CLOCK_MONOTONIC);
	come_again(party->arbiter, party->asked_at);
}

bool party_is_waiting(const struct party *party)
{
	return party->asked;
}

const char *party_note(const struct party *party)
{
	return party->note;
}

void party_end_process(struct party *party)
{
	party->fd = foreign_close(party->fd);
	party->number = 0;
	party->asked = false;
	free(party->sent);
	party->sent = NULL;
}

void party_drop_claims(struct party *party)
{
	if (!party->list)
		return;
	arbiter_decide(party->arbiter);
	party->list = claims_list_free(party->list);
}

struct party *party_free(struct party *party)
{
	struct arbiter *arbiter;
	size_t kept = 0;

	if (!party)
		return NULL;
	arbiter = party->arbiter;
	end_pass(arbiter);
	for (size_t i = 0; i < arbiter->n_all; i++)
		if (arbiter->all[i] != party)
			arbiter->all[kept++] = arbiter->all[i];
	arbiter->n_all = kept;
	arbiter_decide(arbiter);
	party_end_process(party);
	(void)claims_list_free(party->list);
	(void)bookings_unref(party->booked);
	(void)bookings_unref(party->decided);
	free(party->note);
	free(party);
	return NULL;
}
