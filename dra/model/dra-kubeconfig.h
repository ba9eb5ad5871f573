/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the address of the API server, and our credentials for it, from the kubeconfig file. Files
 * that it refers to are only named here.
 */

#include "common/error.h"

/* The maximum size of the file, and of each file that it names. */
#define DRA_CREDENTIALS_MAX (1U << 20)

/* A secret that is in the file itself (decoded), or in another: then `file` is its name as written.
 * At most one of them is set. */
struct dra_secret {
	char *data;
	size_t size;
	char *file;
};

struct dra_kubeconfig {
	char *server; /* "https://10.0.0.1:6443" */
	bool insecure;
	struct dra_secret ca, certificate, key, token;
};

/* Reads the current context of a file. Returns 0, or -EBADMSG with the error filled, which contains
 * no secret. */
int dra_kubeconfig_read(
	const char *text, size_t size, struct dra_kubeconfig *ret, struct error *error);

/* The server of the current context, also if its user cannot be used (malloc'ed). NULL: there is
 * none. */
char *dra_kubeconfig_server(const char *text, size_t size);

void dra_secret_done(struct dra_secret *secret);
void dra_kubeconfig_done(struct dra_kubeconfig *config);
