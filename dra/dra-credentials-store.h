/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the credentials in the form that libcurl takes. The supervisor reads the files one after
 * the other. New credentials replace the current ones only when all files have been read: a file
 * that is being rewritten changes nothing. A certificate and a key in files of their own are used
 * when a second reading finds the same, because one may have been replaced before the other; except
 * where the current ones are not usable. Unchanged files stay as they are, so that connections
 * are used again.
 */

#include "common/control-cluster.h"
#include "dra/dra-certificate.h"
#include "dra/model/dra-kubeconfig.h"

#define DRA_CREDENTIALS_AGE (60 * USEC_PER_SEC)
/* Between two readings of a certificate and a key that have changed. */
#define DRA_CREDENTIALS_SETTLE (1 * USEC_PER_SEC)

enum dra_file { DRA_FILE_CA, DRA_FILE_CERTIFICATE, DRA_FILE_KEY, DRA_FILE_TOKEN, _DRA_FILE_MAX };

struct dra_credentials {
	struct dra_kubeconfig config;
	char *texts[_DRA_FILE_MAX];
	size_t sizes[_DRA_FILE_MAX];
	int fds[_DRA_FILE_MAX];     /* memfds of the first three; -EBADF: none */
	struct dra_kubeconfig next; /* with the next two: what is being loaded */
	char *next_texts[_DRA_FILE_MAX];
	size_t next_sizes[_DRA_FILE_MAX];
	char *next_path;
	bool loading;
	enum dra_file at;   /* the requested file */
	uint64_t request;   /* counts requests for files */
	char *path;         /* of the kubeconfig file, for messages; NULL: not loaded */
	uint64_t loaded_at; /* CLOCK_MONOTONIC; 0: not loaded, or no longer to be used */
	uint64_t stale_at;  /* when they are read again; CLOCK_MONOTONIC */
	uint64_t seen_pair; /* of the last reading, a hash */
	bool outdated;      /* they may have rotated */
	char failure[CONTROL_TEXT_MAX];          /* why the last attempt failed, "" if it did not */
	char node[DRA_CERTIFICATE_NODE_MAX + 1]; /* in the client certificate; "": none */
	unsigned generation;                     /* counts changes */
};

#define DRA_CREDENTIALS_INIT ((struct dra_credentials){ .fds = { -EBADF, -EBADF, -EBADF, -EBADF } })

/* Begins to read them. */
void dra_credentials_load(struct dra_credentials *credentials);

/* Takes a CLUSTER_FILE. Returns whether it was the last one. Then the credentials are loaded; or
 * `failure` is set, logged, and the old credentials stay in use. */
bool dra_credentials_take(struct dra_credentials *credentials, struct control_message *message);

/* Stops loading for that reason, with the effect of a failure. */
void dra_credentials_fail(struct dra_credentials *credentials, const char *reason);

/* The path by which libcurl reads a file, or NULL if there is none. */
const char *dra_credentials_path(
	const struct dra_credentials *credentials, enum dra_file file, char buffer[static 32]);

void dra_credentials_done(struct dra_credentials *credentials);
