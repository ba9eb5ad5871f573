/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files in which the Container Device Interface describes devices to the container runtime.
 * They are read only to find out whether a name is in one of them.
 */

#include "drivers/host/scan.h"
#include "drivers/model/option.h"

/* The directories that container runtimes read by default, as text for messages. */
#define CDI_DIRECTORIES "/etc/cdi or /run/cdi"

/* The content of the files, for one scan. Zero it before use. */
struct cdi_files {
	struct strings texts;
	bool read;
};

/* Reads the files of the directories (by default the usual ones), unless that was done, and watches
 * them with the scan. Files that cannot be read are left out. Returns 0 or -ENOMEM. */
int cdi_files_read(struct cdi_files *files, struct scan *scan, const struct strings *directories);

/* Whether one of the files defines that device of the kind ("vendor.example/class"). */
bool cdi_files_define(const struct cdi_files *files, const char *kind, const char *device);

void cdi_files_done(struct cdi_files *files);
#define _cleanup_cdi_files_ _cleanup_(cdi_files_done)
