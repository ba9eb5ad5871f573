/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Being told when a directory changes, over one inotify descriptor however many ask. A directory
 * that does not exist is waited for, and one that is replaced at any level of its path is
 * found again: a watch holds for a path, not for what stood there once.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

struct watcher;
struct watch;

enum watch_kind {
	WATCH_ENTRIES, /* entries come, go, or change owner and mode */
	WATCH_CONTENT, /* also: files in it are written */
};

/* What happened to an entry. */
enum watch_change {
	WATCH_ANYTHING, /* events were lost or the directory came or went; `name` is NULL */
	WATCH_CHANGED,  /* the entry came, went, or is complete */
	WATCH_WRITING,  /* somebody may be in the middle of writing it */
};

typedef void (*watch_handler)(enum watch_change change, const char *name, void *userdata);

/* `root` stands for "/" and must outlive the watcher. No descriptor is opened before the first
 * watch. */
int watcher_new(sd_event *event, const char *root, struct watcher **ret);

/* All watches must have been freed. */
struct watcher *watcher_free(struct watcher *watcher);
DEFINE_CLEANUP(struct watcher *, watcher_free)

/* Watches a directory from now on. A handler takes notes only: it must not add or free watches.
 * Fails if inotify is not to be had (-ENOSPC, -EMFILE, ...): the caller then looks from time to
 * time. */
int watch_add(struct watcher *watcher, const char *directory, enum watch_kind kind,
	watch_handler handler, void *userdata, struct watch **ret);
struct watch *watch_free(struct watch *watch);
DEFINE_CLEANUP(struct watch *, watch_free)
