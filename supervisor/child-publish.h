/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a child wants published, on its way to published.h: the newest of its proposals, at a
 * bounded rate, and the answer for which the child waits before it offers the devices.
 */

#include "child.h"
#include "common/control.h"

/* Takes the proposal out of a message. */
void child_publish(struct child *child, struct control_message *message);

/* Where files go has changed: makes them again from what was published last. */
void child_publish_again(struct child *child);

/* The process is gone; its files stay. */
void child_publish_forget(struct child *child);
