/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last accepted configuration, kept in runtime_dir as the complete text of what is in force,
 * drop-ins merged. A daemon that starts and finds its file broken uses it, if it was accepted since
 * the host was booted: devices of today may have other names than those of an earlier boot.
 *
 * A stop, clean or not, leaves it there. Whether the next start is a restart, which has to go on
 * serving, or a start, which has to fail and say why, is decided by who owns the directory: with
 * RuntimeDirectory= and RuntimeDirectoryPreserve=restart, systemd keeps it when it restarts the
 * service or starts it after a crash, and removes it when an administrator stops the service.
 */

#include "config/config.h"

#define LAST_ACCEPTED_FILE "last-good.conf"

/* The file's contents (malloc'ed). -EFBIG: more than could be read back; else negative errno. */
int last_accepted_text(const struct config *config, char **ret, size_t *ret_size);

/* Loads it. -ENOENT: there is none, -ESTALE: it is of an earlier boot, or another negative errno;
 * the error is filled. */
int last_accepted_load(const char *runtime_dir, struct config **ret, struct error *error);
