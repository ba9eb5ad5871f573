/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of watch: a tree of directories by path, shared by watch.c (who watches which path),
 * watch-points.c (what stands at a path now) and watch-events.c (what has become of it).
 *
 * - A directory is in the tree while it is watched or one below it is; "/" is its root.
 * - A directory is armed after its parent, so that nothing which appears below is missed.
 * - Several paths may lead to one inode, which the kernel knows as one watch descriptor: a point.
 *   A directory is on the list of the point of its `wd`, and there is a point for each descriptor
 *   that some directory has, and for no other.
 * - `stale` is empty but while events are read.
 */

#include <sys/inotify.h>

#include "drivers/map.h"
#include "drivers/watch.h"

#define WATCH_CONTENT_MASK (IN_MODIFY | IN_CLOSE_WRITE)

struct directory {
	struct watcher *watcher;
	char *path;
	enum watch_kind kind;
	struct watch *watches;
	struct directory *parent, *first_child, *previous_sibling, *next_sibling;
	int wd; /* -1: there is none at the path now, or it may not be read */
	struct directory *previous, *next; /* on the same point */
	bool stale;
	struct directory *next_stale;
};

struct watch {
	struct directory *directory;
	struct watch *previous, *next;
	watch_handler handler;
	void *userdata;
};

struct point {
	int wd;
	struct directory *first;
};

struct watcher {
	sd_event *event;
	const char *root;
	int fd;
	sd_event_source *source;
	struct map directories;
	struct point *points; /* sorted by wd; the kernel gives out ascending numbers */
	size_t n_points;
	struct directory *stale; /* to be armed again, with all below them */
};

/* --- watch-points.c --- */

/* NULL: no directory is on it any more. */
struct point *watch_point_find(struct watcher *watcher, int wd);

/* Watches what stands at the path now, which may be nothing or unreadable: both return 0. Returns
 * -ENOSPC, -ENOMEM and the like where there is no watch to be had; then the directory has none. */
int watch_arm(struct directory *directory);

/* Ends that; the kernel is told when nobody else is on the point, which is freed. */
void watch_detach(struct directory *directory);

/* --- watch-events.c --- */

/* Handler of the descriptor; `userdata` is the watcher. */
int watch_on_inotify(sd_event_source *source, int fd, uint32_t revents, void *userdata);
