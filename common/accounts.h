/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds users and groups of this host in its own files. The C library's functions also ask other
 * name services, such as LDAP. That can take minutes, and the callers are event loops.
 */

#include <sys/types.h>

#include "common/util.h"

/* Finds a user or a group by name. Returns 0, or -ENOENT if the files do not contain it. */
int account_find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid);
int account_find_group(const char *name, gid_t *ret);

/* Finds a user. Asks all name services if the files do not contain it: only such a name can
 * block. */
int account_find_any_user(const char *name, uid_t *ret_uid, gid_t *ret_gid);

/* Whether the files contain a user or a group with that id. */
bool account_has_id(uid_t id);
