/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files by which others find our devices: CDI documents for the container runtime, information for
 * CNI plugins. They are named here and nowhere else, are put in place in one step, and go with
 * their resource. CDI documents stay when the daemon stops, because containers may be started again
 * while it is away.
 */

#include "config/config.h"
#include "state.h"

/* Our CDI documents; also what every temporary file begins with. */
#define PUBLISHED_PREFIX "devplugd-"

/* Names of the device information that a daemon has written, in runtime_dir: such files have
 * foreign names, so that one that was killed must leave a list for its successor. */
#define PUBLISHED_LIST_FILE "published"

struct published;

/* Learns what a daemon before left. Nothing is removed yet. */
int published_new(struct state *state, struct published **ret);

/* Takes over directories and resources: removes files of ours that are of no resource, or in a
 * directory that is no longer ours. Logs. */
void published_configure(struct published *published, const struct config *config);

/* Makes the files of a resource exactly those of a publication (sealed memfd). Nothing has changed
 * after -EBADMSG, which means that the document is none; other errors are those of the file system
 * and may leave some files. The error is filled. */
int published_take(struct published *published, const char *resource, int fd, struct error *error);

/* Removes what must not outlive the daemon. */
void published_stop(struct published *published);

struct published *published_free(struct published *published);
DEFINE_CLEANUP(struct published *, published_free)
