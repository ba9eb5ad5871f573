/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a datagram on the control socket: refused or received, with a terminated text, and
 * no descriptor lost.
 */
#include <sys/socket.h>

#include "common/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(0);
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		abort();
	if (send(pair[0], data, size, MSG_NOSIGNAL) == (ssize_t)size &&
		control_receive(pair[1], &message) >= 0 &&
		strnlen(message.text, sizeof(message.text)) == sizeof(message.text))
		abort();
	close_fd(pair[0]);
	close_fd(pair[1]);
	return 0;
}
