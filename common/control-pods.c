/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what the supervisor and a reader of PodResources may send to each other.
 */
#include "common/control-pods.h"

static const struct control_rule rules[] = {
	[PODS_QUESTION] = { .name = "QUESTION", .fields = FIELD_TEXT, .n_fds = 1 },
	[PODS_ANSWER] = { .name = "ANSWER", .to_supervisor = true, .n_fds = 1 },
	[PODS_REFUSED] = { .name = "REFUSED", .to_supervisor = true, .fields = FIELD_TEXT },
};

const struct control_protocol control_pods = { rules, ARRAY_SIZE(rules) };
