/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The requests of the control socket. A verb is a row of the table in verbs.c: a name, who may use
 * it, and a handler, which is in the file of its subject.
 */

#include <jansson.h>

#include "common/error.h"

struct manager;

/* The handler is called again after each visible change, until it answers. */
#define REQUEST_LATER 1

struct request {
	struct manager *manager;
	/* The client's document, an object: check the type of each member that you use. */
	const json_t *arguments;
	bool first;        /* the first call for this request */
	bool expired;      /* the last call, because the time is over */
	uint64_t asked_at; /* CLOCK_MONOTONIC */
	/* The handler's: the documents of all resources' devices follow the answer. */
	bool devices_follow;
	uint64_t memory; /* the handler's own, 0 at first */
};

/* Returns 0 with the answer (an object, which becomes the caller's; "version" is added), or
 * REQUEST_LATER, or negative errno with the error filled. Must not block. */
typedef int (*request_handler)(struct request *request, json_t **ret_answer, struct error *error);

struct verb {
	const char *name;
	bool needs_root;  /* for root and the daemon's own user only */
	unsigned timeout; /* seconds until a request that was answered with REQUEST_LATER expires */
	request_handler handle;
};

extern const struct verb verbs[];
extern const size_t n_verbs;

/* A member of the request. `ret`: lives as long as the request, NULL if the member is absent.
 * Returns 0, or -EINVAL with the error filled if it has another type. */
int request_string(
	const struct request *request, const char *key, const char **ret, struct error *error);
