/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads which node a kubelet's client certificate is for: its subject has the common name
 * "system:node:NAME" (Kubernetes documentation, "Using Node Authorization").
 */

#include "common/util.h"

#define DRA_CERTIFICATE_NODE_MAX 253

/* Reads the first certificate of a PEM file. Returns 0; -ENOENT: it is not a kubelet's, or its name
 * is longer than DRA_CERTIFICATE_NODE_MAX; -EBADMSG: it cannot be read; or -ENOMEM. */
int dra_certificate_node(
	const char *pem, size_t size, char ret[static DRA_CERTIFICATE_NODE_MAX + 1]);
