/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Restores runtime_dir when another process has removed it, or the lock and the directories in it:
 * clients would find no daemon there, and a second daemon would find no lock.
 */

#include "common/util.h"

struct manager;
struct runtime_watch;

/* Watches from now on. Returns 0, -ENOMEM, or the negative errno of the loop. */
int runtime_watch_new(struct manager *manager, struct runtime_watch **ret);

struct runtime_watch *runtime_watch_free(struct runtime_watch *watch);
DEFINE_CLEANUP(struct runtime_watch *, runtime_watch_free)
