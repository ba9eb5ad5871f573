/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The commands of the control socket. A request is {"command": name, ...}.
 */

#include "kubelet/control-socket.h"

/* Runs the command, which replies to the request now or later. */
void command_run(struct manager *manager, struct control_request *request, const json_t *arguments);
