/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sends messages to the supervisor. */

#include <systemd/sd-event.h>

#include "common/control-child.h"

/* Sends to the supervisor. If it does not read for a second, the loop ends. */
void plugin_send(sd_event *event, const struct control_message *message);
