/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The events of devplugd in the journal: the records that have one of its identities.
 */

#include <jansson.h>

#include "common/error.h"

/* As many as the daemon keeps. */
#define JOURNAL_EVENTS_MAX 1000

struct journal;

/* Opens the journal of this host, or the files in `directory`, in front of the last `most` events;
 * `resource` NULL: of all resources. In the journal of this host, only records of root, of the user
 * devplugd and of the owner of `runtime_dir` count: any user can write similar ones. Returns 0 or
 * negative errno with the error filled. */
int journal_open(const char *directory, const char *runtime_dir, const char *resource,
	unsigned most, struct journal **ret, struct error *error);

/* Returns 1 with the next event as the daemon describes it (supervisor/events.h), 0 if there is
 * none yet, or negative errno. */
int journal_next(struct journal *journal, json_t **ret);

/* Waits until there may be new events. Returns 0 or negative errno. */
int journal_wait(struct journal *journal);

struct journal *journal_free(struct journal *journal);
DEFINE_CLEANUP(struct journal *, journal_free)
