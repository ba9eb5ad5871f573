/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests prepare and unprepare with claims that only an API server under the tool's control has:
 * claims that are not allocated, that are deleted, that other drivers share, with parameters, for
 * administrators, and with an API server that fails. Each case makes its claim.
 */
#include "common/json-read.h"
#include "kubelet/conformance/conformance.h"

#include "kubelet/conformance/api-server.h"

#define CLAIM        "devplug-kubelet-case"
#define OTHER_DRIVER "other.driver.example"
/* Another claim, whose pod was deleted by force. */
#define FORMER "devplug-kubelet-former"
/* The kubelet's limit of a call (pkg/kubelet/cm/dra/plugin). */
#define KUBELET_LIMIT (45 * USEC_PER_SEC)

/* The first device of the first claim, which no claim holds now. */
static json_t *first_result(struct trial *trial)
{
	json_auto_t *results = claims_results(trial, 0);
	const json_t *result = json_array_get(results, 0);

	dra_unprepare_all(trial);
	return api_result(trial->resource, text_of(result, "pool"), text_of(result, "device"));
}

/* Takes the lists; `config` may be NULL. */
static bool make_claim(struct trial *trial, json_t *results, json_t *config, struct claim_name *ret)
{
	return api_make_claim(trial, CLAIM,
		json_pack("{s:{s:o, s:o*}}", "devices", "results", results, "config", config), ret);
}

static bool make_usual_claim(struct trial *trial, json_t *config, struct claim_name *ret)
{
	return make_claim(trial, json_pack("[o]", first_result(trial)), config, ret);
}

/* --- what is refused --- */

static enum outcome refuses_unallocated(struct trial *trial, const struct conformance_case *self)
{
	struct claim_name claim;

	dra_unprepare_all(trial);
	if (!api_make_claim(trial, CLAIM, NULL, &claim))
		return OUTCOME_NOT_OK;
	return dra_check_refused(trial, &claim, "a claim that is not allocated");
}

static enum outcome refuses_unknown_device(struct trial *trial, const struct conformance_case *self)
{
	json_auto_t *known = first_result(trial);
	struct claim_name claim;

	if (!make_claim(trial,
		    json_pack("[o]",
			    api_result(trial->resource, text_of(known, "pool"), "no-such-device")),
		    NULL, &claim))
		return OUTCOME_NOT_OK;
	return dra_check_refused(
		trial, &claim, "a claim with a device that the driver has not published");
}

static json_t *parameters_of(const char *driver)
{
	return json_pack("[{s:s, s:{s:s, s:{s:s, s:s}}}]", "source", "FromClaim", "opaque",
		"driver", driver, "parameters", "apiVersion", "conformance.devplug.example/v1",
		"kind", "Unknown");
}

static enum outcome refuses_parameters(struct trial *trial, const struct conformance_case *self)
{
	struct claim_name claim;

	if (!make_usual_claim(trial, parameters_of(trial->resource), &claim))
		return OUTCOME_NOT_OK;
	return dra_check_refused(
		trial, &claim, "a claim with parameters of an unknown kind for the driver");
}

static enum outcome ignores_parameters(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	struct claim_name claim;

	if (!make_usual_claim(trial, parameters_of(OTHER_DRIVER), &claim) ||
		!dra_prepare_waiting(trial, &claim, &message))
		return OUTCOME_NOT_OK;
	return dra_end(trial, &claim);
}

/* --- what is not the driver's --- */

static enum outcome answers_own_devices(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	const Dra__NodePrepareResourceResponse *prepared;
	struct claim_name claim;

	if (!make_claim(trial,
		    json_pack("[o, o, o]", api_result(OTHER_DRIVER, "foreign", "foreign-0"),
			    first_result(trial),
			    api_result("third.driver.example", "foreign", "foreign-0")),
		    NULL, &claim) ||
		!dra_prepare_waiting(trial, &claim, &message))
		return OUTCOME_NOT_OK;
	prepared = dra_find_prepared(&message, claim.uid);
	if (prepared->n_devices != 1) {
		_cleanup_free_ char *devices = dra_describe_devices(prepared);

		(void)dra_unprepare_one(trial, &claim);
		return trial_fail(trial,
			"of a claim with one device of the driver and two of others, it answers with %zu: %.300s",
			prepared->n_devices, devices);
	}
	return dra_end(trial, &claim);
}

/* --- administrators --- */

static enum outcome prepares_for_administrators(
	struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {}, admin_message = {};
	struct claim_name holder, claim;
	json_t *result = first_result(trial);
	size_t before, after;

	(void)json_object_set_new(result, "adminAccess", json_true());
	if (!make_claim(trial, json_pack("[o]", result), NULL, &claim))
		return OUTCOME_NOT_OK;
	holder = claims_name(trial, 0);
	if (!dra_prepare_waiting(trial, &holder, &message))
		return OUTCOME_NOT_OK;
	before = dra_count_described(trial, dra_find_prepared(&message, holder.uid));
	if (!dra_prepare_waiting(trial, &claim, &admin_message) ||
		!dra_unprepare_one(trial, &claim))
		return OUTCOME_NOT_OK;
	after = dra_count_described(trial, dra_find_prepared(&message, holder.uid));
	if (after != before)
		return trial_fail(trial,
			"when an administrator's claim of the device was unprepared, %zu of the %zu CDI devices of its user's claim were described",
			after, before);
	return dra_end(trial, &holder);
}

/* --- deleted claims, and a server that fails --- */

static enum outcome unprepares_deleted(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	struct claim_name claim;

	if (!make_usual_claim(trial, NULL, &claim) ||
		!dra_prepare_waiting(trial, &claim, &message) || !api_delete_claim(trial, CLAIM) ||
		!dra_unprepare_one(trial, &claim) ||
		!dra_check_removed(trial, dra_find_prepared(&message, claim.uid)))
		return OUTCOME_NOT_OK;
	return OUTCOME_OK;
}

/* The kubelet has not ended the pod of the deleted claim yet; the scheduler no longer knows it. */
static enum outcome keeps_from_successor(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {}, later = {};
	struct claim_name former, claim;
	enum outcome outcome;

	if (!api_make_claim(trial, FORMER,
		    json_pack("{s:{s:[o]}}", "devices", "results", first_result(trial)), &former) ||
		!dra_prepare_waiting(trial, &former, &message) ||
		!api_delete_claim(trial, FORMER) || !make_usual_claim(trial, NULL, &claim))
		return OUTCOME_NOT_OK;
	outcome = dra_check_refused(
		trial, &claim, "a claim for a device that a deleted claim still holds");
	if (outcome != OUTCOME_OK)
		return outcome;
	if (!dra_unprepare_one(trial, &former) || !dra_prepare_waiting(trial, &claim, &later))
		return OUTCOME_NOT_OK;
	return dra_end(trial, &claim);
}

static bool fail_all(struct trial *trial)
{
	return api_set_faults(trial, json_pack("[{s:i}]", "do", 503));
}

static enum outcome unprepares_without_server(
	struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	struct claim_name claim;
	bool done;

	if (!make_usual_claim(trial, NULL, &claim) ||
		!dra_prepare_waiting(trial, &claim, &message) || !fail_all(trial))
		return OUTCOME_NOT_OK;
	done = dra_unprepare_one(trial, &claim) &&
		dra_check_removed(trial, dra_find_prepared(&message, claim.uid));
	return api_set_faults(trial, NULL) && done ? OUTCOME_OK : OUTCOME_NOT_OK;
}

static enum outcome waits_for_server(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	enum outcome outcome;
	/* With the default of --timeout, this is the kubelet's limit; a shorter one shortens it. */
	uint64_t limit = MIN_OF(trial->options->timeout * 3 / 2, KUBELET_LIMIT);
	struct claim_name claim;

	if (!make_usual_claim(trial, NULL, &claim) || !fail_all(trial))
		return OUTCOME_NOT_OK;
	outcome = dra_check_refused_within(
		trial, &claim, "a claim that the driver cannot read", limit);
	if (!api_set_faults(trial, NULL) || outcome != OUTCOME_OK)
		return OUTCOME_NOT_OK;
	if (!dra_prepare_waiting(trial, &claim, &message))
		return OUTCOME_NOT_OK;
	return dra_end(trial, &claim);
}

static const struct conformance_case cases[] = {
	{ 160, "dra-not-allocated", "refuses a claim that is not allocated",
		"a pod that was bound past the scheduler has such a claim", 0,
		NEEDS_SERVING | NEEDS_CLAIM | NEEDS_API, refuses_unallocated, NULL },
	{ 161, "dra-unknown-device", "refuses a device that it has not published",
		"a device can be removed between its allocation and the start of the pod", 0,
		NEEDS_SERVING | NEEDS_CLAIM | NEEDS_API, refuses_unknown_device, NULL },
	{ 162, "dra-other-drivers",
		"answers with its own devices of a claim that other drivers share",
		"one claim can have requests of several drivers (KEP-4381)", 0,
		NEEDS_SERVING | NEEDS_CLAIM | NEEDS_API, answers_own_devices, NULL },
	{ 163, "dra-admin-access", "prepares a device in use for a claim with adminAccess",
		"monitoring pods share devices with their users, who must not notice (KEP-5018)", 0,
		NEEDS_SERVING | NEEDS_CLAIM | NEEDS_API, prepares_for_administrators, NULL },
	{ 164, "dra-parameters", "refuses parameters of a kind that it does not know",
		"a pod whose parameters were ignored runs with a device in another state than it asked for",
		0, NEEDS_SERVING | NEEDS_CLAIM | NEEDS_API, refuses_parameters, NULL },
	{ 165, "dra-other-parameters", "ignores parameters for another driver",
		"classes and claims can have parameters for several drivers", 0,
		NEEDS_SERVING | NEEDS_CLAIM | NEEDS_API, ignores_parameters, NULL },
	{ 166, "dra-claim-deleted", "unprepares a claim that the API server no longer has",
		"pods can be deleted by force; an error keeps the kubelet from ending the pod", 0,
		NEEDS_SERVING | NEEDS_CLAIM | NEEDS_API, unprepares_deleted, NULL },
	{ 167, "dra-unprepare-without-api", "unprepares a claim while the API server fails",
		"a node must be able to free its devices on its own", 0,
		NEEDS_SERVING | NEEDS_CLAIM | NEEDS_API, unprepares_without_server, NULL },
	{ 168, "dra-prepare-without-api",
		"reports within 45 seconds that it cannot read a claim, and prepares it later",
		"the kubelet ends the call then, and shows only that the time is over", 0,
		NEEDS_SERVING | NEEDS_CLAIM | NEEDS_API, waits_for_server, NULL },
	{ 169, "dra-deleted-holder",
		"refuses a device that a deleted claim holds until that claim is unprepared",
		"when a pod is deleted by force, the scheduler allocates its device while the pod still runs",
		141471, NEEDS_SERVING | NEEDS_CLAIM | NEEDS_API, keeps_from_successor, NULL },
};

const struct case_table dra_server_cases = { cases, ARRAY_SIZE(cases) };
