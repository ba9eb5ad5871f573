/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what the supervisor and the process of a resource may send to each other.
 */
#include "common/control-child.h"

static const struct control_rule rules[] = {
	[CONTROL_STOP] = { .name = "STOP" },
	[CHILD_CONFIGURE] = { .name = "CONFIGURE", .n_fds = 1, .n_optional_fds = 1 },
	[CHILD_SESSION] = { .name = "SESSION", .fields = FIELD_SESSION | FIELD_PEER, .n_fds = 1 },
	[CHILD_END_SESSION] = { .name = "END_SESSION", .fields = FIELD_SESSION },
	[CHILD_PUBLISHED] = { .name = "PUBLISHED", .fields = FIELD_NUMBER | FIELD_TEXT },
	[CHILD_OWNERS] = { .name = "OWNERS",
		.fields = FIELD_NUMBER | FIELD_TEXT,
		.n_optional_fds = 1 },
	[CHILD_BOOKED] = { .name = "BOOKED", .fields = FIELD_TIMES, .n_fds = 1 },
	[CHILD_LIST_AGAIN] = { .name = "LIST_AGAIN" },
	[CHILD_FORGET] = { .name = "FORGET", .fields = FIELD_TEXT },
	[CHILD_RELEASE] = { .name = "RELEASE", .fields = FIELD_PHASE | FIELD_TEXT },
	[CHILD_COUNTERS] = { .name = "COUNTERS", .n_fds = 1 },
	[CHILD_EDIT] = { .name = "EDIT", .fields = FIELD_NUMBER | FIELD_TEXT, .n_fds = 1 },
	[CHILD_SCAN] = { .name = "SCAN", .fields = FIELD_NUMBER },
	[CHILD_LAST_COMPLETE] = { .name = "LAST_COMPLETE", .n_fds = 1 },

	[CONTROL_ALIVE] = { .name = "ALIVE", .to_supervisor = true },
	[CHILD_READY] = { .name = "READY", .to_supervisor = true },
	[CHILD_REFUSED] = { .name = "REFUSED", .to_supervisor = true, .fields = FIELD_TEXT },
	[CHILD_SERVING] = { .name = "SERVING", .to_supervisor = true, .fields = FIELD_SESSION },
	[CHILD_SESSION_ENDED] = { .name = "SESSION_ENDED",
		.to_supervisor = true,
		.fields = FIELD_SESSION | FIELD_TEXT },
	[CHILD_DEVICES] = { .name = "DEVICES",
		.to_supervisor = true,
		.fields = FIELD_DEVICES,
		.n_fds = 1,
		.n_optional_fds = 1 },
	[CHILD_GONE] = { .name = "GONE", .to_supervisor = true, .fields = FIELD_REMOVED },
	[CHILD_PUBLISH] = { .name = "PUBLISH",
		.to_supervisor = true,
		.fields = FIELD_NUMBER,
		.n_fds = 1 },
	[CHILD_CLAIMS] = { .name = "CLAIMS",
		.to_supervisor = true,
		.fields = FIELD_NUMBER,
		.n_fds = 1 },
	[CHILD_SCANNED] = { .name = "SCANNED", .to_supervisor = true, .fields = FIELD_NUMBER },
	[CHILD_CALL_FAILED] = { .name = "CALL_FAILED",
		.to_supervisor = true,
		.fields = FIELD_CALL | FIELD_TEXT },
	[CHILD_EDITS] = { .name = "EDITS",
		.to_supervisor = true,
		.fields = FIELD_NUMBER | FIELD_TEXT,
		.n_optional_fds = 1 },
	[CHILD_COMPLETE] = { .name = "COMPLETE", .to_supervisor = true, .n_fds = 1 },
	[CHILD_EDITS_CHANGED] = { .name = "EDITS_CHANGED", .to_supervisor = true },
};

const struct control_protocol control_child = { rules, ARRAY_SIZE(rules) };
