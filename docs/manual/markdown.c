/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the manual as Markdown, for browsers. Keys are rows of tables, so a "|" in a text must not
 * end a column.
 */
#include <stdbool.h>
#include <string.h>

#include "docs/manual/format.h"

static void put_text(FILE *stream, const char *text)
{
	bool code = false;

	for (const char *p = text; *p; p++) {
		code = code != (*p == '`');
		if (*p == '|' || (!code && strchr("*<>[]", *p)))
			(void)fputc('\\', stream);
		(void)fputc(*p, stream);
	}
}

static void markdown_begin(FILE *stream, const struct manual_title *title)
{
	(void)fprintf(stream,
		"<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
		"<!-- Made from the option tables: cmake --build BUILD --target manual -->\n"
		"# %s\n",
		title->name);
}

static void markdown_heading(FILE *stream, unsigned level, const char *text)
{
	(void)fprintf(stream, "\n%.*s ", (int)level + 1, "####");
	put_text(stream, text);
	(void)fputc('\n', stream);
}

static void markdown_paragraph(FILE *stream, const char *text)
{
	(void)fputc('\n', stream);
	put_text(stream, text);
	(void)fputc('\n', stream);
}

static void markdown_keys_begin(FILE *stream)
{
	(void)fputs("\n| key | value | default | |\n|---|---|---|---|\n", stream);
}

static void markdown_key(FILE *stream, const struct manual_key *key)
{
	(void)fprintf(stream, "| `%s` | ", key->key);
	put_text(stream, key->value);
	(void)fputs(" | ", stream);
	put_text(stream, key->required ? "required" : key->initial ?: "");
	(void)fputs(" | ", stream);
	put_text(stream, key->help);
	(void)fputs(" |\n", stream);
}

static void markdown_terms_begin(FILE *stream)
{
	(void)fputs("\n| | |\n|---|---|\n", stream);
}

static void markdown_term(FILE *stream, const char *term, const char *text)
{
	(void)fprintf(stream, "| `%s` | ", term);
	put_text(stream, text);
	(void)fputs(" |\n", stream);
}

static void markdown_code(FILE *stream, const char *text)
{
	(void)fprintf(stream, "\n```\n%s```\n", text);
}

const struct manual_format manual_markdown = {
	.begin = markdown_begin,
	.heading = markdown_heading,
	.paragraph = markdown_paragraph,
	.keys_begin = markdown_keys_begin,
	.key = markdown_key,
	.terms_begin = markdown_terms_begin,
	.term = markdown_term,
	.code = markdown_code,
};
