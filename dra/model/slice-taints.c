/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which taints a device has. Their number is limited, so the most important are the first,
 * and an unhealthy device has at least one that keeps pods away.
 */
#include "dra/model/slice-taints.h"

#include "common/finding.h"
#include "common/json-read.h"
#include "dra/model/slice-lacks.h"

/* k8s.io/api/resource/v1, DeviceMaxIDLength. */
#define TAINT_VALUE_MAX 63
#define LOWER_CASE      "abcdefghijklmnopqrstuvwxyz"
#define EVICTING        "evicting"

/* A taint of the device, or NULL. */
static json_t *find_taint(const json_t *taints, const char *key)
{
	json_t *taint;
	size_t i;

	json_array_foreach(taints, i, taint)
	{
		if (streq(text_of(taint, "key"), key))
			return taint;
	}
	return NULL;
}

/* See slice_taints_mark(). */
static bool is_evicting(const json_t *device)
{
	return json_is_true(json_object_get(device, EVICTING));
}

/* The first taint with a key counts. `value` "": none. Returns 0 or -ENOMEM. */
static int add_taint(json_t *taints, const char *driver, const char *name, const char *value,
	enum probe_severity severity)
{
	/* A failure of the severity "evict" has the effect NoSchedule first. */
	static const char *const effects[_SEVERITY_MAX] = {
		[SEVERITY_NO_NEW_PODS] = "NoSchedule",
		[SEVERITY_EVICT] = "NoExecute",
		[SEVERITY_NOTICE] = "None",
	};
	char key[160];

	(void)snprintf(key, sizeof(key), "%s/%s", driver, name);
	if (json_array_size(taints) >= DRA_TAINTS_MAX || find_taint(taints, key))
		return 0;
	return json_array_append_new(taints,
		       json_pack("{s:s, s:s*, s:s}", "key", key, "value", *value ? value : NULL,
			       "effect", effects[severity])) < 0
		? -ENOMEM
		: 0;
}

/* A cause is a word of unit_cause_name(); a faulty process may report anything. Returns 0 or
 * -ENOMEM. */
static int add_cause(json_t *taints, const char *driver, const char *cause, bool evicting)
{
	static const struct {
		const char *cause, *name;
	} names[] = {
		{ "gone", REASON_MISSING },
		{ "returned", REASON_MISSING },
		{ "missing", REASON_MISSING },
		{ "cordoned", REASON_CORDONED },
		{ "cleaning", REASON_CLEANING },
	};
	size_t length = strspn(cause, LOWER_CASE);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (streq(cause, names[i].cause))
			return add_taint(taints, driver, names[i].name, "",
				evicting && streq(names[i].name, REASON_MISSING)
					? SEVERITY_EVICT
					: SEVERITY_NO_NEW_PODS);
	return add_taint(taints, driver, REASON_UNHEALTHY,
		cause[length] || length > TAINT_VALUE_MAX ? "" : cause, SEVERITY_NO_NEW_PODS);
}

/* Adds what probes have found of one severity. Returns 0 or -ENOMEM. */
static int add_findings(
	json_t *taints, const char *driver, const json_t *device, enum probe_severity severity)
{
	const json_t *findings = json_object_get(device, "findings"), *finding;
	size_t i;
	int r = 0;

	json_array_foreach(findings, i, finding)
	{
		const char *reason = text_of(finding, "reason");
		bool named = finding_reason_is_valid(reason);

		if (finding_severity(text_of(finding, "severity")) == severity && r >= 0)
			r = add_taint(taints, driver, named ? reason : REASON_UNHEALTHY,
				named ? "" : "probe",
				severity == SEVERITY_EVICT && !is_evicting(device)
					? SEVERITY_NO_NEW_PODS
					: severity);
	}
	return r;
}

json_t *slice_taints(const json_t *device, const char *driver, unsigned lacks)
{
	bool healthy = streq(text_of(device, "health"), "Healthy");
	const char *cause = text_of(device, "cause");
	json_auto_t *taints = json_array();
	int r = 0;

	if (!healthy && !streq(cause, "probe"))
		r = add_cause(taints, driver, cause, is_evicting(device));
	if (r >= 0)
		r = add_findings(taints, driver, device, SEVERITY_EVICT);
	if (r >= 0)
		r = add_findings(taints, driver, device, SEVERITY_NO_NEW_PODS);
	if (r >= 0 && !healthy && json_array_size(taints) == 0)
		r = add_cause(taints, driver, cause, false);
	if (r >= 0 && !(lacks & 1U << LACK_NOTICES))
		r = add_findings(taints, driver, device, SEVERITY_NOTICE);
	return r < 0 ? NULL : json_incref(taints);
}

static int copy_marked(const json_t *device, const json_t *evicting, json_t *ret_copies)
{
	json_auto_t *copy = json_copy((json_t *)(uintptr_t)device);

	(void)json_object_del(copy, EVICTING);
	if (json_object_get(evicting, text_of(device, "id")) &&
		json_object_set_new(copy, EVICTING, json_true()) < 0)
		return -ENOMEM;
	return json_array_append(ret_copies, copy) < 0 ? -ENOMEM : 0;
}

json_t *slice_taints_mark(const json_t *devices, const json_t *evicting)
{
	json_auto_t *copies = json_array();
	const json_t *device;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		if (copy_marked(device, evicting, copies) < 0)
			return NULL;
	}
	return json_incref(copies);
}
