/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The lock on a runtime_dir: only one devplugd uses it at a time.
 */

#include "common/error.h"

#define RUNTIME_LOCK_FILE "lock"

/* Takes the lock in the directory, whose path is for the message. Returns the descriptor that has
 * it until its file is closed, or negative errno with the error filled: -EBUSY: another devplugd
 * has it. */
int runtime_lock_take(int directory_fd, const char *path, struct error *error);

/* Whether another process has the lock of the directory with this path. */
bool runtime_lock_is_taken(const char *path);
