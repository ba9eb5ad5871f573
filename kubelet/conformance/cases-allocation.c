/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests Allocate as the kubelet calls it, and as it might. The kubelet waits for the first two
 * without a limit while no other pod is admitted.
 */
#include "kubelet/conformance/conformance.h"

#include "deviceplugin.pb-c.h"
#include "kubelet/conformance/devices.h"
#include "kubelet/container.h"
#include "kubelet/plugin-text.h"
#include "kubelet/utf8-message.h"
#include "proto/message.h"
#include "proto/methods.h"

#define CONCURRENT     100
#define DISTINCT       4
#define ROUNDS         5
#define CANCELLED      1000U
#define SEEN_EVERY     100 /* calls; more than LEAK_FILES of them in CANCELLED */
#define WARM_UP        200
#define LEAK_MEMORY    (8U << 20)
#define LEAK_FILES     4
#define PROMPT_DIVISOR 4 /* of the run's limit */

/* Whether a kubelet can use the answer: it must contain as many elements as the request. */
static bool check_answer(
	struct trial *trial, const struct reply *reply, size_t n_containers, const char *what)
{
	_cleanup_message_ struct message message = {};
	const V1beta1__AllocateResponse *response;

	if (reply->status != RPC_OK) {
		(void)trial_fail(trial, "Allocate of %s: %s", what, reply->text);
		return false;
	}
	message = message_unpack(&v1beta1__allocate_response__descriptor, reply->data, reply->size);
	response = (const V1beta1__AllocateResponse *)message.base;
	if (!response || (trial->options->version->needs_utf8 && !message_is_utf8(message.base))) {
		(void)trial_fail(trial, "Allocate of %s: the answer cannot be decoded", what);
		return false;
	}
	if (response->n_container_responses == n_containers)
		return true;
	(void)trial_fail(trial, "Allocate of %s for %zu containers was answered for %zu", what,
		n_containers, response->n_container_responses);
	return false;
}

static enum outcome allocates(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_ids_ struct ids ids = {};

	if (!ids_take(trial, &ids))
		return OUTCOME_NOT_OK;
	for (size_t i = 0; i < MIN_OF(ids.n, (size_t)64); i++) {
		_cleanup_reply_ struct reply reply = {};

		allocate(trial, ids.list + i, 1, 1, trial->options->timeout, &reply);
		if (!check_answer(trial, &reply, 1, "one device"))
			return OUTCOME_NOT_OK;
	}
	return OUTCOME_OK;
}

static enum outcome allocates_all(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_ids_ struct ids ids = {};
	_cleanup_reply_ struct reply reply = {};

	if (!ids_take(trial, &ids))
		return OUTCOME_NOT_OK;
	allocate(trial, ids.list, ids.n, 1, trial->options->timeout, &reply);
	/* A plugin may have a limit for each container, with an error that names it. */
	if (reply.status == RPC_RESOURCE_EXHAUSTED && strstr(reply.text, "larger than max"))
		return trial_fail(trial, "the answer for all devices is larger than 4 MiB");
	if (reply.status > RPC_OK && reply.text[0] != '\0')
		return trial_check_alive(trial, "Allocate of all devices");
	return check_answer(trial, &reply, 1, "all devices") ? OUTCOME_OK : OUTCOME_NOT_OK;
}

static enum outcome allocates_for_two(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_ids_ struct ids ids = {};
	_cleanup_reply_ struct reply reply = {};

	if (!ids_take(trial, &ids))
		return OUTCOME_NOT_OK;
	allocate(trial, ids.list, 1, 2, trial->options->timeout, &reply);
	return check_answer(trial, &reply, 2, "one device") ? OUTCOME_OK : OUTCOME_NOT_OK;
}

static enum outcome allocates_in_time(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_ids_ struct ids ids = {};
	_cleanup_reply_ struct reply reply = {};

	if (!ids_take(trial, &ids))
		return OUTCOME_NOT_OK;
	allocate(trial, ids.list, 1, 1, trial->options->timeout / PROMPT_DIVISOR, &reply);
	if (reply.status < 0)
		return trial_fail(trial, "Allocate: %s", reply.text);
	return trial_check_alive(trial, "Allocate");
}

/* A request that no kubelet sends must be refused with a message or answered element by element. */
static enum outcome allocates_odd(struct trial *trial, const struct conformance_case *self)
{
	char unknown[] = UNKNOWN_ID;
	_cleanup_ids_ struct ids ids = {};

	if (!ids_take(trial, &ids))
		return OUTCOME_NOT_OK;
	{
		char *twice[] = { ids.list[0], ids.list[0] }, *strange[] = { unknown };
		const struct {
			const char *what;
			char **ids;
			size_t n_ids, n_containers;
		} requests[] = {
			{ "an unknown device", strange, 1, 1 },
			{ "a device twice", twice, 2, 1 },
			{ "no device", NULL, 0, 1 },
			{ "nothing", NULL, 0, 0 },
		};

		for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
			_cleanup_reply_ struct reply reply = {};

			allocate(trial, requests[i].ids, requests[i].n_ids,
				requests[i].n_containers, trial->options->timeout, &reply);
			if (reply.status > RPC_OK && reply.status != RPC_UNAVAILABLE &&
				reply.text[0] != '\0')
				continue;
			if (reply.status > RPC_OK && reply.text[0] == '\0')
				return trial_fail(trial, "Allocate of %s failed without a reason",
					requests[i].what);
			if (!check_answer(
				    trial, &reply, requests[i].n_containers, requests[i].what))
				return OUTCOME_NOT_OK;
		}
	}
	return trial_check_alive(trial, "odd Allocate requests");
}

/* The container's part of the answer as text, for comparisons. */
static json_t *container_of(const struct reply *reply)
{
	_cleanup_message_ struct message message =
		message_unpack(&v1beta1__allocate_response__descriptor, reply->data, reply->size);
	const V1beta1__AllocateResponse *response = (const V1beta1__AllocateResponse *)message.base;
	_cleanup_container_ struct container container = {};

	if (!response || response->n_container_responses == 0 || container_init(&container) < 0 ||
		container_merge(&container, response->container_responses[0]) < 0)
		return NULL;
	return container_to_json(&container);
}

static bool calls_are_done(struct trial *trial, const void *data)
{
	struct call *const *calls = data;

	for (size_t i = 0; i < CONCURRENT; i++)
		if (!call_is_done(calls[i]))
			return false;
	return true;
}

static bool has_same_answer(struct trial *trial, struct call *call, char **id, const json_t *alone)
{
	_cleanup_reply_ struct reply first = {}, second = {};
	_cleanup_json_ json_t *again = NULL, *together = NULL;

	call_take(call, &first);
	if (!check_answer(trial, &first, 1, "one of 100 devices at a time"))
		return false;
	together = container_of(&first);
	if (json_equal(alone, together) == 1)
		return true;
	allocate(trial, id, 1, 1, trial->options->timeout, &second);
	again = container_of(&second);
	/* An answer that changes each time cannot be compared. */
	if (json_equal(alone, again) == 0)
		return true;
	(void)trial_fail(trial,
		"Allocate of \"%.100s\" got another answer beside other calls than alone", *id);
	return false;
}

static enum outcome allocates_at_once(struct trial *trial, const struct conformance_case *self)
{
	json_t *alone[DISTINCT] = {};
	struct call *calls[CONCURRENT] = {};
	_cleanup_ids_ struct ids ids = {};
	enum outcome outcome = OUTCOME_OK;
	size_t started, distinct;

	if (!ids_take(trial, &ids))
		return OUTCOME_NOT_OK;
	distinct = MIN_OF(ids.n, (size_t)DISTINCT);
	for (size_t i = 0; i < distinct; i++) {
		_cleanup_reply_ struct reply reply = {};

		allocate(trial, ids.list + i, 1, 1, trial->options->timeout, &reply);
		alone[i] = container_of(&reply);
	}
	for (started = 0; started < CONCURRENT; started++) {
		size_t size;
		_cleanup_free_ uint8_t *data =
			allocate_pack(ids.list + started % distinct, 1, 1, &size);

		calls[started] = call_start(trial, METHOD_ALLOCATE, data, size);
		if (!calls[started])
			break;
	}
	if (started < CONCURRENT)
		outcome = trial_fail(trial, "the connection was lost");
	else if (!trial_await(trial, calls_are_done, calls))
		outcome = trial_fail(trial, "100 Allocate calls at a time were not all answered");
	for (size_t i = 0; i < started; i++)
		if (outcome != OUTCOME_OK)
			call_abandon(trial, calls[i]);
		else if (!has_same_answer(
				 trial, calls[i], ids.list + i % distinct, alone[i % distinct]))
			outcome = OUTCOME_NOT_OK;
	for (size_t i = 0; i < distinct; i++)
		json_decref(alone[i]);
	return outcome;
}

static bool cancel_some(struct trial *trial, const struct ids *ids, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		size_t size;
		_cleanup_free_ uint8_t *data = allocate_pack(ids->list + i % ids->n, 1, 1, &size);
		struct call *call = call_start(trial, METHOD_ALLOCATE, data, size);

		if (!call) {
			(void)trial_fail(
				trial, "the connection was lost after %u cancelled calls", i);
			return false;
		}
		/* Cancels some calls before they are sent and some while they are handled. A later
		 * call that is answered shows that the plugin has received the earlier one, even on
		 * a busy machine. */
		if (i % SEEN_EVERY == 0 &&
			trial_check_alive(trial, "an Allocate call") != OUTCOME_OK) {
			call_abandon(trial, call);
			return false;
		}
		if (i % 4 == 0)
			trial_pass(trial, 1);
		call_abandon(trial, call);
	}
	return true;
}

/* Cancels many calls. Returns 1 if that left something behind, with a message, 0 if not, -1 if the
 * plugin failed otherwise. */
static int leaks(struct trial *trial, const struct ids *ids)
{
	struct process_usage before = {}, after = {};
	bool measured = plugin_process_usage(&trial->plugin, &before) >= 0;

	if (!cancel_some(trial, ids, CANCELLED) ||
		trial_check_alive(trial, "cancelled Allocate calls") != OUTCOME_OK)
		return -1;
	if (!measured || plugin_process_usage(&trial->plugin, &after) < 0)
		return 0;
	if (after.descriptors > before.descriptors + LEAK_FILES)
		(void)trial_fail(trial, "%u cancelled Allocate calls left %zu descriptors open",
			CANCELLED, after.descriptors - before.descriptors);
	else if (after.memory > before.memory + LEAK_MEMORY)
		(void)trial_fail(trial, "%u cancelled Allocate calls left %zu KiB of memory in use",
			CANCELLED, (after.memory - before.memory) / 1024);
	else
		return 0;
	return 1;
}

static enum outcome frees_what_is_cancelled(
	struct trial *trial, const struct conformance_case *self)
{
	_cleanup_ids_ struct ids ids = {};
	int r = 1;

	if (!ids_take(trial, &ids) || !cancel_some(trial, &ids, WARM_UP))
		return OUTCOME_NOT_OK;
	/* Caches fill up, and garbage collectors run late; so only growth in every round is a
	 * leak. */
	for (unsigned i = 0; i < ROUNDS && r > 0; i++)
		r = leaks(trial, &ids);
	return r == 0 ? OUTCOME_OK : OUTCOME_NOT_OK;
}

static const struct conformance_case cases[] = {
	{ 21, "allocates", "answers Allocate for each of its devices",
		"after an answer without an element, the kubelet rejects the pod and leaks its devices",
		130172, NEEDS_SERVING | NEEDS_DEVICE, allocates, NULL },
	{ 22, "allocates-all", "answers Allocate for all devices at once, or fails with a reason",
		"the kubelet accepts no answer above 4 MiB", 109304, NEEDS_SERVING | NEEDS_DEVICE,
		allocates_all, NULL },
	{ 23, "allocates-for-two", "answers with one element for each container of the request",
		"the API has a list of containers, and some kubelets have sent several", 0,
		NEEDS_SERVING | NEEDS_DEVICE, allocates_for_two, NULL },
	{ 24, "allocates-in-time", "answers Allocate within a quarter of the run's time limit",
		"Allocate has no time limit, and the node admits no pod meanwhile", 117435,
		NEEDS_SERVING | NEEDS_DEVICE, allocates_in_time, NULL },
	{ 25, "allocates-odd",
		"refuses invalid Allocate requests with a reason, or answers each element",
		"the owner of the pod only sees the text of the error", 0,
		NEEDS_SERVING | NEEDS_DEVICE, allocates_odd, NULL },
	{ 26, "allocates-at-once", "answers 100 Allocate calls at a time without mixing them up",
		"containers that start without a recorded allocation call Allocate during admissions",
		73824, NEEDS_SERVING | NEEDS_DEVICE, allocates_at_once, NULL },
	{ 27, "frees-what-is-cancelled",
		"leaks neither memory nor descriptors when Allocate calls are cancelled",
		"a kubelet that stops cancels its calls", 0, NEEDS_SERVING | NEEDS_DEVICE,
		frees_what_is_cancelled, NULL },
};

const struct case_table allocation_cases = { cases, ARRAY_SIZE(cases) };
