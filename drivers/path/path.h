/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of driver "path": a match entry as it was declared, shared by path.c (keys, checks) and
 * path-list.c (the scan).
 */

#include "drivers/model/declaration.h"
#include "drivers/model/driver.h"

enum member_type { MEMBER_AUTO, MEMBER_DEVICE, MEMBER_MOUNT };

struct path_member {
	struct origin origin;
	char *path; /* pattern */
	char *as;
	char *permissions;
	bool optional;
	int type; /* enum member_type */
	bool read_only;
	int64_t limit;
};

/* One pattern, or several whose matches are zipped by position. */
struct path_match {
	struct path_member single; /* path NULL: `members` instead; first, so that origin is */
	struct groups members;     /* struct path_member */
};

static inline size_t path_member_count(const struct path_match *match)
{
	return match->single.path ? 1 : match->members.count;
}

static inline const struct path_member *path_member_get(
	const struct path_match *match, size_t index)
{
	return match->single.path ? &match->single : groups_get(&match->members, index);
}

/* list() of the driver. A device node that several names lead to is added once, under the first of
 * them that is not excluded. */
int path_list(const struct declaration *declaration, struct scan *scan, struct error *error);
