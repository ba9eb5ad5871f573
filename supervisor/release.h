/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Closes the files of the host's driver that a resource keeps open, so that the driver can be
 * unloaded or a device be reset, without taking the resource from the kubelet.
 */

#include "supervisor/control/request.h"

/* The verb "release": {"resource": NAME, "end": true, "reset": DEVICE}; the optional `end` takes
 * the release back, and `reset` names a device whose lasting faults are over. Answers {} when the
 * process of the resource has been sent the message. A release ends with that process. */
int release_request(struct request *request, json_t **ret_answer, struct error *error);
