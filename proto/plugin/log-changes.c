/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which changes of devices are logged: those that appeared, disappeared, failed or
 * recovered between two snapshots; scan-timing.c decides when a change is reported. The units of
 * both snapshots are sorted by id, so one walk finds every difference. Placeholders follow them,
 * and a unit may become a placeholder, so each difference is then searched for in the other
 * snapshot. Many changes must not cause many records: after the first few of a kind, only their
 * number is logged. A device without a result of its probes has neither failed nor recovered.
 */
#include "proto/plugin/log-changes.h"

#include "common/log.h"
#include "common/message-id.h"

#define SAID_EACH 10

enum change {
	CAME,
	WENT,
	CLAIMED,
	RELEASED,
	FAILED,
	RECOVERED,
	WAITS,
	REASON,
	NOTICED,
	NOT_NOTICED,
	CHANGES
};

static const struct {
	int level;
	const char *one, *many; /* the text for one device, and for several */
} texts[CHANGES] = {
	[CAME] = { LOG_NOTICE, "appeared", "appeared" },
	[WENT] = { LOG_NOTICE, "is no longer offered", "are no longer offered" },
	[CLAIMED] = { LOG_NOTICE, "is not offered", "are not offered" },
	[RELEASED] = { LOG_NOTICE, "is offered", "are offered" },
	[FAILED] = { LOG_WARNING, "is unhealthy", "are unhealthy" },
	[RECOVERED] = { LOG_NOTICE, "is healthy again", "are healthy again" },
	[WAITS] = { LOG_NOTICE, "waits for a result of its probes",
		"wait for results of their probes" },
	[REASON] = { LOG_INFO, "is still unhealthy", "are unhealthy for another reason" },
	[NOTICED] = { LOG_NOTICE, "has a notice", "have notices" },
	[NOT_NOTICED] = { LOG_NOTICE, "has no notice any more", "have no notices any more" },
};

static void say(enum change change, const struct snapshot_unit *unit, size_t counts[static CHANGES])
{
	const char *reason =
		change == WENT || change == CAME || change == RELEASED || change == WAITS
		? NULL
		: unit->reason;
	const struct log_fields fields = {
		.device = unit->device->id,
		.message_id = MESSAGE_ID_DEVICE_CHANGED,
	};

	if (counts[change]++ < SAID_EACH)
		log_full(texts[change].level, &fields, "device \"%s\" %s%s%s", unit->device->id,
			texts[change].one, reason ? ": " : "", reason ? reason : "");
}

/* A notice that a healthy device has got or lost; the first one is named. */
static void say_notices(const struct snapshot_unit *unit, size_t counts[static CHANGES])
{
	const struct finding *first = finding_set_get(unit->findings, 0);
	const struct log_fields fields = {
		.device = unit->device->id,
		.message_id = MESSAGE_ID_DEVICE_CHANGED,
	};

	if (!first)
		say(NOT_NOTICED, unit, counts);
	else if (counts[NOTICED]++ < SAID_EACH)
		log_full(texts[NOTICED].level, &fields, "device \"%s\" %s: %s%s%s",
			unit->device->id, texts[NOTICED].one, first->reason ?: "",
			first->reason ? ": " : "", first->text);
}

static bool same_reason(const struct snapshot_unit *a, const struct snapshot_unit *b)
{
	return a->reason == b->reason || (a->reason && b->reason && streq(a->reason, b->reason));
}

static void compare(const struct snapshot_unit *before, const struct snapshot_unit *after,
	size_t counts[static CHANGES])
{
	if (before->claimed_by_other != after->claimed_by_other)
		say(after->claimed_by_other ? CLAIMED : RELEASED, after, counts);
	else if (after->claimed_by_other)
		return;
	else if (after->cause == CAUSE_UNPROBED && !before->healthy &&
		before->cause != after->cause)
		say(WAITS, after, counts);
	else if (after->cause == CAUSE_UNPROBED)
		return;
	else if (before->cause == CAUSE_UNPROBED && after->healthy)
		return;
	else if (before->healthy != after->healthy || before->cause == CAUSE_UNPROBED)
		say(after->healthy ? RECOVERED : FAILED, after, counts);
	else if (after->healthy && !finding_set_equal(before->findings, after->findings))
		say_notices(after, counts);
	else if (!after->healthy && !same_reason(before, after))
		say(REASON, after, counts);
}

/* The unit that has one of the unit's offered ids in the other snapshot, or NULL. */
static const struct snapshot_unit *find_in(
	const struct snapshot *other, const struct snapshot *snapshot, size_t i)
{
	char buffer[OFFERED_ID_MAX + 1];
	unsigned replica, found_replica;
	size_t unit;

	if (!other || other->n_placeholders + snapshot->n_placeholders == 0)
		return NULL;
	for (replica = 0; replica < snapshot->units[i].replicas; replica++)
		if (snapshot_find(other, snapshot_offered_id(snapshot, i, replica, buffer), &unit,
			    &found_replica) >= 0)
			return &other->units[unit];
	return NULL;
}

static void say_new(const struct snapshot *before, const struct snapshot_unit *unit,
	size_t counts[static CHANGES])
{
	if (before && !unit->claimed_by_other)
		say(CAME, unit, counts);
	if (!unit->healthy && unit->cause != CAUSE_UNPROBED)
		say(unit->claimed_by_other ? CLAIMED : FAILED, unit, counts);
	else if (unit->healthy && unit->findings)
		say_notices(unit, counts);
}

void changes_log(const struct snapshot *before, const struct snapshot *after)
{
	const struct log_fields fields = { .message_id = MESSAGE_ID_DEVICE_CHANGED };
	size_t counts[CHANGES] = {}, i = 0, k = 0, n_before = before ? before->n_units : 0;
	bool shared = snapshot_shares_devices(before, after);

	while (i < n_before || k < after->n_units) {
		int order = shared      ? 0
			: i >= n_before ? 1
			: k >= after->n_units
			? -1
			: strcmp(before->units[i].device->id, after->units[k].device->id);

		if (order < 0) {
			if (!find_in(after, before, i))
				say(WENT, &before->units[i], counts);
			i++;
		} else if (order == 0)
			compare(&before->units[i++], &after->units[k++], counts);
		else {
			const struct snapshot_unit *old = find_in(before, after, k);

			if (old)
				compare(old, &after->units[k], counts);
			else
				say_new(before, &after->units[k], counts);
			k++;
		}
	}
	for (size_t change = 0; change < CHANGES; change++)
		if (counts[change] > SAID_EACH)
			log_full(texts[change].level, &fields, "%zu more devices %s",
				counts[change] - SAID_EACH, texts[change].many);
}
