/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last accepted configuration, kept in runtime_dir as the complete applied text, drop-ins
 * merged. A daemon that finds its file broken at start uses it if it was accepted since the host
 * booted: after a reboot, devices may have other names.
 *
 * A stop, clean or not, leaves it there. Whether the next start is a restart, which must go on
 * serving, or a new start, which must fail with an error, is decided by the owner of the directory:
 * with RuntimeDirectory= and RuntimeDirectoryPreserve=restart, systemd keeps it when it restarts
 * the service or starts it after a crash, and removes it when an administrator stops the service.
 */

#include "configuration/config.h"

#define LAST_ACCEPTED_FILE "last-good.conf"

/* The file's contents (malloc'ed), of any size, with a checksum. Returns 0 or negative errno. */
int last_accepted_text(const struct config *config, char **ret, size_t *ret_size);

/* Loads the file. -EPERM: other users can write to it or its directory, -ENOENT: it does not exist,
 * -ESTALE: it is from an earlier boot, -EBADMSG: its checksum is wrong, or another negative errno;
 * the error is filled. */
int last_accepted_load(const char *runtime_dir, struct config **ret, struct error *error);
