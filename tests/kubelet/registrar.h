/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Registration service on kubelet.sock.
 */

#include "manager.h"

struct register_request; /* a Register call that waits for its answer */

/* Serves on the listening socket; takes the descriptor, also on failure. */
int registrar_new(struct manager *manager, int fd, struct registrar **ret);

/* Answers what waits and stops serving. */
struct registrar *registrar_free(struct registrar *registrar);

/* Answers the call, with an error if `error` is not NULL, and frees the request. */
void register_request_answer(struct register_request *request, const char *error);

/* Number of the connection the call came on. */
uint64_t register_request_caller(const struct register_request *request);
