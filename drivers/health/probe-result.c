/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the results of one probe make a unit unhealthy or healthy: after as many results in
 * a row as the probe requires. Counts them for the metrics. probes.c combines the probes of a unit.
 */
#include "drivers/health/probe-result.h"

#include "common/counters.h"
#include "common/text.h"

static int set_reason(struct verdict *verdict, const char *reason)
{
	char *copy = NULL;

	if (verdict->reason && reason && streq(verdict->reason, reason))
		return 0;
	if (!verdict->reason && !reason)
		return 0;
	if (reason) {
		copy = strdup(reason);
		if (!copy)
			return -ENOMEM;
	}
	free(verdict->reason);
	verdict->reason = copy;
	return 1;
}

int verdict_feed(struct verdict *verdict, const struct declared_probe *probe, bool healthy,
	const char *reason)
{
	int64_t needed = healthy ? probe->recover_after : probe->fail_after;
	int r;

	counters_add((enum counter)((healthy ? COUNTER_PROBES_HEALTHY : COUNTER_PROBES_UNHEALTHY) +
			     probe->kind),
		1);
	if (verdict->known && verdict->healthy == healthy) {
		verdict->streak = 0;
		return healthy ? 0 : set_reason(verdict, reason);
	}
	if (verdict->known && healthy && probe->recover != RECOVER_PROBE)
		return 0;
	if (verdict->known && ++verdict->streak < needed)
		return 0;
	r = set_reason(verdict, healthy ? NULL : reason);
	if (r < 0)
		return r;
	verdict->known = true;
	verdict->healthy = healthy;
	verdict->streak = 0;
	return 1;
}

void verdict_done(struct verdict *verdict)
{
	free(verdict->reason);
	*verdict = (struct verdict){ 0 };
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
