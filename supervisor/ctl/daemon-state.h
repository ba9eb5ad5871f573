/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon's answer and the documents of the devices, joined into one reliable document: every
 * documented member is there and has its type, also if there is no answer.
 */

#include <jansson.h>

#include "common/error.h"
#include "supervisor/ctl/members.h"

struct daemon_state {
	/* Why there is no answer, as ask_daemon(): -ESRCH, -EACCES, -ETIMEDOUT or another; code 0:
	 * there is one. */
	struct error unanswered;
	bool running; /* a daemon uses the directory */
	char *runtime_dir;
	json_t *root; /* {"generation", "pid", "running", "resources": [{..., "devices": [...]}]} */
	json_t *all;  /* the resources before daemon_state_select(); NULL before that, or without
		       * memory */
};

/* `runtime_dir` NULL: from the configuration file; `config_file` NULL: the default one, and a
 * built-in directory if that cannot be used. Returns 0 or negative errno with the error filled. */
int daemon_state_read(const char *config_file, const char *runtime_dir, struct daemon_state *ret,
	struct error *error);

/* The runtime_dir that these arguments select, as above (malloc'ed), or NULL without memory. */
char *runtime_dir_find(const char *config_file, const char *runtime_dir);

/* Keeps only the resource of that name in `root`. Returns 0, or negative errno with the error
 * filled: that the daemon has not answered, or -ENOENT. */
int daemon_state_select(struct daemon_state *daemon, const char *resource, struct error *error);

/* The DRA driver of a resource, of the member `dra.drivers`; NULL: DRA does not serve it. */
const json_t *daemon_state_driver(const struct daemon_state *daemon, const json_t *resource);

/* The nearest to a word among the members `key` of the objects, or NULL. */
const char *daemon_state_suggest(const json_t *objects, const char *key, const char *word);

/* Keeps only the devices of the pod "NAMESPACE/NAME". Returns 0, or negative errno with the error
 * filled: -ENOENT: it has none, -ENODATA: the kubelet did not answer. */
int daemon_state_select_pod(struct daemon_state *daemon, const char *pod, struct error *error);

void daemon_state_done(struct daemon_state *daemon);
