/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which claim is asked about next. The supervisor knows the prepared claims and is
 * therefore asked first: the API server is only needed for a new claim. Handlers only note what has
 * happened; go_on() does what follows.
 */
#include "common/json-read.h"
#include "common/sealed.h"
#include "dra/dra-call.h"
#include "dra/dra-node.h"
#include "dra/model/dra-names.h"

#define PREPARED_MAX (1U << 20)
/* How many claims of one call are handled at once. */
#define OPEN_MAX 16
/* A little less than the kubelet waits, so that it gets the reason. */
#define CALL_TIMEOUT (44 * USEC_PER_SEC)
/* Until a supervisor that does not read its socket is sent more. */
#define SEND_RETRY (10 * USEC_PER_MSEC)

enum stage {
	SEND,    /* its question to the supervisor */
	SENT,    /* and waits for the answer */
	READ,    /* the claim from the API server, when it is its turn */
	READING, /* and waits for the answer */
};

/* A claim that is being handled. */
struct job {
	struct job *next;
	struct dra_calls *calls;
	struct dra_call *call;
	size_t at;
	enum stage stage;
	json_t *question; /* NULL: to unprepare */
	uint64_t number;
};

struct dra_calls {
	const struct dra_node_options *options;
	struct dra_call *first;
	struct job *jobs;
	uint64_t timed_out_at; /* when the API server last did not answer; CLOCK_MONOTONIC */
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

/* Takes the devices. */
static void set_outcome(const struct dra_calls *calls, struct dra_call *call, size_t at,
	json_t *devices, const char *failure)
{
	call->outcomes[at].devices = devices;
	/* A process that stops answers no call. */
	if (devices || failure)
		count(call, calls->options->number, failure && *failure);
	if (!failure || !*failure)
		return;
	call->outcomes[at].failure = strdup(failure);
	/* Without it the kubelet would take the claim for prepared, or for unprepared. So without
	 * memory, the process ends and is started again. */
	if (!call->outcomes[at].failure)
		abort();
}

static void end_job(struct job *job, json_t *devices, const char *failure)
{
	for (struct job **j = &job->calls->jobs; *j; j = &(*j)->next)
		if (*j == job) {
			*j = job->next;
			break;
		}
	if (job->stage == READING)
		dra_api_cancel(job->calls->options->api, job);
	set_outcome(job->calls, job->call, job->at, devices, failure);
	job->call->n_open--;
	json_decref(job->question);
	free(job);
}

/* --- the supervisor --- */

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
	message.number = *job->calls->options->last_question + 1;
	r = control_send(CONTROL_FD, &message);
	if (r < 0)
		return r;
	job->number = ++*job->calls->options->last_question;
	job->stage = SENT;
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
	job->stage = SEND;
	json_decref(job->question);
	job->question = claim;
	if (r < 0)
		end_job(job, NULL, error.message);
}

static void on_claim_read(const struct dra_answer *answer, void *userdata)
{
	struct job *job = userdata;
	struct dra_calls *calls = job->calls;

	if (answer->timed_out)
		calls->timed_out_at = now_usec(CLOCK_MONOTONIC);
	take_claim(job, answer);
	go_on(calls);
}

static void read_claim(struct job *job)
{
	const Dra__Claim *claim = claim_of(job);
	char path[640];

	/* Claims that waited while the server did not answer share one timeout, so that many claims
	 * do not wait longer. The kubelet retries. */
	if (job->call->arrived_at < job->calls->timed_out_at) {
		end_job(job, NULL,
			"cannot read the claim: the API server did not answer an earlier request in time");
		return;
	}
	(void)snprintf(path, sizeof(path), DRA_CLAIM_PATH, claim->namespace_, claim->name);
	if (dra_api_request(job->calls->options->api, "GET", path, NULL, on_claim_read, job) < 0)
		end_job(job, NULL, "out of memory");
	else
		job->stage = READING;
}

static bool is_reading(const struct dra_calls *calls)
{
	const struct job *job = calls->jobs;

	while (job && job->stage != READING)
		job = job->next;
	return job;
}

static void read_claims(struct dra_calls *calls)
{
	struct job *next;

	for (struct job *job = calls->jobs; job && !is_reading(calls); job = next) {
		next = job->next;
		if (job->stage == READ)
			read_claim(job);
	}
}

/* --- claims and calls --- */

/* Returns why the claim cannot be handled, or NULL. */
static const char *begin_claim(struct dra_calls *calls, struct dra_call *call)
{
	size_t at = call->n_begun++;
	const Dra__Claim *claim = call->claims[at];
	struct job *job, **last = &calls->jobs;

	if (!dra_name_is_valid(claim->namespace_, DRA_OBJECT_NAME_MAX) ||
		!dra_name_is_valid(claim->name, DRA_OBJECT_NAME_MAX) ||
		!dra_name_is_valid(claim->uid, DRA_CLAIM_ID_MAX) || strchr(claim->uid, '.'))
		return "the claim has no valid namespace, name and uid";
	job = calloc(1, sizeof(*job));
	if (!job)
		return "out of memory";
	*job = (struct job){ .calls = calls, .call = call, .at = at };
	if (call->prepare)
		job->question = json_pack("{s:s, s:s, s:s}", "uid", claim->uid, "namespace",
			claim->namespace_, "name", claim->name);
	while (*last)
		last = &(*last)->next;
	*last = job;
	call->n_open++;
	return NULL;
}

static void begin_claims(struct dra_calls *calls)
{
	for (struct dra_call *call = calls->first; call; call = call->next)
		while (call->n_begun < call->n_claims && call->n_open < OPEN_MAX) {
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
			room |= call->n_begun < call->n_claims && call->n_open < OPEN_MAX;
			slot = &call->next;
			continue;
		}
		*slot = call->next;
		dra_call_answer(call);
	}
	return room;
}

static void go_on(struct dra_calls *calls)
{
	do {
		begin_claims(calls);
		send_questions(calls);
		read_claims(calls);
	} while (answer_calls(calls));
	(void)sd_event_source_set_time(calls->call_timer,
		calls->first ? calls->first->arrived_at + CALL_TIMEOUT : USEC_INFINITY);
	(void)sd_event_source_set_enabled(
		calls->call_timer, calls->first ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static void end_call(struct dra_calls *calls, struct dra_call *call)
{
	static const char failure[] = "devplugd did not answer in time; the kubelet will retry";
	struct job *next;

	for (struct job *job = calls->jobs; job; job = next) {
		next = job->next;
		if (job->call == call)
			end_job(job, NULL, failure);
	}
	while (call->n_begun < call->n_claims)
		set_outcome(calls, call, call->n_begun++, NULL, failure);
}

static int on_call_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	struct dra_calls *calls = userdata;

	for (struct dra_call *call = calls->first; call; call = call->next)
		if (call->arrived_at + CALL_TIMEOUT <= now)
			end_call(calls, call);
	go_on(calls);
	return 0;
}

static int on_send_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	go_on(userdata);
	return 0;
}

void dra_calls_add(struct dra_calls *calls, struct dra_call *call)
{
	struct dra_call **last = &calls->first;

	while (*last)
		last = &(*last)->next;
	*last = call;
	go_on(calls);
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
	if (message->text[0] || !job->call->prepare) {
		end_job(job, NULL, message->text);
	} else if (message->fds[0] < 0) {
		job->stage = READ;
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
	r = sd_event_add_time(options->event, &calls->send_timer, CLOCK_MONOTONIC, USEC_INFINITY, 0,
		on_send_timer, calls);
	if (r >= 0)
		r = sd_event_add_time(options->event, &calls->call_timer, CLOCK_MONOTONIC,
			USEC_INFINITY, 0, on_call_timer, calls);
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
			call, RPC_UNAVAILABLE, "the driver is stopping; the kubelet will retry");
	}
}
