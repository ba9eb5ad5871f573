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

struct claimant {
	struct arbiter *arbiter;
	const char *resource;
	const struct claimant_operations *operations;
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
	struct claimant **all;
	size_t n_all;

	/* The pass that goes on; NULL: none. */
	struct decision *decisions;  /* of `all` */
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
	if (arbiter->decisions)
		decisions_done(arbiter->decisions, arbiter->n_all);
	free(arbiter->decisions);
	arbiter->decisions = NULL;
}

void arbiter_decide(struct arbiter *arbiter)
{
	end_pass(arbiter);
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
	_cleanup_close_ int fd = -EBADF;

	if (*owners) {
		fd = sealed_new("owners", owners, strlen(owners));
		if (fd < 0)
			return fd;
	}
	return claimant->operations->answer(claimant->number, fd, claimant->userdata);
}

/* Sends a child an answer that it lacks; `settled`: the claims of those before it are known. What
 * it sent since its last claims were read has to wait. Returns whether to try again. */
static bool answer(struct claimant *claimant, const char *owners, bool settled)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	char *copy;

	if (claimant->number == 0 || claimant->fd >= 0 ||
		(!claimant->asked && streq(claimant->sent, owners)))
		return false;
	if (claimant->asked && now < claimant->asked_at + ARBITER_PATIENCE && !settled)
		return true;
	copy = strdup(owners);
	if (!copy || send_owners(claimant, owners) < 0) {
		free(copy);
		return true;
	}
	free(claimant->sent);
	claimant->sent = copy;
	claimant->asked = false;
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

/* What one child claims is bounded, and so is what all do: who claims most is the one to go. */
static void make_room(struct arbiter *arbiter)
{
	struct claimant *most = NULL;
	size_t cost = 0;

	for (size_t i = 0; i < arbiter->n_all; i++) {
		struct claimant *claimant = arbiter->all[i];

		cost += claimant->list ? claimant->list->cost : 0;
		if (claimant->list && (!most || claimant->list->cost > most->list->cost))
			most = claimant;
	}
	if (cost <= CLAIMS_COST_MAX)
		return;
	most->list = claims_list_free(most->list);
	claimant_end_process(most);
	most->operations->on_malformed(
		most->userdata, "the child claims more than there is room for");
}

static int read_list(struct claimant *claimant)
{
	_cleanup_close_ int fd = TAKE_FD(claimant->fd);
	struct claims_list *list;
	int r;

	if (fd < 0)
		return 0;
	r = claims_list_read(fd, &list);
	if (r < 0 && r != -EBADMSG && r != -EFBIG) {
		/* Not the child's fault. */
		claimant->fd = TAKE_FD(fd);
		return r;
	}
	if (r < 0) {
		claimant_end_process(claimant);
		claimant->operations->on_malformed(
			claimant->userdata, "the child sent claims that are not valid");
		return 0;
	}
	(void)claims_list_free(claimant->list);
	claimant->list = list;
	make_room(claimant->arbiter);
	return 0;
}

/* --- all of them --- */

static int compare_ranks(const void *a, const void *b)
{
	const struct claimant *const *left = a, *const *right = b;

	return (*left)->rank < (*right)->rank ? -1 : (*left)->rank > (*right)->rank;
}

static int begin_pass(struct arbiter *arbiter)
{
	arbiter->decisions = calloc(arbiter->n_all + 1, sizeof(*arbiter->decisions));
	if (!arbiter->decisions)
		return -ENOMEM;
	qsort(arbiter->all, arbiter->n_all, sizeof(struct claimant *), compare_ranks);
	arbiter->n_read = arbiter->n_sent = 0;
	arbiter->again = arbiter->contested = false;
	return 0;
}

static int read_next(struct arbiter *arbiter)
{
	struct claimant *claimant = arbiter->all[arbiter->n_read];

	/* First, because what it calls may begin the pass again. */
	arbiter->n_read++;
	return read_list(claimant);
}

static int begin_decision(struct arbiter *arbiter)
{
	for (size_t i = 0; i < arbiter->n_all; i++) {
		struct claimant *claimant = arbiter->all[i];

		(void)bookings_unref(claimant->decided);
		claimant->decided = bookings_ref(claimant->booked);
		arbiter->decisions[i] = (struct decision){
			.name = claimant->resource,
			.overlap = claimant->overlap,
			.list = claimant->list,
			.booked = claimant->decided,
		};
	}
	arbiter->settled = all_booked_are_known(arbiter);
	return ownership_new(arbiter->decisions, arbiter->n_all, &arbiter->ownership);
}

static void answer_next(struct arbiter *arbiter)
{
	size_t i = arbiter->n_sent++;
	struct claimant *claimant = arbiter->all[i];
	_cleanup_free_ char *owners = TAKE_PTR(arbiter->decisions[i].owners);
	char *text = TAKE_PTR(arbiter->decisions[i].note);

	arbiter->contested = arbiter->contested || owners;
	arbiter->again = answer(claimant, owners ?: "", arbiter->settled) || arbiter->again;
	arbiter->settled = arbiter->settled && is_known(claimant);
	note(claimant, text);
}

/* Returns 1 if there is more to do, 0 at the end, or negative errno. */
static int go_on(struct arbiter *arbiter)
{
	int r = 0;

	if (!arbiter->decisions)
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
	end_pass(arbiter);
	arbiter->all[arbiter->n_all++] = claimant;
	*ret = claimant;
	return 0;
}

void claimant_set_rank(struct claimant *claimant, size_t rank)
{
	claimant->rank = rank;
	end_pass(claimant->arbiter);
}

void claimant_set_overlap(struct claimant *claimant, bool overlap)
{
	claimant->overlap = overlap;
	end_pass(claimant->arbiter);
}

void claimant_set_booked(struct claimant *claimant, struct bookings *booked)
{
	struct arbiter *arbiter = claimant->arbiter;

	(void)bookings_unref(claimant->booked);
	claimant->booked = bookings_ref(booked);
	/* A running pass checks for news at its end. */
	if (!arbiter->decisions && has_news(arbiter))
		come_again(arbiter, now_usec(CLOCK_MONOTONIC));
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

bool claimant_is_waiting(const struct claimant *claimant)
{
	return claimant->asked;
}

const char *claimant_note(const struct claimant *claimant)
{
	return claimant->note;
}

void claimant_end_process(struct claimant *claimant)
{
	claimant->fd = foreign_close(claimant->fd);
	claimant->number = 0;
	claimant->asked = false;
	free(claimant->sent);
	claimant->sent = NULL;
}

void claimant_drop_claims(struct claimant *claimant)
{
	if (!claimant->list)
		return;
	arbiter_decide(claimant->arbiter);
	claimant->list = claims_list_free(claimant->list);
}

struct claimant *claimant_free(struct claimant *claimant)
{
	struct arbiter *arbiter;
	size_t kept = 0;

	if (!claimant)
		return NULL;
	arbiter = claimant->arbiter;
	end_pass(arbiter);
	for (size_t i = 0; i < arbiter->n_all; i++)
		if (arbiter->all[i] != claimant)
			arbiter->all[kept++] = arbiter->all[i];
	arbiter->n_all = kept;
	arbiter_decide(arbiter);
	claimant_end_process(claimant);
	(void)claims_list_free(claimant->list);
	(void)bookings_unref(claimant->booked);
	(void)bookings_unref(claimant->decided);
	free(claimant->note);
	free(claimant);
	return NULL;
}
