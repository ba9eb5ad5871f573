/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes files again that another process removed or changed. Without runtime_dir, clients would
 * find no daemon, and a second daemon no lock. Without a published file, a container with a CDI
 * name of it cannot be started.
 */

#include "common/util.h"

struct manager;
struct restore_watch;

int restore_watch_new(struct manager *manager, struct restore_watch **ret);

/* Watches runtime_dir and the directories of published files of the applied configuration, and
 * checks the files. Logs if inotify is not available: published files are then checked at
 * restore_watch_check() only. */
void restore_watch_configure(struct restore_watch *watch);

/* Checks the published files as soon as a second has passed since the last check. */
void restore_watch_check(struct restore_watch *watch);

/* Ends watching some time before restore_watch_free(), as kubelet_watch_stop() does. */
void restore_watch_stop(struct restore_watch *watch);

struct restore_watch *restore_watch_free(struct restore_watch *watch);
DEFINE_CLEANUP(struct restore_watch *, restore_watch_free)
