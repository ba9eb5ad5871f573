/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reports when a directory changes, over one inotify descriptor for all watches. A watch belongs to
 * a path: it waits for a directory that does not exist yet, and follows a path that is replaced at
 * any level.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

struct watcher;
struct watch;

enum watch_kind {
	WATCH_ENTRIES, /* entries are added, removed, or change owner and mode */
	WATCH_CONTENT, /* also: files in it are written */
};

/* What happened to an entry. */
enum watch_change {
	WATCH_ANYTHING, /* events were lost, or the directory appeared or disappeared; `name` is
			 * NULL */
	WATCH_CHANGED,  /* the entry came, went, or is complete */
	WATCH_WRITING,  /* another process may be writing it */
};

typedef void (*watch_handler)(enum watch_change change, const char *name, void *userdata);

/* `root` stands for "/" and must outlive the watcher. No descriptor is opened before the first
 * watch. */
int watcher_new(sd_event *event, const char *root, struct watcher **ret);

/* All watches must have been freed. */
struct watcher *watcher_free(struct watcher *watcher);
DEFINE_CLEANUP(struct watcher *, watcher_free)

/* Watches a directory from now on. A handler must only record the change: it must not add or free
 * watches. Fails if inotify is not available (-ENOSPC, -EMFILE, ...): the caller then scans at
 * intervals. */
int watch_add(struct watcher *watcher, const char *directory, enum watch_kind kind,
	watch_handler handler, void *userdata, struct watch **ret);
struct watch *watch_free(struct watch *watch);

/* Describes an error of watch_add() or inotify, with the setting to raise where that is a limit.
 * The text is not to be freed. */
const char *watch_strerror(int r);
DEFINE_CLEANUP(struct watch *, watch_free)
