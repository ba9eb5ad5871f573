/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Notices that another process has removed or changed a published file, or removed its directory,
 * and has the file written again: a container with a CDI name that no file defines cannot be
 * started.
 */

#include "common/util.h"

struct manager;
struct published_watch;

/* Files are checked at most so often. */
#define PUBLISHED_CHECK_INTERVAL USEC_PER_SEC

int published_watch_new(struct manager *manager, struct published_watch **ret);

/* Watches the directories of the configuration in force, and checks the files. Logs if inotify is
 * not available: the files are then checked at published_watch_check() only. */
void published_watch_configure(struct published_watch *watch);

/* Checks the files as soon as PUBLISHED_CHECK_INTERVAL allows. */
void published_watch_check(struct published_watch *watch);

/* Ends watching some time before published_watch_free(), as kubelet_watch_stop() does. */
void published_watch_stop(struct published_watch *watch);

struct published_watch *published_watch_free(struct published_watch *watch);
DEFINE_CLEANUP(struct published_watch *, published_watch_free)
