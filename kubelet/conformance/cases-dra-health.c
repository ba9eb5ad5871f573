/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the health of devices that the status of pods shows, and requests that no kubelet would
 * send.
 */
#include "common/json-read.h"
#include "kubelet/conformance/conformance.h"

#include "kubelet/conformance/dra-calls.h"
#include "kubelet/dra-driver.h"
#include "proto/methods.h"

/* --- health --- */

static bool has_health(
	const struct trial *trial, const char *pool, const char *device, const char *wanted)
{
	json_auto_t *health = dra_driver_health(trial->manager, trial->resource, pool, device);
	const char *state = text_of(health, "health");

	return wanted ? streq(state, wanted) : streq(state, "Healthy") || streq(state, "Unhealthy");
}

/* How many devices of the first claim report that health; NULL: any known health. */
static size_t count_health(struct trial *trial, const char *wanted, size_t *ret_total)
{
	json_auto_t *results = claims_results(trial, 0);
	const json_t *result;
	size_t i, n = 0;

	*ret_total = json_array_size(results);
	json_array_foreach(results, i, result)
	{
		n += has_health(trial, text_of(result, "pool"), text_of(result, "device"), wanted);
	}
	return n;
}

static bool all_have(struct trial *trial, const void *data)
{
	size_t total, n;

	if (!trial->manager)
		return false;
	n = count_health(trial, data, &total);
	return n == total;
}

static bool one_has(struct trial *trial, const void *data)
{
	size_t total;

	return trial->manager && count_health(trial, data, &total) > 0;
}

static bool has_no_service(const struct trial *trial)
{
	return trial->counts.lists == 0 && strstr(trial->ended_by, "Unimplemented");
}

static bool all_have_or_never_will(struct trial *trial, const void *data)
{
	return !trial->options->version->resource_health || has_no_service(trial) ||
		all_have(trial, data);
}

static enum outcome skip_without_health(struct trial *trial)
{
	if (!trial->options->version->resource_health)
		return trial_skip(trial, "kubelets before 1.36 do not follow it");
	if (has_no_service(trial))
		return trial_skip(trial, "the driver has no DRAResourceHealth service");
	return OUTCOME_OK;
}

static enum outcome health_reports(struct trial *trial, const struct conformance_case *self)
{
	size_t total, n;

	if (trial_await(trial, all_have_or_never_will, NULL))
		return skip_without_health(trial);
	if (!trial->manager)
		return OUTCOME_NOT_OK;
	n = count_health(trial, NULL, &total);
	return trial_fail(trial,
		"the health of %zu of the claim's %zu devices is known after %u messages; the stream: %s",
		n, total, trial->counts.lists, trial->ended_by[0] ? trial->ended_by : "open");
}

static enum outcome health_changes(struct trial *trial, const struct conformance_case *self)
{
	const struct conformance_hooks *hooks = &trial->options->hooks;
	enum outcome outcome = OUTCOME_OK;

	if (!trial_await(trial, all_have_or_never_will, "Healthy"))
		return trial_fail(trial, "the devices of the claim are not healthy");
	if (skip_without_health(trial) == OUTCOME_SKIP)
		return OUTCOME_SKIP;
	if (!trial_hook(trial, hooks->fail))
		return OUTCOME_NOT_OK;
	if (!trial_await(trial, one_has, "Unhealthy"))
		outcome = trial_fail(trial,
			"after --fail-command no device of the claim is unhealthy for the kubelet");
	if (!trial_hook(trial, hooks->heal))
		return OUTCOME_NOT_OK;
	if (outcome == OUTCOME_OK && !trial_await(trial, all_have, "Healthy"))
		outcome = trial_fail(trial,
			"after --heal-command a device of the claim is still unhealthy for the kubelet");
	return outcome;
}

/* --- requests that no kubelet would send --- */

static enum outcome refuses_malformed(struct trial *trial, const struct conformance_case *self)
{
	/* A field with a length of 127 bytes, but only three bytes follow. */
	static const uint8_t malformed[] = { 0x0a, 0x7f, 'a', 'b', 'c' };
	static const char *const names[] = { DRA_PREPARE, DRA_UNPREPARE };
	char method[CALL_METHOD_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_reply_ struct reply reply = {};

		call_bytes(trial, call_dra_method(trial, names[i], method), malformed,
			sizeof(malformed), trial->options->timeout, &reply);
		if (reply.status == RPC_OK)
			return trial_fail(
				trial, "%s answered bytes that are not a message", names[i]);
		if (reply.status < 0)
			return trial_fail(trial, "%s of bytes that are not a message: %s", names[i],
				reply.text);
	}
	return trial_check_alive(trial, "bytes that are not a message");
}

static enum outcome refuses_paths(struct trial *trial, const struct conformance_case *self)
{
	static const struct claim_name claims[] = {
		{ "default", UNKNOWN_CLAIM, "../../../../tmp/devplug-kubelet-conformance" },
		{ "default", "../../../api/v1/nodes", "00000000-0000-4000-8000-000000000001" },
		{ "../kube-system", UNKNOWN_CLAIM, "00000000-0000-4000-8000-000000000002" },
		{ "", "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
		enum outcome outcome;
		char what[256];

		(void)snprintf(what, sizeof(what), "the claim \"%s/%s\" with the uid \"%s\"",
			claims[i].namespace, claims[i].name, claims[i].uid);
		outcome = dra_check_refused(trial, &claims[i], what);
		if (outcome != OUTCOME_OK)
			return outcome;
	}
	return OUTCOME_OK;
}

static const struct conformance_case cases[] = {
	{ 130, "dra-health-reports", "reports the health of each device of a claim",
		"the status of pods shows Unknown for a device without health (KEP-4680)", 0,
		NEEDS_SERVING | NEEDS_CLAIM, health_reports, NULL },
	{ 131, "dra-health-changes", "reports when a device fails and recovers",
		"users search for the cause of a failed container in the status of its pod (KEP-4680)",
		0, NEEDS_SERVING | NEEDS_CLAIM | NEEDS_HEALTH, health_changes, NULL },
	{ 140, "dra-malformed", "refuses bytes that are not a message, and keeps working",
		"any process of root can connect to the socket", 0, NEEDS_SERVING,
		refuses_malformed, NULL },
	{ 141, "dra-paths", "refuses claims whose names are paths",
		"drivers use the uid in file names, and the names in a URL", 0, NEEDS_SERVING,
		refuses_paths, NULL },
};

const struct case_table dra_health_cases = { cases, ARRAY_SIZE(cases) };
