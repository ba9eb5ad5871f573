/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Registration service on kubelet.sock.
 */

#include "kubelet/kubelet-manager.h"

/* A caller that wants a plugin to be registered and waits for the outcome; embedded as first
 * member. `answer` is called once and frees it; `error` is NULL on success. */
struct register_request {
	void (*answer)(struct register_request *request, const char *error);
	uint64_t caller; /* number of the connection a Register call came on, 0: none */
};

/* Serves on the listening socket; takes the descriptor, also on failure. */
int registrar_new(struct manager *manager, int fd, struct registrar **ret);

/* Answers the waiting calls and stops serving. */
struct registrar *registrar_free(struct registrar *registrar);
