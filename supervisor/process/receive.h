/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Receives the messages of a child process for the event loop.
 */

#include <systemd/sd-event.h>

#include "common/control.h"

/* As control_receive_from_child(). After -EMFILE, which is logged, `source`, the event source of
 * the socket, waits until it tries again: messages remain in the socket, and the child must not be
 * killed because it seems silent. */
int receive_from_child(
	int control_fd, sd_event_source *source, struct control_message *ret_message);
