/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests NodePrepareResources and NodeUnprepareResources. A kubelet repeats both after failures and
 * restarts, and knows only the driver's answers about a claim. Each case begins with claims that
 * are not prepared.
 */
#include "common/json-read.h"
#include "kubelet/conformance/conformance.h"

#include <signal.h>

#include "kubelet/conformance/cdi-directories.h"
#include "kubelet/conformance/dra-calls.h"
#include "proto/methods.h"

#define PARALLEL    8
#define CYCLES      20
#define FILES_SLACK 4

static bool restart_driver(struct trial *trial)
{
	return trial_kill_plugin(trial) && trial_start_plugin(trial) && trial_await_serving(trial);
}

static bool prepare_first(
	struct trial *trial, struct claim_name *ret_claim, struct message *ret_message)
{
	dra_unprepare_all(trial);
	*ret_claim = claims_name(trial, 0);
	return dra_prepare_waiting(trial, ret_claim, ret_message);
}

/* --- what is answered --- */

/* A request with alternatives is named "request/alternative" in a result. */
static bool is_request(const json_t *result, const char *request)
{
	const char *name = text_of(result, "request");
	size_t length = strcspn(name, "/");

	return strlen(request) == length && strncmp(name, request, length) == 0;
}

static bool is_of_result(const json_t *result, const Dra__Device *device)
{
	if (!streq(text_of(result, "pool"), device->pool_name) ||
		!streq(text_of(result, "device"), device->device_name))
		return false;
	for (size_t i = 0; i < device->n_request_names; i++)
		if (!is_request(result, device->request_names[i]))
			return false;
	return true;
}

static enum outcome check_names(struct trial *trial, const Dra__Device *device)
{
	for (size_t i = 0; i < device->n_cdi_device_ids; i++) {
		const char *name = device->cdi_device_ids[i];
		size_t n;

		if (!cdi_is_name(name))
			return trial_fail(
				trial, "\"%s\" is not a CDI name VENDOR/CLASS=DEVICE", name);
		n = cdi_count(trial->options, name);
		if (n != 1)
			return trial_fail(
				trial, "%zu files describe %s when the answer comes", n, name);
	}
	return OUTCOME_OK;
}

static enum outcome check_devices(struct trial *trial, const Dra__NodePrepareResourceResponse *got)
{
	json_auto_t *results = claims_results(trial, 0);
	enum outcome outcome = OUTCOME_OK;
	const json_t *result;
	size_t i, k;

	for (i = 0; i < got->n_devices && outcome == OUTCOME_OK; i++) {
		const Dra__Device *device = got->devices[i];
		bool known = false;

		json_array_foreach(results, k, result)
		{
			known = known || is_of_result(result, device);
		}
		outcome = known
			? check_names(trial, device)
			: trial_fail(trial, "%s/%s, or its requests, are not in the allocation",
				  device->pool_name, device->device_name);
	}
	json_array_foreach(results, k, result)
	{
		bool answered = false;

		for (i = 0; i < got->n_devices; i++)
			answered = answered || is_of_result(result, got->devices[i]);
		if (!answered && outcome == OUTCOME_OK)
			outcome = trial_fail(trial,
				"%s/%s of the allocation is missing in the answer",
				text_of(result, "pool"), text_of(result, "device"));
	}
	return outcome;
}

static enum outcome prepare_describes(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	struct claim_name claim;
	enum outcome outcome;

	if (!prepare_first(trial, &claim, &message))
		return OUTCOME_NOT_OK;
	outcome = check_devices(trial, dra_find_prepared(&message, claim.uid));
	return outcome == OUTCOME_OK ? dra_end(trial, &claim) : outcome;
}

/* Prepares once more and compares. */
static enum outcome check_same(struct trial *trial, const struct claim_name *claim,
	const Dra__NodePrepareResourceResponse *before, const char *after)
{
	_cleanup_free_ char *first = dra_describe_devices(before), *second = NULL;

	if (!dra_prepare_one(trial, claim, &second))
		return OUTCOME_NOT_OK;
	if (!streq(first, second))
		return trial_fail(
			trial, "%s the answer is %.300s instead of %.300s", after, second, first);
	return OUTCOME_OK;
}

static enum outcome prepare_repeats(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	struct claim_name claim;
	enum outcome outcome;

	if (!prepare_first(trial, &claim, &message))
		return OUTCOME_NOT_OK;
	outcome = check_same(
		trial, &claim, dra_find_prepared(&message, claim.uid), "the second time");
	return outcome == OUTCOME_OK ? dra_end(trial, &claim) : outcome;
}

static enum outcome prepare_answers_all(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	struct claim_name claims[3] = { unknown_claim };
	const Dra__NodePrepareResourceResponse *result;
	size_t n = 2, other;

	dra_unprepare_all(trial);
	claims[1] = claims_name(trial, 0);
	if (claims_find(trial, false, &other))
		claims[n++] = claims_name(trial, other);
	if (!dra_prepare_call(trial, claims, n, &message))
		return OUTCOME_NOT_OK;
	for (size_t i = 0; i < n; i++) {
		result = dra_find_prepared(&message, claims[i].uid);
		if (!result)
			return trial_fail(trial, "the answer has no entry for %s/%s",
				claims[i].namespace, claims[i].name);
		if (i == 0 && !*result->error)
			return trial_fail(trial,
				"a claim that does not exist in the API server was prepared");
		if (i > 0 && *result->error)
			return trial_fail(trial,
				"when another claim of the call fails, %s/%s fails, too: %s",
				claims[i].namespace, claims[i].name, result->error);
	}
	for (size_t i = 1; i < n; i++)
		if (!dra_unprepare_one(trial, &claims[i]))
			return OUTCOME_NOT_OK;
	return OUTCOME_OK;
}

/* --- what is refused --- */

static enum outcome refuses_uid(struct trial *trial, const struct conformance_case *self)
{
	struct claim_name claim;

	dra_unprepare_all(trial);
	claim = claims_name(trial, 0);
	claim.uid = unknown_claim.uid;
	return dra_check_refused(trial, &claim, "a claim whose uid differs from the API server's");
}

static enum outcome refuses_name(struct trial *trial, const struct conformance_case *self)
{
	struct claim_name claim;

	dra_unprepare_all(trial);
	claim = claims_name(trial, 0);
	claim.name = unknown_claim.name;
	return dra_check_refused(
		trial, &claim, "a claim whose name does not exist in the API server");
}

static enum outcome refuses_rival(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	struct claim_name claim, rival;
	enum outcome outcome;
	size_t other;

	if (!claims_find(trial, true, &other))
		return trial_skip(trial, "give two --claim with the same device");
	if (!prepare_first(trial, &claim, &message))
		return OUTCOME_NOT_OK;
	rival = claims_name(trial, other);
	outcome = dra_check_refused(trial, &rival, "a claim for a device that another claim holds");
	if (outcome != OUTCOME_OK)
		return outcome;
	if (!dra_unprepare_one(trial, &claim) || !dra_prepare_one(trial, &rival, NULL))
		return OUTCOME_NOT_OK;
	return dra_end(trial, &rival);
}

/* --- many calls --- */

static bool is_done(struct trial *trial, const void *data)
{
	return call_is_done((struct call *)(uintptr_t)data);
}

/* Sends many equal calls at once; returns how many were answered with the same devices as `wanted`.
 */
static size_t prepare_at_once(struct trial *trial, const uint8_t *request, size_t size,
	const char *uid, const char *wanted)
{
	struct call *calls[PARALLEL];
	char method[CALL_METHOD_MAX];
	size_t same = 0;

	for (size_t i = 0; i < PARALLEL; i++)
		calls[i] = call_start(
			trial, call_dra_method(trial, DRA_PREPARE, method), request, size);
	for (size_t i = 0; i < PARALLEL; i++) {
		_cleanup_message_ struct message message = {};
		const Dra__NodePrepareResourceResponse *result = NULL;
		_cleanup_reply_ struct reply reply = {};
		_cleanup_free_ char *got = NULL;

		if (!calls[i])
			continue;
		if (!trial_await(trial, is_done, calls[i])) {
			call_abandon(trial, calls[i]);
			continue;
		}
		call_take(calls[i], &reply);
		if (reply.status == RPC_OK)
			message = message_unpack(&dra__node_prepare_resources_response__descriptor,
				reply.data, reply.size);
		if (message.base)
			result = dra_find_prepared(&message, uid);
		if (result && !*result->error)
			got = dra_describe_devices(result);
		same += got && streq(got, wanted);
	}
	return same;
}

static enum outcome prepare_parallel(struct trial *trial, const struct conformance_case *self)
{
	Dra__NodePrepareResourcesRequest request = DRA__NODE_PREPARE_RESOURCES_REQUEST__INIT;
	Dra__Claim packed = DRA__CLAIM__INIT, *claims[] = { &packed };
	_cleanup_message_ struct message message = {};
	_cleanup_free_ char *wanted = NULL;
	_cleanup_free_ uint8_t *data = NULL;
	struct claim_name claim;
	size_t size, same;

	if (!prepare_first(trial, &claim, &message))
		return OUTCOME_NOT_OK;
	wanted = dra_describe_devices(dra_find_prepared(&message, claim.uid));
	if (!dra_unprepare_one(trial, &claim))
		return OUTCOME_NOT_OK;
	packed.namespace_ = (char *)(uintptr_t)claim.namespace;
	packed.name = (char *)(uintptr_t)claim.name;
	packed.uid = (char *)(uintptr_t)claim.uid;
	request.claims = claims;
	request.n_claims = 1;
	if (message_pack(&request.base, &data, &size) < 0)
		return trial_fail(trial, "out of memory");
	same = prepare_at_once(trial, data, size, claim.uid, wanted);
	if (same != PARALLEL)
		return trial_fail(trial,
			"of %d simultaneous calls for one claim, %zu were answered with %.300s",
			PARALLEL, same, wanted);
	return dra_end(trial, &claim);
}

static enum outcome cycles(struct trial *trial, const struct conformance_case *self)
{
	struct process_usage before = {}, after = {};
	struct claim_name claim;
	bool measured = false;

	dra_unprepare_all(trial);
	claim = claims_name(trial, 0);
	for (unsigned i = 0; i < CYCLES; i++) {
		if (!dra_prepare_one(trial, &claim, NULL) || !dra_unprepare_one(trial, &claim))
			return OUTCOME_NOT_OK;
		/* The first calls may open descriptors that stay open. */
		if (i == CYCLES / 4)
			measured = plugin_process_usage(&trial->plugin, &before) >= 0;
	}
	if (measured && plugin_process_usage(&trial->plugin, &after) >= 0 &&
		after.descriptors > before.descriptors + FILES_SLACK)
		return trial_fail(trial,
			"%d cycles of prepare and unprepare left %zu descriptors open",
			CYCLES - CYCLES / 4 - 1, after.descriptors - before.descriptors);
	return OUTCOME_OK;
}

/* --- unprepare --- */

static enum outcome unprepare_repeats(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	struct claim_name claim;

	if (!prepare_first(trial, &claim, &message) || !dra_unprepare_one(trial, &claim))
		return OUTCOME_NOT_OK;
	return dra_end(trial, &claim);
}

static enum outcome unprepare_unknown(struct trial *trial, const struct conformance_case *self)
{
	return dra_end(trial, &unknown_claim);
}

static enum outcome check_removed(struct trial *trial, const struct claim_name *claim,
	const Dra__NodePrepareResourceResponse *prepared)
{
	if (!dra_unprepare_one(trial, claim) || !dra_check_removed(trial, prepared))
		return OUTCOME_NOT_OK;
	return OUTCOME_OK;
}

/* A description that existed before the claim was prepared belongs to the driver as a whole. */
static enum outcome unprepare_removes(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	struct claim_name claim;

	if (!prepare_first(trial, &claim, &message))
		return OUTCOME_NOT_OK;
	return check_removed(trial, &claim, dra_find_prepared(&message, claim.uid));
}

/* --- restarts --- */

static size_t count_names(const Dra__NodePrepareResourceResponse *prepared)
{
	size_t n = 0;

	for (size_t i = 0; i < prepared->n_devices; i++)
		n += prepared->devices[i]->n_cdi_device_ids;
	return n;
}

static enum outcome check_described(
	struct trial *trial, const Dra__NodePrepareResourceResponse *prepared, const char *when)
{
	size_t wanted = count_names(prepared), n = dra_count_described(trial, prepared);

	if (n == wanted)
		return OUTCOME_OK;
	return trial_fail(trial, "%s %zu of the %zu CDI devices of a prepared claim are described",
		when, n, wanted);
}

static enum outcome stop_keeps_files(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	const Dra__NodePrepareResourceResponse *prepared;
	struct claim_name claim;
	enum outcome outcome;

	if (!prepare_first(trial, &claim, &message))
		return OUTCOME_NOT_OK;
	prepared = dra_find_prepared(&message, claim.uid);
	if (!trial_stop_plugin(trial))
		return OUTCOME_NOT_OK;
	(void)trial_kill_plugin(trial);
	outcome = check_described(trial, prepared, "while the driver is stopped,");
	if (!trial_start_plugin(trial) || !trial_await_serving(trial))
		return OUTCOME_NOT_OK;
	if (outcome == OUTCOME_OK)
		outcome = check_described(trial, prepared, "after the driver has started again,");
	return outcome == OUTCOME_OK ? dra_end(trial, &claim) : outcome;
}

static enum outcome prepare_after_restart(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	struct claim_name claim;
	enum outcome outcome;

	if (!prepare_first(trial, &claim, &message) || !restart_driver(trial))
		return OUTCOME_NOT_OK;
	outcome = check_same(trial, &claim, dra_find_prepared(&message, claim.uid),
		"after the driver was killed and started again,");
	return outcome == OUTCOME_OK ? dra_end(trial, &claim) : outcome;
}

static enum outcome unprepare_after_restart(
	struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	struct claim_name claim;

	if (!prepare_first(trial, &claim, &message) || !restart_driver(trial))
		return OUTCOME_NOT_OK;
	return check_removed(trial, &claim, dra_find_prepared(&message, claim.uid));
}

/* As after a restart of the host, which empties /var/run. The kubelet knows the old names. */
static enum outcome prepare_after_reboot(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	const Dra__NodePrepareResourceResponse *prepared;
	struct claim_name claim;
	enum outcome outcome;

	if (!prepare_first(trial, &claim, &message) || !trial_kill_plugin(trial))
		return OUTCOME_NOT_OK;
	prepared = dra_find_prepared(&message, claim.uid);
	for (size_t i = 0; i < prepared->n_devices; i++)
		for (size_t k = 0; k < prepared->devices[i]->n_cdi_device_ids; k++)
			cdi_remove(trial->options, prepared->devices[i]->cdi_device_ids[k]);
	if (!trial_start_plugin(trial) || !trial_await_serving(trial))
		return OUTCOME_NOT_OK;
	outcome = check_same(trial, &claim, prepared, "after the CDI files were removed,");
	if (outcome == OUTCOME_OK)
		outcome = check_described(trial, prepared, "after the CDI files were removed,");
	return outcome == OUTCOME_OK ? dra_end(trial, &claim) : outcome;
}

static const struct conformance_case cases[] = {
	{ 110, "dra-prepare-describes",
		"names the devices of the allocation, with CDI names that are described in one file each",
		"the runtime resolves the names as soon as the driver has answered; pool and device lead to the health in the pod's status (KEP-4381, KEP-4680)",
		0, NEEDS_SERVING | NEEDS_CLAIM, prepare_describes, NULL },
	{ 111, "dra-prepare-repeats", "answers a repeated NodePrepareResources in the same way",
		"the kubelet calls again after a failure of another claim and after its restart", 0,
		NEEDS_SERVING | NEEDS_CLAIM, prepare_repeats, NULL },
	{ 112, "dra-prepare-answers-all",
		"answers with an entry for each claim of a call, with an error only for claims that fail",
		"\"NodePrepareResources skipped ResourceClaims\" fails the pod's start (pkg/kubelet/cm/dra/manager.go)",
		0, NEEDS_SERVING | NEEDS_CLAIM, prepare_answers_all, NULL },
	{ 113, "dra-wrong-uid", "refuses a claim whose uid differs from the API server's",
		"the claim was deleted and created again, perhaps with other devices (k8s.io/dynamic-resource-allocation/kubeletplugin)",
		0, NEEDS_SERVING | NEEDS_CLAIM, refuses_uid, NULL },
	{ 114, "dra-wrong-name", "refuses a claim whose name does not exist in the API server",
		"the allocation is stored only in the API server (k8s.io/dynamic-resource-allocation/kubeletplugin)",
		0, NEEDS_SERVING | NEEDS_CLAIM, refuses_name, NULL },
	{ 115, "dra-rival",
		"refuses a device that another claim holds until that claim is unprepared",
		"schedulers have allocated a device twice", 136269, NEEDS_SERVING | NEEDS_CLAIM,
		refuses_rival, NULL },
	{ 116, "dra-prepare-parallel", "gives simultaneous calls for one claim the same answer",
		"the kubelet prepares the claims of different pods at the same time, and several pods may share a claim",
		0, NEEDS_SERVING | NEEDS_CLAIM, prepare_parallel, NULL },
	{ 117, "dra-unprepare-repeats", "succeeds when a claim is unprepared again",
		"the kubelet repeats it until its own checkpoint is written (pkg/kubelet/cm/dra/manager.go)",
		0, NEEDS_SERVING | NEEDS_CLAIM, unprepare_repeats, NULL },
	{ 118, "dra-unprepare-unknown", "succeeds for a claim that it has never seen",
		"the kubelet also unprepares a claim that could not be prepared; an error keeps the pod from being deleted",
		0, NEEDS_SERVING, unprepare_unknown, NULL },
	{ 119, "dra-unprepare-removes", "removes the CDI devices of a claim that is unprepared",
		"CDI devices of removed claims slow down each container start, and other containers could name them",
		0, NEEDS_SERVING | NEEDS_CLAIM, unprepare_removes, NULL },
	{ 120, "dra-prepare-after-restart",
		"answers in the same way after it was killed and started again",
		"the pod's containers were created with the old CDI names (KEP-4381)", 0,
		NEEDS_SERVING | NEEDS_CLAIM | NEEDS_COMMAND, prepare_after_restart, NULL },
	{ 121, "dra-unprepare-after-restart",
		"unprepares claims that it prepared before it was killed",
		"another process of the driver may get the call", 0,
		NEEDS_SERVING | NEEDS_CLAIM | NEEDS_COMMAND, unprepare_after_restart, NULL },
	{ 122, "dra-stop-keeps-files", "keeps prepared claims described while it is stopped",
		"a container that is restarted needs its CDI devices, also during an update of the driver",
		0, NEEDS_SERVING | NEEDS_CLAIM | NEEDS_COMMAND, stop_keeps_files, NULL },
	{ 123, "dra-cycles", "leaks no descriptors over many cycles of prepare and unprepare",
		"drivers run for months", 0, NEEDS_SERVING | NEEDS_CLAIM, cycles, NULL },
	{ 124, "dra-prepare-after-reboot",
		"describes the devices of a claim again after its CDI files were removed",
		"after a restart of the host, /var/run is empty and the kubelet prepares each claim again (ROCm/k8s-gpu-dra-driver#75)",
		0, NEEDS_SERVING | NEEDS_CLAIM | NEEDS_COMMAND, prepare_after_reboot, NULL },
};

const struct case_table dra_claim_cases = { cases, ARRAY_SIZE(cases) };
