/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which claim is asked about next, and which one is tried again. The supervisor is asked
 * first about a claim that it may know: the API server is only needed for a new one.
 * Handlers only note what has happened; go_on() does what follows. All waiting for a claim ends
 * with its call (`until`); then the kubelet gets the last reason.
 */
#include "common/json-read.h"
#include "common/log.h"
#include "common/sealed.h"
#include "dra/dra-call.h"
#include "dra/dra-node.h"
#include "dra/model/dra-names.h"

#define PREPARED_MAX (1U << 20)
/* How many claims of one call are handled at once, without those that wait. */
#define OPEN_MAX 16
/* How many claims wait at once. */
#define WAITS_MAX 256
/* Between two attempts: at first, and at most. */
#define WAIT_MIN (50 * USEC_PER_MSEC)
#define WAIT_MAX (1 * USEC_PER_SEC)
/* How many claims are tried again at once. */
#define RETRIES_AT_ONCE 16
/* How often a claim is tried again that may fail the same way each time, and when first. */
#define RETRIES_MAX 3
#define RETRY_DELAY (1 * USEC_PER_SEC)
/* For the supervisor, which knows `until` and has the better reason. */
#define GRACE (1 * USEC_PER_SEC)
/* How many claims are read at once from a server that answers. */
#define READS_AT_ONCE 8
/* Until a supervisor that does not read its socket is sent more. */
#define SEND_RETRY (10 * USEC_PER_MSEC)

enum stage {
	SEND,    /* its question to the supervisor */
	SENT,    /* and waits for the answer */
	READ,    /* the claim from the API server, when it is its turn */
	READING, /* and waits for the answer */
	WAIT,    /* until `retry_at`, for the stage `then` */
};

/* A claim that is being handled. */
struct job {
	struct job *next;
	struct dra_calls *calls;
	struct dra_call *call;
	size_t at;
	enum stage stage, then;
	json_t *question; /* NULL: to unprepare */
	uint64_t number;
	enum cluster_again again; /* why it waits */
	uint64_t retry_at;        /* CLOCK_MONOTONIC */
	uint64_t delay;
	bool has_waited;
	bool unprepared; /* the answer of the supervisor, which was asked before, ends it */
	unsigned n_retries;
	char *reason; /* why the last attempt failed; NULL: there was none */
};

struct dra_calls {
	const struct dra_node_options *options;
	struct dra_call *first;
	struct job *jobs;
	size_t n_waiting; /* claims that wait, or are tried again after they have waited */
	/* While the API server fails, claims share its attempts. With each answer, more are read at
	 * once. */
	size_t reads_max;
	struct dra_outage outage;
	char read_failure[CONTROL_TEXT_MAX];
	sd_event_source *send_timer, *call_timer;
};

static const Dra__Claim *claim_of(const struct job *job)
{
	return job->call->claims[job->at];
}

static void count(const struct dra_call *call, uint64_t driver, bool failed)
{
	enum cluster_event event = call->prepare
		? failed ? CLUSTER_PREPARE_FAILED : CLUSTER_PREPARE_OK
		: failed ? CLUSTER_UNPREPARE_FAILED
			 : CLUSTER_UNPREPARE_OK;

	control_cluster_count(event, driver, now_usec(CLOCK_MONOTONIC) - call->arrived_at);
}

/* The supervisor logs it, as an event. */
static void report_refusal(const struct dra_call *call, size_t at, const char *failure)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_REFUSED);

	(void)snprintf(message.text, sizeof(message.text), "cannot %s the claim %s/%s: %s",
		call->prepare ? "prepare" : "unprepare", call->claims[at]->namespace_,
		call->claims[at]->name, failure);
	(void)control_send(CONTROL_FD, &message);
}

/* Takes the devices. */
static void set_outcome(const struct dra_calls *calls, struct dra_call *call, size_t at,
	json_t *devices, const char *failure)
{
	call->outcomes[at].devices = devices;
	if (devices)
		calls->options->on_prepared(call->claims[at]->namespace_, call->claims[at]->name,
			call->claims[at]->uid, devices, calls->options->userdata);
	/* A process that stops answers no call. */
	if ((devices || failure) && !call->cancelled)
		count(call, calls->options->number, failure && *failure);
	if (!failure || !*failure)
		return;
	if (!call->cancelled)
		report_refusal(call, at, failure);
	call->outcomes[at].failure = strdup(failure);
	/* Without it the kubelet would take the claim for prepared, or for unprepared. So without
	 * memory, the process ends and is started again. */
	if (!call->outcomes[at].failure)
		abort();
}

static void set_stage(struct job *job, enum stage stage)
{
	if (job->stage == WAIT)
		job->call->n_waiting--;
	if (stage == WAIT)
		job->call->n_waiting++;
	job->stage = stage;
}

static void end_job(struct job *job, json_t *devices, const char *failure)
{
	struct control_message cancel = CLUSTER_MESSAGE_INIT(CLUSTER_CANCEL);

	for (struct job **j = &job->calls->jobs; *j; j = &(*j)->next)
		if (*j == job) {
			*j = job->next;
			break;
		}
	if (job->stage == READING)
		dra_api_cancel(job->calls->options->api, job);
	cancel.number = job->number;
	if (job->stage == SENT && job->call->prepare)
		(void)control_send(CONTROL_FD, &cancel);
	set_stage(job, SEND);
	if (job->has_waited && job->call->cancelled)
		log_info("the claim %s/%s no longer waits: %s", claim_of(job)->namespace_,
			claim_of(job)->name, failure);
	job->calls->n_waiting -= job->has_waited;
	set_outcome(job->calls, job->call, job->at, devices, failure);
	job->call->n_open--;
	json_decref(job->question);
	free(job->reason);
	free(job);
}

/* --- waiting --- */

static bool may_wait(const struct job *job, enum cluster_again again)
{
	return job->call->prepare && (job->has_waited || job->calls->n_waiting < WAITS_MAX) &&
		(again == CLUSTER_WHEN_FREE ||
			(again == CLUSTER_A_FEW_TIMES && job->n_retries < RETRIES_MAX));
}

static uint64_t next_delay(struct job *job, enum cluster_again again)
{
	if (again == CLUSTER_A_FEW_TIMES)
		return RETRY_DELAY << job->n_retries++;
	job->delay = job->delay == 0 ? WAIT_MIN : MIN_OF(job->delay * 2, WAIT_MAX);
	return job->delay;
}

/* An attempt has failed: the claim waits for the next one, which begins with the stage `then` and
 * not before a time (CLOCK_MONOTONIC), or fails. */
static void try_again(struct job *job, enum stage then, enum cluster_again again,
	uint64_t not_before, const char *reason)
{
	const Dra__Claim *claim = claim_of(job);
	uint64_t retry_at;

	if (!may_wait(job, again)) {
		end_job(job, NULL, reason);
		return;
	}
	if (!job->has_waited) {
		job->has_waited = true;
		job->calls->n_waiting++;
		log_info("the claim %s/%s waits: %s", claim->namespace_, claim->name, reason);
	}
	free(job->reason);
	job->reason = strdup(reason);
	job->again = again;
	job->then = then;
	retry_at = now_usec(CLOCK_MONOTONIC) + next_delay(job, again);
	job->retry_at = MAX_OF(retry_at, not_before);
	set_stage(job, WAIT);
}

/* A few at a time: the answers have to fit in the socket. */
static void end_waits(struct dra_calls *calls)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	size_t n = 0;

	for (struct job *job = calls->jobs; job; job = job->next) {
		if (job->stage != WAIT || job->retry_at > now)
			continue;
		if (n++ < RETRIES_AT_ONCE)
			set_stage(job, job->then);
		else
			job->retry_at = now + SEND_RETRY;
	}
}

/* --- the supervisor --- */

/* A repeated call joins the preparation without the API server. */
static void note_asked(const struct job *job)
{
	if (job->call->prepare)
		(void)json_object_set_new(
			job->calls->options->claims, claim_of(job)->uid, json_true());
}

static int send_question(struct job *job)
{
	_cleanup_control_ struct control_message message =
		CLUSTER_MESSAGE_INIT(job->call->prepare ? CLUSTER_PREPARE : CLUSTER_UNPREPARE);
	_cleanup_free_ char *text = NULL;
	int r;

	if (job->question) {
		text = json_dumps(job->question, JSON_COMPACT);
		if (text && strlen(text) >= CLUSTER_CLAIM_MAX)
			return -E2BIG;
		message.fds[0] = text ? sealed_new("claim", text, strlen(text)) : -EBADF;
		if (message.fds[0] < 0)
			return -ENOMEM;
	} else
		(void)snprintf(message.text, sizeof(message.text), "%s", claim_of(job)->uid);
	message.driver = job->calls->options->number;
	message.until = job->call->prepare ? job->call->until : 0;
	message.number = *job->calls->options->last_question + 1;
	r = control_send(CONTROL_FD, &message);
	if (r < 0)
		return r;
	note_asked(job);
	job->number = ++*job->calls->options->last_question;
	set_stage(job, SENT);
	return 0;
}

static void send_questions(struct dra_calls *calls)
{
	struct job *next;

	for (struct job *job = calls->jobs; job; job = next) {
		int r = job->stage == SEND ? send_question(job) : 0;

		next = job->next;
		if (r == -EAGAIN) {
			(void)sd_event_source_set_time_relative(calls->send_timer, SEND_RETRY);
			(void)sd_event_source_set_enabled(calls->send_timer, SD_EVENT_ONESHOT);
			return;
		}
		if (r == -E2BIG)
			end_job(job, NULL,
				"the claim is too large for devplugd; request fewer devices in it");
		else if (r < 0)
			end_job(job, NULL, "cannot send the request to devplugd");
	}
}

/* --- the API server --- */

static void go_on(struct dra_calls *calls);

/* Returns whether the server fails. */
static bool note_outage(struct dra_calls *calls, const struct dra_answer *answer)
{
	if (!dra_api_note_outage(&calls->outage, answer, now_usec(CLOCK_MONOTONIC))) {
		calls->reads_max = MIN_OF(calls->reads_max * 2, (size_t)READS_AT_ONCE);
		return false;
	}
	calls->reads_max = 1;
	(void)snprintf(calls->read_failure, sizeof(calls->read_failure),
		"cannot read the claim: %s", answer->failure);
	return true;
}

static enum cluster_again again_of(int code)
{
	switch (code) {
	case -EAGAIN:
		return CLUSTER_WHEN_FREE;
	/* The server may not know yet that the claim is for this node, and devplugd may not know
	 * yet a device, or that it is shared again. */
	case -EIO:
	case -ENODEV:
		return CLUSTER_A_FEW_TIMES;
	default:
		return CLUSTER_NEVER;
	}
}

static void take_claim(struct job *job, const struct dra_answer *answer)
{
	const struct dra_node_options *options = job->calls->options;
	const struct dra_known known = options->get_known(options->userdata);
	struct error error = { 0 };
	json_t *claim = NULL;
	int r;

	r = answer->failure
		? error_set(&error, -EIO, "cannot read the claim: %s", answer->failure)
		: dra_allocation_read(answer->body, claim_of(job)->uid, &known, &claim, &error);
	if (r < 0) {
		try_again(job, READ, again_of(r), 0, error.message);
		return;
	}
	set_stage(job, SEND);
	json_decref(job->question);
	job->question = claim;
}

static void on_claim_read(const struct dra_answer *answer, void *userdata)
{
	struct job *job = userdata;
	struct dra_calls *calls = job->calls;

	set_stage(job, READ);
	if (!note_outage(calls, answer))
		take_claim(job, answer);
	go_on(calls);
}

static void read_claim(struct job *job)
{
	const Dra__Claim *claim = claim_of(job);
	struct dra_calls *calls = job->calls;
	char path[640];

	if (now_usec(CLOCK_MONOTONIC) < calls->outage.until) {
		try_again(job, READ, CLUSTER_WHEN_FREE, calls->outage.until, calls->read_failure);
		return;
	}
	(void)snprintf(path, sizeof(path), DRA_CLAIM_PATH, claim->namespace_, claim->name);
	if (dra_api_request(calls->options->api, "GET", path, NULL, on_claim_read, job) < 0)
		end_job(job, NULL, "out of memory");
	else
		set_stage(job, READING);
}

static size_t count_reading(const struct dra_calls *calls)
{
	size_t n = 0;

	for (const struct job *job = calls->jobs; job; job = job->next)
		n += job->stage == READING;
	return n;
}

static void read_claims(struct dra_calls *calls)
{
	size_t reading = count_reading(calls);
	struct job *next;

	for (struct job *job = calls->jobs; job && reading < calls->reads_max; job = next) {
		next = job->next;
		if (job->stage != READ)
			continue;
		read_claim(job);
		reading = count_reading(calls);
	}
}

/* --- claims and calls --- */

/* Returns why the claim cannot be handled, or NULL. */
static const char *begin_claim(struct dra_calls *calls, struct dra_call *call)
{
	size_t at = call->n_begun++;
	const Dra__Claim *claim = call->claims[at];
	struct job *job, **last = &calls->jobs;

	if (call->outcomes[at].failure)
		return NULL;
	if (!dra_name_is_valid(claim->namespace_, DRA_OBJECT_NAME_MAX) ||
		!dra_name_is_valid(claim->name, DRA_OBJECT_NAME_MAX) ||
		!dra_name_is_valid(claim->uid, DRA_CLAIM_ID_MAX) || strchr(claim->uid, '.'))
		return "the claim has no valid namespace, name and uid";
	job = calloc(1, sizeof(*job));
	if (!job)
		return "out of memory";
	*job = (struct job){ .calls = calls, .call = call, .at = at };
	if (call->prepare && !json_object_get(calls->options->claims, claim->uid))
		job->stage = READ;
	if (call->prepare)
		job->question = json_pack("{s:s, s:s, s:s}", "uid", claim->uid, "namespace",
			claim->namespace_, "name", claim->name);
	while (*last)
		last = &(*last)->next;
	*last = job;
	call->n_open++;
	return NULL;
}

/* Whether the call has room for its next claim. */
static bool has_room(const struct dra_call *call)
{
	return call->n_begun < call->n_claims && call->n_open - call->n_waiting < OPEN_MAX;
}

static void begin_claims(struct dra_calls *calls)
{
	for (struct dra_call *call = calls->first; call; call = call->next)
		while (has_room(call)) {
			const char *failure = begin_claim(calls, call);

			if (failure)
				set_outcome(calls, call, call->n_begun - 1, NULL, failure);
		}
}

/* Returns whether a call has room for its next claim. */
static bool answer_calls(struct dra_calls *calls)
{
	struct dra_call **slot = &calls->first;
	bool room = false;

	while (*slot) {
		struct dra_call *call = *slot;

		if (call->n_begun < call->n_claims || call->n_open > 0) {
			room |= has_room(call);
			slot = &call->next;
			continue;
		}
		*slot = call->next;
		dra_call_answer(call);
	}
	return room;
}

static void plan(struct dra_calls *calls)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC), next = USEC_INFINITY;

	for (const struct dra_call *call = calls->first; call; call = call->next)
		next = MIN_OF(next, call->until + (call->until <= now ? GRACE : 0));
	for (const struct job *job = calls->jobs; job; job = job->next)
		if (job->stage == WAIT)
			next = MIN_OF(next, job->retry_at);
	(void)sd_event_source_set_time(calls->call_timer, next);
	(void)sd_event_source_set_enabled(calls->call_timer, SD_EVENT_ONESHOT);
}

static void go_on(struct dra_calls *calls)
{
	do {
		begin_claims(calls);
		send_questions(calls);
		read_claims(calls);
	} while (answer_calls(calls));
	plan(calls);
}

static const char late[] = "devplugd did not answer in time; the kubelet will retry";

static const char *last_reason(const struct job *job)
{
	if (job->reason)
		return job->reason;
	return job->stage == READING || job->stage == READ
		? "cannot read the claim: the API server did not answer in time"
		: late;
}

/* Ends the claims of a call, with `failure` or, if there is none, each with its last reason. With
 * `not_sent`, claims that the supervisor handles stay. */
static void end_call(
	struct dra_calls *calls, struct dra_call *call, bool not_sent, const char *failure)
{
	struct job *next;

	for (struct job *job = calls->jobs; job; job = next) {
		next = job->next;
		if (job->call == call && !(not_sent && job->stage == SENT))
			end_job(job, NULL, failure ?: last_reason(job));
	}
	while (call->n_begun < call->n_claims)
		set_outcome(calls, call, call->n_begun++, NULL, failure ?: late);
}

static int on_call_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	struct dra_calls *calls = userdata;

	for (struct dra_call *call = calls->first; call; call = call->next)
		if (call->until <= now)
			end_call(calls, call, now < call->until + GRACE, NULL);
	end_waits(calls);
	go_on(calls);
	return 0;
}

static int on_send_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	go_on(userdata);
	return 0;
}

static const char unprepared[] = "the claim was unprepared while it was being prepared";

/* The kubelet no longer wants the claim. The supervisor ends what it was sent. */
static void end_preparation(struct dra_calls *calls, const char *uid)
{
	struct job *next;

	for (struct job *job = calls->jobs; job; job = next) {
		next = job->next;
		if (!job->call->prepare || !streq(claim_of(job)->uid, uid))
			continue;
		if (job->stage == SENT)
			job->unprepared = true;
		else
			end_job(job, NULL, unprepared);
	}
	for (struct dra_call *call = calls->first; call; call = call->next)
		for (size_t i = call->n_begun; call->prepare && i < call->n_claims; i++)
			if (streq(call->claims[i]->uid, uid) && !call->outcomes[i].failure)
				set_outcome(calls, call, i, NULL, unprepared);
}

void dra_calls_add(struct dra_calls *calls, struct dra_call *call)
{
	struct dra_call **last = &calls->first;

	for (size_t i = 0; !call->prepare && i < call->n_claims; i++)
		end_preparation(calls, call->claims[i]->uid);
	while (*last)
		last = &(*last)->next;
	*last = call;
	go_on(calls);
}

void dra_calls_cancel(struct dra_calls *calls, const struct rpc_call *rpc)
{
	struct dra_call *call = calls->first;

	while (call && call->call != rpc)
		call = call->next;
	if (!call)
		return;
	call->cancelled = true;
	/* What a kubelet unprepares is unprepared, also if it does not wait for that. */
	if (!call->prepare)
		return;
	end_call(calls, call, false, "the call was cancelled");
	go_on(calls);
}

void dra_calls_held_changed(struct dra_calls *calls)
{
	for (struct job *job = calls->jobs; job; job = job->next)
		if (job->stage == WAIT && job->again == CLUSTER_WHEN_FREE)
			job->retry_at = 0;
		else if (job->stage == SENT)
			note_asked(job);
	plan(calls);
}

/* Whether the answer means that devplugd does not know or prepare the claim. */
static bool is_unknown(const struct job *job, const struct control_message *message)
{
	return message->fds[0] < 0 && message->again != CLUSTER_GOES_ON &&
		(job->call->prepare || !message->text[0]);
}

void dra_calls_take_prepared(struct dra_calls *calls, struct control_message *message)
{
	struct job *job = calls->jobs;
	_cleanup_free_ char *text = NULL;
	json_t *devices;
	size_t size;

	while (job && (job->stage != SENT || job->number != message->number))
		job = job->next;
	if (!job)
		return;
	set_stage(job, SEND);
	if (is_unknown(job, message))
		(void)json_object_del(calls->options->claims, claim_of(job)->uid);
	if (job->unprepared) {
		end_job(job, NULL, unprepared);
	} else if (message->text[0] || !job->call->prepare) {
		try_again(job, SEND, (enum cluster_again)message->again, 0, message->text);
	} else if (message->fds[0] < 0) {
		set_stage(job, READ);
	} else {
		devices = sealed_read(message->fds[0], PREPARED_MAX, &text, &size) < 0
			? NULL
			: json_loadb(text, size, 0, NULL);
		end_job(job, devices, devices ? NULL : "devplugd sent no devices");
	}
	go_on(calls);
}

int dra_calls_new(const struct dra_node_options *options, struct dra_calls **ret)
{
	struct dra_calls *calls = calloc(1, sizeof(*calls));
	int r;

	if (!calls)
		return -ENOMEM;
	calls->options = options;
	calls->reads_max = 1;
	r = sd_event_add_time(options->event, &calls->send_timer, CLOCK_MONOTONIC, USEC_INFINITY, 0,
		on_send_timer, calls);
	if (r >= 0)
		r = sd_event_add_time(options->event, &calls->call_timer, CLOCK_MONOTONIC,
			USEC_INFINITY, USEC_PER_MSEC, on_call_timer, calls);
	if (r < 0) {
		sd_event_source_disable_unref(calls->send_timer);
		free(calls);
		return r;
	}
	*ret = calls;
	return 0;
}

void dra_calls_stop(struct dra_calls *calls)
{
	while (calls->jobs)
		end_job(calls->jobs, NULL, NULL);
	while (calls->first) {
		struct dra_call *call = calls->first;

		calls->first = call->next;
		dra_call_fail(
			call, RPC_UNAVAILABLE, "devplugd is restarting; the kubelet will retry");
	}
}
