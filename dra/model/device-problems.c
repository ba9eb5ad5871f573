/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides by the cause of a device's health whether it is a problem of the device, and how people
 * read it.
 */
#include "dra/model/device-problems.h"

#include "common/finding.h"
#include "common/json-read.h"
#include "common/text.h"

/* What is shown of one device. */
#define ID_SHOWN     64
#define REASON_SHOWN 200
#define MORE_MAX     sizeof(" and 18446744073709551615 more")

/* By the names of enum unit_cause: a decision, or what passes when a pod or a program ends. A
 * device that could not be cleaned needs an administrator. */
static bool needs_no_repair(const json_t *device)
{
	const char *cause = text_of(device, "cause");

	return streq(cause, "cordoned") || streq(cause, "claimed") || streq(cause, "booked") ||
		streq(cause, "in_use") ||
		(streq(cause, "cleaning") && streq(text_of(device, "reason"), WHY_CLEANING));
}

json_t *device_problems(const json_t *devices, size_t *ret_total)
{
	json_auto_t *problems = json_object();
	const json_t *device;
	size_t total = 0, i;

	json_array_foreach(devices, i, device)
	{
		const char *id = set_text_of(device, "id"), *cause = text_of(device, "cause");
		const char *health = text_of(device, "health");

		if (!id || streq(health, "Claimed"))
			continue;
		total++;
		if (streq(health, "Unhealthy") && !needs_no_repair(device))
			(void)json_object_set_new(problems, id,
				json_pack("{s:s, s:s, s:b}", "reason", text_of(device, "reason"),
					"since", text_of(device, "since"), "missing",
					(int)(streq(cause, "gone") || streq(cause, "missing"))));
	}
	*ret_total = total;
	return json_incref(problems);
}

void device_problems_text(json_t *problems, char *ret, size_t size)
{
	size_t left = json_object_size(problems), length = 0;
	const json_t *problem;
	const char *id;

	ret[0] = '\0';
	json_object_foreach(problems, id, problem)
	{
		char one[ID_SHOWN + REASON_SHOWN + 16], cut[REASON_SHOWN + 1];
		size_t added;

		(void)snprintf(cut, sizeof(cut), "%s", text_of(problem, "reason"));
		text_sanitize_cut(cut, sizeof(cut));
		(void)snprintf(one, sizeof(one), "%s%.*s%s%s%s", length > 0 ? ", " : "", ID_SHOWN,
			id, *cut ? " (" : "", cut, *cut ? ")" : "");
		text_sanitize(one);
		added = strlen(one);
		if (length + added + MORE_MAX >= size)
			break;
		memcpy(ret + length, one, added + 1);
		length += added;
		left--;
	}
	if (left > 0)
		(void)snprintf(
			ret + length, size - length, "%s%zu more", length > 0 ? " and " : "", left);
}
