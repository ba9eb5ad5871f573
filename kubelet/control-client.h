/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The client's end of the control socket.
 */

#include <jansson.h>

#include "common/error.h"

/* Sends the request to the control socket in the directory of a program, and waits for the reply,
 * an object. Returns 0 or negative errno with the error filled, which names the program and the
 * option that sets its directory. */
int client_exchange(const char *dir, const char *program, const char *option, const json_t *request,
	json_t **ret_reply, struct error *error);

/* As client_exchange() with the kubelet. -ECONNREFUSED or -ENOENT: no kubelet is running. A
 * reply {"error": text} is an error with that text, -EREMOTEIO. */
int client_call(
	const char *state_dir, const json_t *request, json_t **ret_reply, struct error *error);
