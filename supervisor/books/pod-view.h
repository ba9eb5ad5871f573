/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All that the kubelet has assigned to the containers of one pod, for clients of the control
 * socket: CPUs, memory, and devices of any plugin or DRA driver, not only of devplugd.
 */

#include "supervisor/control/request.h"

/* The verb "pod" (docs/contributing/control-socket.md). */
int pod_view_request(struct request *request, json_t **ret_answer, struct error *error);
