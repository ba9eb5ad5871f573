/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of a configuration: reading their text whole, and finding the drop-ins. Text that comes
 * out of here is UTF-8 without NUL bytes, its brackets and quotes are closed, its numbers fit, and
 * every file it includes is like that too: libconfig 1.5 says little about such mistakes, cuts
 * numbers off, and ends the program if it is to include a directory.
 */

#include "config/config.h"

/* The name of a file that was read. */
struct source {
	struct source *next;
	char path[];
};

/* The list's own copy of the path, added if it is not there. Returns NULL if out of memory. */
const char *source_name(struct source **sources, const char *path);
void sources_free(struct source *sources);

/* Reads the file and checks its text. `drop_in`: nothing that one could wait for, such as a pipe,
 * is read. Problems are added to the report. Returns 0, -EINVAL for problems in the text, or the
 * negative errno that kept it from being read. */
int source_read(const char *path, bool drop_in, struct report *report, char **ret_text);

/* Adds the paths of the directory's *.conf files, in lexical order. A directory that does not exist
 * has none. Returns 0, or negative errno with a report entry. */
int source_list_drop_ins(const char *directory, struct report *report, struct strings *paths);

/* Told of each file that the text includes. Returns 0 or negative errno, which ends the check. */
typedef int (*lexical_include_handler)(
	const char *file, unsigned line, const char *included, void *userdata);

/* Checks one text; `file` names it in the report. `on_include` may be NULL: then nothing can be
 * included. Returns 0, -EINVAL with a report entry, or what the handler returned. */
int lexical_check(const char *file, const char *text, size_t size, struct report *report,
	lexical_include_handler on_include, void *userdata);
