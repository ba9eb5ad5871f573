/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The two forms in which the manual is written. Text given to them is plain; what stands between
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

struct manual_format {
	const char *name;
	void (*begin)(FILE *stream);
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

/* devplugd.conf(5), and docs/configuration.md. */
extern const struct manual_format manual_page, manual_markdown;
