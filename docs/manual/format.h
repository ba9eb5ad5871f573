/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The two forms in which the manual is written. Text is passed to them as plain text; text between
 * `back quotes` is shown as code.
 */

#include <stdbool.h>
#include <stdio.h>

struct manual_key {
	const char *key;
	const char *value;   /* what may be written, with bounds and unit */
	const char *initial; /* the default; NULL: none */
	bool required;
	const char *help;
};

/* What a document is called. */
struct manual_title {
	const char *name;         /* of the page, such as "devplugd.conf" */
	unsigned section;         /* of the manual */
	const char *summary;      /* goes on after the name */
	const char *const *files; /* that it is about, NULL-terminated; NULL: none */
};

struct manual_format {
	void (*begin)(FILE *stream, const struct manual_title *title);
	/* 1: a section, 2 and 3: below it */
	void (*heading)(FILE *stream, unsigned level, const char *text);
	void (*paragraph)(FILE *stream, const char *text);
	void (*keys_begin)(FILE *stream);
	void (*key)(FILE *stream, const struct manual_key *key);
	void (*terms_begin)(FILE *stream);
	void (*term)(FILE *stream, const char *term, const char *text);
	/* Lines of a configuration. */
	void (*code)(FILE *stream, const char *text);
};

/* Manual pages, and docs/configuration.md. */
extern const struct manual_format manual_page, manual_markdown;
