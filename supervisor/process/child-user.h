/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which user a child runs as. A process can signal, trace, limit and slow down every other process
 * of its user, so each resource has a user id of its own, which is neither that of the supervisor
 * nor that of a sibling. A resource keeps its id until devplugd ends, and no other resource gets
 * it after that one, so that nothing that a process left behind can touch another resource.
 *
 * Ids come from 60706 to 61183, which no system assigns, and after these from 61184 to 65519, which
 * systemd assigns to services with DynamicUser=, without those that are in use. All are below
 * 65536, so that they exist in containers with a user namespace, too.
 */

#include "common/child-entry.h"
#include "common/error.h"

#define CHILD_USER_FIRST 60706U
#define CHILD_USER_LAST  65519U

/* Logs a notice if children are separated less well here than on other hosts. */
void child_user_log_isolation(void);

/* The identity of the process with that name. `user`: a name or number, or NULL for an id of its
 * own, or for our own user where we cannot change it. Returns 0 or negative errno with the error
 * filled. */
int child_user_find(const char *user, const char *name, struct identity *ret, struct error *error);

/* The identity of a process that is not the daemon's: the user of a resource, or else an id that no
 * child uses, unless thousands of them run. */
int child_user_find_guest(const char *user, struct identity *ret, struct error *error);

/* Whether a child may have it; never our own. */
bool child_user_is_given(uid_t uid);
