/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The client's end of the control socket.
 */

#include <jansson.h>

#include "common/error.h"

/* Sends the request and waits for the reply. -ECONNREFUSED or -ENOENT: no kubelet is running. A
 * reply {"error": text} is an error with that text, -EREMOTEIO. */
int client_call(
	const char *state_dir, const json_t *request, json_t **ret_reply, struct error *error);
