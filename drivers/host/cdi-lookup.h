/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files in which the Container Device Interface describes devices to container runtimes. They
 * are read to find out whether, and how, a runtime resolves a name, and which kinds they have.
 */

#include "drivers/host/cdi-document.h"
#include "drivers/model/option.h"

/* The directories that container runtimes read by default, as text for messages. */
#define CDI_DIRECTORIES "/etc/cdi or /run/cdi"

struct cdi_file {
	char *path;
	size_t directory; /* its number; a higher one takes precedence */
	json_t *document; /* NULL: it is not known, or not valid YAML */
	char *problem;    /* why runtimes ignore the file, or why its content is not known, as a
			     clause; NULL: it is valid */
	bool is_unknown;  /* runtimes may load it */
	char *text;       /* of a file with a problem, as far as it can be read; or NULL */
};

/* The files. Zero it before use. */
struct cdi_files {
	struct cdi_file *items;
	size_t count, n_directories;
};

/* The directory of that number, of the configured ones or, if there are none, of those that
 * runtimes read by default; NULL: there are no more. */
const char *cdi_directory(const struct strings *configured, size_t number);

/* Adds the files of a directory, or of those that runtimes read by default. Return 0 or -ENOMEM. */
int cdi_files_add(struct cdi_files *files, const char *root, const char *directory);
int cdi_files_add_usual(struct cdi_files *files, const char *root);

void cdi_files_done(struct cdi_files *files);
#define _cleanup_cdi_files_ _cleanup_(cdi_files_done)

enum cdi_status {
	CDI_UNDEFINED,
	CDI_DEFINED,
	CDI_CONFLICT, /* two files of one directory define it, and runtimes use neither */
	CDI_UNKNOWN,  /* a file that is not known may define it */
};

/* What runtimes find of a device. It points into the files. */
struct cdi_definition {
	enum cdi_status status;
	/* DEFINED: of the device. CONFLICT: the first. UNDEFINED: one that runtimes ignore and that
	 * names the device, or NULL. UNKNOWN: the one that is not known. */
	const struct cdi_file *file;
	const struct cdi_file *other; /* CONFLICT: the second */
	const json_t *device;         /* DEFINED */
};

/* Finds the device of a kind ("vendor.example/class"): that of the last directory that has it. */
void cdi_files_find(const struct cdi_files *files, const char *kind, const char *name,
	struct cdi_definition *ret);

/* A file of that kind, valid or not, except files of the name `but_for`; or NULL. */
const struct cdi_file *cdi_files_find_kind(
	const struct cdi_files *files, const char *kind, const char *but_for);
