/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends requests to the daemon through its control socket (docs/contributing/control-socket.md).
 */

#include <jansson.h>

#include "common/error.h"

/* The timeout for an answer that needs no work. With the time to connect, a daemon that does not
 * answer is noticed within 5 seconds. */
#define ASK_TIMEOUT 4

#define NOT_RUNNING_FORMAT "devplugd is not running: nothing answers in %s"

/* `arguments`: members of the request beside version and verb, NULL for none; takes the reference.
 * `timeout`: seconds until the answer. Returns 0 with the answer, or negative errno with the error
 * filled: -ESRCH: no daemon listens in `runtime_dir`, -EACCES: this user may not ask, -ETIMEDOUT:
 * the daemon does not answer, or the daemon's own error. */
int ask_daemon(const char *runtime_dir, const char *verb, json_t *arguments, unsigned timeout,
	json_t **ret_answer, struct error *error);

/* Asks for the status with pods, or for all that a pod has, and for the documents of devices, which
 * are their processes' own and may have any content: an object by the names of resources.
 * ask_pod() leaves them out if `ret_devices` is NULL. Errors as ask_daemon(). */
int ask_status(
	const char *runtime_dir, json_t **ret_answer, json_t **ret_devices, struct error *error);
int ask_pod(const char *runtime_dir, const char *namespace, const char *pod, json_t **ret_answer,
	json_t **ret_devices, struct error *error);
