/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between the supervisor and devplugd-node-users, which runs for one question. It is
 * written as in control-child.h.
 */

#include "common/control.h"

/* Maximum number of device nodes in a question, and of bytes. */
#define NODE_USERS_MAX       256
#define NODE_USERS_BYTES_MAX (256U << 10)

enum node_users_type {
	/* supervisor to devplugd-node-users */
	NODE_USERS_QUESTION = CONTROL_OWN, /* [peer, fd] peer: the kubelet; sealed memfd with device
					      nodes, one a line: "c" or "b", and the number as
					      MAJOR:MINOR, and the path */
	/* devplugd-node-users to supervisor */
	NODE_USERS_ANSWER, /* [text] a process that has one of them open, or empty */
	NODE_USERS_FAILED, /* [text] why that is not known */
};

extern const struct control_protocol control_node_users;

#define NODE_USERS_MESSAGE_INIT(t) CONTROL_MESSAGE_INIT(&control_node_users, t)
