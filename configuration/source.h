/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the complete text of the files of a configuration, including the included files, and finds
 * the drop-ins. The text is UTF-8 without NUL bytes, its brackets and quotes are closed, and its
 * numbers fit: libconfig 1.5 gives poor messages about such mistakes, and cuts numbers off.
 */

#include <sys/stat.h>

#include "drivers/model/option.h"

/* Maximum size of a configuration file, with the files that it includes. */
#define CONFIG_FILE_MAX (4U << 20)

/* The name of a file that was read. */
struct source {
	struct source *next;
	char path[];
};

/* The list's own copy of the path, added if it is not there. Returns NULL if out of memory. */
const char *source_name(struct source **sources, const char *path);
void sources_free(struct source *sources);

enum source_kind {
	SOURCE_CONFIGURATION, /* only if root and our user alone can have written it */
	SOURCE_PRESET,        /* as trustworthy as the program it comes with */
};

/* A text in which each "@include" is replaced by the file that it names. */
struct source_text {
	char *text;
	/* The origins of the parts of the text, each with its first line, in the order of the
	 * lines. There is at least one. */
	struct source_part {
		unsigned line;
		struct origin origin; /* `file` is a source_name() */
	} * parts;
	size_t n_parts;
};

void source_text_done(struct source_text *text);
#define _cleanup_source_text_ _cleanup_(source_text_done)

/* The file, and the line in that file, of a line of the text. */
struct origin source_origin(const struct source_text *text, unsigned line);

/* Reads the file and the files that it includes, and checks their text. Only regular files are
 * read, so reading never blocks. The path of an included file is relative to the directory of the
 * file that includes it. Problems are added to the report. Returns 0, -EINVAL for problems in the
 * text, or a negative errno if a file cannot be read; -EPERM: other users could have written it. */
int source_read(const char *path, enum source_kind kind, struct source **sources,
	struct report *report, struct source_text *ret_text);

/* Whether the owner is root, our user or the service's user, and other users cannot write to it. */
bool source_is_trusted(const struct stat *st);

/* Adds the paths of the directory's *.conf files, in lexical order. A directory that does not exist
 * has none. Returns 0, or negative errno with a report entry. */
int source_list_drop_ins(const char *directory, struct report *report, struct strings *paths);

/* An "@include" in a text. */
struct lexical_include {
	const char *begin, *end; /* its place */
	unsigned line;
	const char *path;
};

/* Called for each include. Returns 0 or negative errno, which ends the check. */
typedef int (*lexical_include_handler)(const struct lexical_include *include, void *userdata);

/* Checks one text; `file` names it in the report. `on_include` may be NULL: then nothing can be
 * included. Returns 0, -EINVAL with a report entry, or the handler's result. */
int lexical_check(const char *file, const char *text, size_t size, struct report *report,
	lexical_include_handler on_include, void *userdata);
