/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files in which the Container Device Interface describes devices to the container runtime.
 * They are read only to find out whether a name is in one of them, and which kinds they have.
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

/* The kinds of files, and the names of these files. Zero it before use. */
struct cdi_kinds {
	struct strings kinds, files; /* of the same length */
};

/* Adds the kinds of the files in the directory, or in those that container runtimes read by
 * default. Files that cannot be read are left out. Return 0 or -ENOMEM. */
int cdi_kinds_read(struct cdi_kinds *kinds, const char *root, const char *directory);
int cdi_kinds_read_usual(struct cdi_kinds *kinds, const char *root);

/* Whether a file has the kind, except files of the name `but_for`. */
bool cdi_kinds_has(const struct cdi_kinds *kinds, const char *kind, const char *but_for);

void cdi_kinds_done(struct cdi_kinds *kinds);
#define _cleanup_cdi_kinds_ _cleanup_(cdi_kinds_done)
