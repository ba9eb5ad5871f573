/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Knows which published files are ours. Each directory with such files contains a list of them, for
 * the daemon that starts after this one was stopped, killed or updated. The list is written before
 * the first new file, so that it names too many files rather than too few.
 */

#include <sys/stat.h>

#include "common/map.h"

/* Prefix of the CDI documents of claims. */
#define PUBLISHED_CLAIM_PREFIX "devplugd.dra-"

/* The directory in cdi_dir with files that containers read, which container runtimes do not read,
 * and the prefix of their names. */
#define PUBLISHED_METADATA_DIRECTORY "devplugd.metadata"
#define PUBLISHED_METADATA_PREFIX    "devplugd.metadata-"
#define PUBLISHED_DEVICES_PREFIX     "devplugd.devices-"

/* The owner of the documents of claims, in the place of a resource. */
#define PUBLISHED_CLAIMS "claims"

/* A list's name: this and a hash of runtime_dir, so that two daemons have two lists. It begins with
 * a dot, so that no container runtime reads it. */
#define PUBLISHED_LIST_PREFIX ".devplugd-files-"

/* What a file was when it was written; inode 0: it was not. Every change of a file or its name
 * changes the time. */
struct published_mark {
	dev_t device;
	ino_t inode;
	struct timespec changed;
};

/* Takes the mark of the file that is there now, or none. */
void published_table_mark(struct published_mark *mark, const char *path);

/* Whether the file is still the one that was marked. */
bool published_table_fits(const struct published_mark *mark, const char *path);

enum published_kind {
	PUBLISHED_CDI,      /* the CDI document of a resource */
	PUBLISHED_INFO,     /* device information */
	PUBLISHED_CLAIM,    /* the CDI document of a claim */
	PUBLISHED_METADATA, /* what the containers of a claim read of their devices */
	PUBLISHED_LABELS,   /* labels of the node */
	PUBLISHED_DEVICES,  /* what the containers of a device plugin read of their devices */
};

struct published_directory {
	char *path, *list; /* absolute */
	struct published_mark mark;
	bool changed; /* since the list was written, by more than new files */
	bool written; /* the list, by this daemon: lines of new files can be appended */
	bool failed;  /* the list could not be written, and that was logged */
};

struct published_file {
	char *resource, *path;
	struct published_directory *directory;
	struct published_mark mark;
	enum published_kind kind;
	bool listed;  /* by the list that this daemon has written */
	bool claimed; /* by a resource or claim of this daemon, not only by a list */
	bool kept;
	uint64_t left_since; /* CLOCK_MONOTONIC: no resource publishes it any more; 0: one does, or
				may */
};

struct published_table {
	char list[40]; /* the name of all lists */
	struct published_file **files;
	size_t n_files;
	struct map by_path;
	struct published_directory **directories;
	size_t n_directories;
};

/* The name of a resource's file for containers with these devices, whose ids are sorted. */
#define PUBLISHED_DEVICES_NAME_MAX 128
struct strings;
void published_devices_name(const char *resource, const struct strings *ids,
	char ret[static PUBLISHED_DEVICES_NAME_MAX]);

/* The name of a resource's file with labels. */
#define PUBLISHED_LABELS_NAME_MAX 128
void published_labels_name(const char *resource, char ret[static PUBLISHED_LABELS_NAME_MAX]);

/* Makes an empty one in a table of zeros. */
void published_table_init(struct published_table *table, const char *runtime_dir);

/* Adds the files of the directory's list; only the first call for a directory does anything. A line
 * that names no file as ours are called is left out, and so is a list that others have written.
 * Removes what a killed daemon was writing. Returns 0 or -ENOMEM. Logs. */
int published_table_open(struct published_table *table, const char *directory);

/* Has the resource own a file of an open directory, which stays. Returns 0, -EEXIST: another
 * resource claimed it, which is `ret_owner`, or -ENOMEM. */
int published_table_claim(struct published_table *table, const char *resource, const char *path,
	enum published_kind kind, const char **ret_owner);

/* Unlinks files that are not kept, all or those of one resource; only regular files of ours. */
void published_table_remove(struct published_table *table, const char *resource);

/* Writes the lists that have changed, or that others changed; if there are only new files, appends
 * their lines. Returns whether all are up to date. A failure is logged once, and the next call
 * tries again. */
bool published_table_save(struct published_table *table);

/* Opens the directory of the file, which must not be a symbolic link; `ret_name` is in `path`.
 * Returns a descriptor or negative errno. */
int published_table_open_directory(const char *path, const char **ret_name);

void published_table_done(struct published_table *table);
