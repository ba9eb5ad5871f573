/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a datagram on the control socket: refused or received, with a terminated text, by
 * every protocol and in both directions, and no descriptor lost.
 */
#include <sys/socket.h>

#include "common/control-child.h"
#include "common/control-cluster.h"
#include "common/control-exporter.h"
#include "common/control-kubelet-client.h"
#include "common/control-node-users.h"
#include "common/control-pods.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void receive(
	const uint8_t *data, size_t size, const struct control_protocol *protocol, bool from_child)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(protocol, 0);
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		abort();
	if (send(pair[0], data, size, MSG_NOSIGNAL) == (ssize_t)size) {
		r = from_child ? control_receive_from_child(pair[1], protocol, &message)
			       : control_receive(pair[1], protocol, &message);
		if (r >= 0 &&
			(strnlen(message.text, sizeof(message.text)) == sizeof(message.text) ||
				message.type >= protocol->n_rules ||
				protocol->rules[message.type].to_supervisor != from_child))
			abort();
	}
	close_fd(pair[0]);
	close_fd(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct control_protocol *const protocols[] = {
		&control_child,
		&control_client,
		&control_cluster,
		&control_exporter,
		&control_node_users,
		&control_pods,
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(protocols); i++)
		receive(data, size, protocols[i / 2], i % 2);
	return 0;
}
