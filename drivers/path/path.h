/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of driver "path": a match entry as it was declared, shared by path.c (keys, checks),
 * path-list.c (the scan), path-join.c (which matches belong together), path-location.c (which
 * hardware is behind a node) and path-notes.c (what matches hide).
 */

#include "common/map.h"
#include "drivers/host/scan.h"
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

enum path_join { JOIN_BY_POSITION, JOIN_BY_NUMBER };
enum path_identity { IDENTITY_PATH, IDENTITY_LOCATION };

/* One pattern, or several whose matches are joined. */
struct path_match {
	struct path_member single; /* path NULL: `members` instead; first, so that origin is */
	struct groups members;     /* struct path_member */
	int join;                  /* enum path_join */
	int identity;              /* enum path_identity */
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

/* The matches of an entry that are joined by number: for each number that all required patterns
 * have, a device. A path that is no pattern belongs to all devices. */
struct path_numbers {
	struct strings texts;   /* the numbers of all matches, without leading zeros */
	struct strings devices; /* the numbers of the devices, ascending */
	struct map *by_number;  /* for each member: the path of the match */
	size_t n_members;
};

/* `found`: the matches of each member. Notes matches that are left out. Returns 0 or -ENOMEM. */
int path_numbers_read(const struct path_match *match, const struct strings *found,
	struct scan *scan, struct path_numbers *numbers);
/* The member's path for the device of that index, or NULL. */
const char *path_numbers_get(const struct path_numbers *numbers, size_t member, size_t index);
void path_numbers_done(struct path_numbers *numbers);

/* Makes an id of the location of the hardware behind a device node. Returns 1, 0 if /sys does not
 * show it, or a shortage (sysroot.h). */
int path_location(
	const struct scan *scan, const struct stat *st, char ret_id[static DEVICE_ID_MAX + 1]);

/* Explains if a directory "by-path" leads to more nodes than the "by-id" that the pattern is about.
 * Returns 0 or a shortage (sysroot.h). */
int path_note_names(struct scan *scan, const char *pattern);

/* Notes if patterns that are joined by position have different numbers of matches. */
void path_note_counts(struct scan *scan, const struct path_match *match, size_t entry,
	const struct strings *found);
