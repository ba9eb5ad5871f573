/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the results of one probe make a unit unhealthy or healthy: after as many results in
 * a row as the probe requires. Counts them for the metrics. probes.c combines the probes of a unit.
 */
#include "drivers/health/probe-result.h"

#include "common/counters.h"
#include "common/text.h"

static int set_reason(struct probe_result *result, const char *reason)
{
	char *copy = NULL;

	if (result->reason && reason && streq(result->reason, reason))
		return 0;
	if (!result->reason && !reason)
		return 0;
	if (reason) {
		copy = strdup(reason);
		if (!copy)
			return -ENOMEM;
	}
	free(result->reason);
	result->reason = copy;
	return 1;
}

void probe_result_count(const struct declared_probe *probe, bool healthy)
{
	counters_add((enum counter)((healthy ? COUNTER_PROBES_HEALTHY : COUNTER_PROBES_UNHEALTHY) +
			     probe->kind),
		1);
}

int probe_result_set(struct probe_result *result, const char *reason)
{
	bool changed = !result->known || result->healthy != !reason;
	int r = set_reason(result, reason);

	if (r < 0)
		return r;
	result->known = true;
	result->healthy = !reason;
	return changed || r > 0;
}

/* Whether the newest bad result comes from the device or from the probe. Returns whether that has
 * changed. */
static bool set_origin(struct probe_result *result, enum probe_outcome outcome)
{
	bool before = result->could_not_run;

	result->could_not_run = outcome == PROBE_NOT_RUN;
	return before != result->could_not_run;
}

int probe_result_feed(struct probe_result *result, const struct declared_probe *probe,
	enum probe_outcome outcome, const char *reason)
{
	bool healthy = outcome == PROBE_HEALTHY;
	int64_t needed = healthy ? probe->recover_after : probe->fail_after;
	int r;

	probe_result_count(probe, healthy);
	if (result->known && result->healthy == healthy) {
		result->streak = 0;
		if (healthy)
			return 0;
		r = set_reason(result, reason);
		return r < 0 ? r : set_origin(result, outcome) || r > 0;
	}
	if (result->known && healthy && probe->recover != RECOVER_PROBE)
		return 0;
	if (result->known && ++result->streak < needed)
		return 0;
	r = probe_result_set(result, healthy ? NULL : reason);
	if (r < 0)
		return r;
	result->streak = 0;
	(void)set_origin(result, outcome);
	return 1;
}

void probe_result_done(struct probe_result *result)
{
	free(result->reason);
	*result = (struct probe_result){ 0 };
}

const char *probe_find_healthy(const struct declared_probe *probe, const char *text,
	int (*equal)(const char *healthy, const char *text))
{
	static char ok[] = "ok";
	static char *const usual[] = { ok };
	size_t count = probe->healthy.count;
	char *const *items = count > 0 ? probe->healthy.items : usual;

	for (size_t i = 0; i < MAX_OF(count, (size_t)1); i++)
		if (equal(items[i], text) == 0)
			return items[i];
	return NULL;
}

void reason_copy(const char *text, char ret_reason[static REASON_MAX])
{
	size_t length = strlen(text);

	if (length >= REASON_MAX) {
		length = REASON_MAX - 1;
		while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
			length--;
	}
	memcpy(ret_reason, text, length);
	ret_reason[length] = '\0';
	text_sanitize(ret_reason);
}
