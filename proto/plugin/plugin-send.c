/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how long a child waits for a supervisor that does not read: a second. After that it ends,
 * because a message that is lost would leave the two with different states.
 */
#include "proto/plugin/plugin-send.h"

#include <poll.h>

#include "common/log.h"

#define SEND_TIMEOUT_MSEC 1000

void plugin_send(sd_event *event, const struct control_message *message)
{
	struct pollfd pollfd = { .fd = CONTROL_FD, .events = POLLOUT };
	int r = control_send(CONTROL_FD, message);

	if (r == -EAGAIN && RETRY_ON_EINTR(poll(&pollfd, 1, SEND_TIMEOUT_MSEC)) > 0)
		r = control_send(CONTROL_FD, message);
	if (r < 0) {
		log_error("the supervisor does not listen (%s); exiting", strerror(-r));
		(void)sd_event_exit(event, r);
	}
}
