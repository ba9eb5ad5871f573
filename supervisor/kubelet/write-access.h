/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks whether devplugd can write to the configured directories. The service sees the host
 * through mounts of its own (ProtectSystem=), a container through those of its pod: a directory may
 * be read-only there although it is not on the host, and a directory that is removed on the host
 * and made again is not the one that was mounted.
 */

#include <stdio.h>

#include "configuration/config.h"

/* The remedy for a directory that is read-only: a format for its path, twice. */
#define WRITE_ACCESS_REMEDY                                                               \
	"for the service of the package, run \"devplugctl allow %s && systemctl restart " \
	"devplugd\"; for a container, mount the host's %s at the same path, writable"

/* A missing directory, and the files that cannot be written to it. */
#define WRITE_ACCESS_MISSING "%s does not exist, so there will be no %s: create it"

/* Called for each directory that is read-only, or missing although devplugd does not make it. */
typedef void (*write_access_handler)(
	const char *directory, const char *purpose, bool missing, void *userdata);

/* Checks each directory that devplugd has to write to. `root` is put in front of the paths: "" for
 * the paths of this process. */
void write_access_check(const struct config *config, const char *root,
	write_access_handler on_refused, void *userdata);

/* Prints a warning for each directory that is missing, or read-only for this process or for the
 * daemon that runs in `runtime_dir`, as far as this process may see that. */
void write_access_warn(const struct config *config, const char *runtime_dir, FILE *stream);

/* Logs such warnings for this process. */
void write_access_log(const struct config *config);

/* The directories that were writable once, see write_access_lost(). */
struct write_access {
	bool writable[2];
};

/* The kubelet directory that was writable and, although it exists, no longer is, because it was
 * removed on the host and made again; or NULL. Only a new mount namespace helps. To be called
 * whenever one of the directories may have changed; `access` is zero at first, and after the
 * directories of the configuration have changed. */
const char *write_access_lost(struct write_access *access, const struct kubelet_config *kubelet);
