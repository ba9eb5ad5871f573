/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what the supervisor and devplugd-node-users may send to each other.
 */
#include "common/control-node-users.h"

static const struct control_rule rules[] = {
	[NODE_USERS_QUESTION] = { .name = "QUESTION", .fields = FIELD_PEER, .n_fds = 1 },
	[NODE_USERS_ANSWER] = { .name = "ANSWER", .to_supervisor = true, .fields = FIELD_TEXT },
	[NODE_USERS_FAILED] = { .name = "FAILED", .to_supervisor = true, .fields = FIELD_TEXT },
};

const struct control_protocol control_node_users = { rules, ARRAY_SIZE(rules) };
