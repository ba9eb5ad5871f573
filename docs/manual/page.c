/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the manual as a page for man(1), with the macros that every formatter knows.
 */
#include <ctype.h>
#include <string.h>

#include "docs/manual/format.h"

/* A "." or "'" at the beginning of a line would be a macro. */
static void put_character(FILE *stream, char c, bool line_begins)
{
	if (line_begins && (c == '.' || c == '\''))
		(void)fputs("\\&", stream);
	if (c == '\\')
		(void)fputs("\\e", stream);
	else if (c == '-')
		(void)fputs("\\-", stream);
	else if (c == '^')
		(void)fputs("\\(ha", stream);
	else if (c == '~')
		(void)fputs("\\(ti", stream);
	else if (c == '\'')
		(void)fputs("\\(aq", stream);
	else
		(void)fputc(c, stream);
}

static void put_text(FILE *stream, const char *text, int (*letter)(int))
{
	bool code = false;

	for (const char *p = text; *p; p++)
		if (*p == '`') {
			code = !code;
			(void)fputs(code ? "\\fB" : "\\fR", stream);
		} else {
			put_character(stream, letter && !code ? (char)letter(*p) : *p, p == text);
		}
	(void)fputc('\n', stream);
}

static void page_begin(FILE *stream, const struct manual_title *title)
{
	(void)fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n.TH ", stream);
	for (const char *p = title->name; *p; p++)
		(void)fputc(toupper(*p), stream);
	(void)fprintf(stream,
		" %u \"\" \"devplugd " DEVPLUGD_VERSION "\" \"devplugd\"\n"
		".SH NAME\n",
		title->section);
	for (const char *p = title->name; *p; p++)
		put_character(stream, *p, false);
	(void)fprintf(stream, " \\- %s\n", title->summary);
	if (title->files)
		(void)fputs(".SH SYNOPSIS\n", stream);
	for (size_t i = 0; title->files && title->files[i]; i++)
		(void)fprintf(stream, "%s.B %s\n", i > 0 ? ".br\n" : "", title->files[i]);
}

/* Formatters complain of a paragraph that begins where a section does. */
static bool after_heading;

static void page_heading(FILE *stream, unsigned level, const char *text)
{
	after_heading = true;
	(void)fputs(level == 1 ? ".SH " : ".SS ", stream);
	put_text(stream, text, level == 1 ? toupper : NULL);
}

static void page_paragraph(FILE *stream, const char *text)
{
	if (!after_heading)
		(void)fputs(".PP\n", stream);
	after_heading = false;
	put_text(stream, text, NULL);
}

static void page_list_begin(FILE *stream)
{
	after_heading = false;
}

static void page_term(FILE *stream, const char *term, const char *text)
{
	(void)fputs(".TP\n\\fB", stream);
	for (const char *p = term; *p; p++)
		put_character(stream, *p, false);
	(void)fputs("\\fR\n", stream);
	put_text(stream, text, NULL);
}

static void page_key(FILE *stream, const struct manual_key *key)
{
	page_term(stream, key->key, key->help);
	(void)fputs(".br\n", stream);
	put_text(stream, key->value, NULL);
	if (key->required)
		(void)fputs(".br\nRequired.\n", stream);
	if (key->initial) {
		(void)fputs(".br\nDefault: ", stream);
		put_text(stream, key->initial, NULL);
	}
}

static void page_code(FILE *stream, const char *text)
{
	bool line_begins = true;

	(void)fputs(".PP\n.EX\n", stream);
	for (const char *p = text; *p; p++) {
		put_character(stream, *p, line_begins);
		line_begins = *p == '\n';
	}
	(void)fputs(".EE\n", stream);
}

const struct manual_format manual_page = {
	.begin = page_begin,
	.heading = page_heading,
	.paragraph = page_paragraph,
	.keys_begin = page_list_begin,
	.key = page_key,
	.terms_begin = page_list_begin,
	.term = page_term,
	.code = page_code,
};
