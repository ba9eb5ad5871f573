/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what the supervisor and the kubelet client may send to each other.
 */
#include "common/control-kubelet-client.h"

static const struct control_rule rules[] = {
	[CONTROL_STOP] = { .name = "STOP" },
	[CLIENT_REGISTER] = { .name = "REGISTER",
		.fields = FIELD_SESSION | FIELD_PRESTART | FIELD_TEXT,
		.n_fds = 1 },
	[CLIENT_ANSWER] = { .name = "ANSWER", .fields = FIELD_SESSION | FIELD_TEXT, .n_fds = 1 },

	[CONTROL_ALIVE] = { .name = "ALIVE", .to_supervisor = true },
	[CLIENT_REGISTERED] = { .name = "REGISTERED",
		.to_supervisor = true,
		.fields = FIELD_SESSION },
	[CLIENT_REFUSED] = { .name = "REFUSED",
		.to_supervisor = true,
		.fields = FIELD_SESSION | FIELD_TEXT },
	[CLIENT_UNUSED] = { .name = "UNUSED", .to_supervisor = true, .fields = FIELD_SESSION },
};

const struct control_protocol control_client = { rules, ARRAY_SIZE(rules) };
