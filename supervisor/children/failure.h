/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last failures between a resource and the kubelet, for each kind of call. They are kept here
 * and not in the child, so that they outlive the process.
 */

#include <jansson.h>

#include "common/control-child.h"
#include "common/log.h"

/* The calls of enum child_call, and the registration, of which the supervisor itself knows. */
#define FAILURE_REGISTRATION 0
#define FAILURE_KINDS        _CHILD_CALL_MAX

struct failure {
	uint64_t count, last; /* CLOCK_REALTIME microseconds, 0: never */
	char *devices;        /* ids, separated by commas; NULL: none are concerned */
	char *text;
};

/* Takes a message of type CHILD_CALL_FAILED into the resource's failures, and logs it within the
 * budget. Returns false if it is malformed. */
bool failure_take(struct failure failures[static FAILURE_KINDS], const char *resource,
	const struct control_message *message, struct log_budget *budget);

/* Counts a failed registration. The caller logs it. */
void failure_note_registration(struct failure failures[static FAILURE_KINDS], const char *text);

/* An array of {"call", "count", "last", "devices", "text"}, or NULL. */
json_t *failure_describe(const struct failure failures[static FAILURE_KINDS]);

void failure_done(struct failure failures[static FAILURE_KINDS]);
