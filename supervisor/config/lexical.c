/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at a configuration's text before libconfig reads it, one token at a time: what a bracket
 * or quote was opened for is told with the line of its beginning, where the mistake is, and numbers
 * that libconfig 1.5 would cut to 32 or 64 bits are refused. Grammar is left to libconfig.
 */
#include <ctype.h>
#include <limits.h>

#include "common/utf8.h"
#include "config/source.h"

/* Deeper than any table goes; libconfig's own limit gives no line. */
#define DEPTH_MAX 32

struct lexer {
	const char *file;
	const char *cursor;
	unsigned line;
	struct report *report;
	lexical_include_handler on_include;
	void *userdata;
	struct {
		char bracket;
		unsigned line;
	} open[DEPTH_MAX];
	size_t depth;
};

#define lexer_complain(lexer, at_line, ...)                                                       \
	report_add((lexer)->report, &(struct origin){ .file = (lexer)->file, .line = (at_line) }, \
		NULL, __VA_ARGS__)

static void advance(struct lexer *lexer, size_t n)
{
	for (; n > 0 && *lexer->cursor; n--)
		if (*lexer->cursor++ == '\n')
			lexer->line++;
}

static int skip_string(struct lexer *lexer)
{
	unsigned start = lexer->line;

	advance(lexer, 1);
	while (*lexer->cursor != '"') {
		if (*lexer->cursor == '\0')
			return lexer_complain(
				lexer, start, "the quote opened in this line is never closed");
		if (startswith(lexer->cursor, "\\x00"))
			return lexer_complain(lexer, lexer->line,
				"a string must not hold the byte 0 (\"\\x00\")");
		advance(lexer, *lexer->cursor == '\\' ? 2 : 1);
	}
	advance(lexer, 1);
	return 0;
}

static int skip_comment(struct lexer *lexer)
{
	const char *end;

	if (!startswith(lexer->cursor, "/*")) {
		advance(lexer, strcspn(lexer->cursor, "\n"));
		return 0;
	}
	end = strstr(lexer->cursor + 2, "*/");
	if (!end)
		return lexer_complain(
			lexer, lexer->line, "the comment opened in this line is never closed");
	advance(lexer, (size_t)(end - lexer->cursor) + 2);
	return 0;
}

static int check_number(struct lexer *lexer, const char *number, size_t length)
{
	bool is_long = strspn(number, "+-0123456789abcdefABCDEFxX") < length;
	char *end;
	long long value;

	errno = 0;
	value = strtoll(
		number, &end, startswith(number, "0x") || startswith(number, "0X") ? 16 : 10);
	if (errno == ERANGE || (!is_long && (value > INT_MAX || value < INT_MIN)))
		return lexer_complain(lexer, lexer->line,
			is_long || errno == ERANGE
				? "the number %.*s is too large"
				: "the number %.*s is too large without an \"L\" "
				  "behind it",
			(int)length, number);
	return 0;
}

/* Names and numbers: names are passed over, so that digits in them are not taken for numbers. */
static int skip_word(struct lexer *lexer)
{
	const char *word = lexer->cursor;
	const char *digits = word + strspn(word, "+-");
	size_t length = (size_t)(digits - word);
	bool is_integer = isdigit((unsigned char)*digits);
	int r = 0;

	for (; isalnum((unsigned char)word[length]) || strchr("_*-+.", word[length]); length++) {
		bool hexadecimal = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');

		if (word[length] == '\0')
			break;
		if (word[length] == '.' || (!hexadecimal && strchr("eE", word[length])))
			is_integer = false;
	}
	if (is_integer)
		r = check_number(lexer, word, length);
	advance(lexer, MAX_OF(length, (size_t)1));
	return r;
}

static int open_bracket(struct lexer *lexer)
{
	if (lexer->depth == DEPTH_MAX)
		return lexer_complain(
			lexer, lexer->line, "brackets are nested more than %d deep", DEPTH_MAX);
	lexer->open[lexer->depth].bracket = *lexer->cursor;
	lexer->open[lexer->depth++].line = lexer->line;
	advance(lexer, 1);
	return 0;
}

static int close_bracket(struct lexer *lexer)
{
	static const char pairs[] = "(){}[]";
	char found = *lexer->cursor;
	char open = lexer->depth > 0 ? lexer->open[lexer->depth - 1].bracket : '\0';

	if (!open)
		return lexer_complain(
			lexer, lexer->line, "\"%c\" closes a bracket that is not open", found);
	if (strchr(pairs, open)[1] != found)
		return lexer_complain(lexer, lexer->line,
			"\"%c\" cannot close the \"%c\" of line %u: a \"%c\" is missing", found,
			open, lexer->open[lexer->depth - 1].line, strchr(pairs, open)[1]);
	lexer->depth--;
	advance(lexer, 1);
	return 0;
}

/* libconfig takes "@include" for the directive at the beginning of a line, and for an error
 * elsewhere. */
static int pass_include(struct lexer *lexer)
{
	const char *quote = lexer->cursor + strlen("@include");
	_cleanup_free_ char *path = NULL;
	unsigned line = lexer->line;
	int r;

	quote += strspn(quote, " \t");
	if (*quote != '"') {
		advance(lexer, 1);
		return 0;
	}
	if (!lexer->on_include)
		return lexer_complain(lexer, line, "@include: nothing can be included here");
	path = strndup(quote + 1, strcspn(quote + 1, "\"\n"));
	if (!path)
		return -ENOMEM;
	advance(lexer, (size_t)(quote - lexer->cursor));
	r = skip_string(lexer);
	if (r < 0)
		return r;
	if (strchr(path, '\\'))
		return lexer_complain(
			lexer, line, "@include: the file's name must not hold a backslash");
	return lexer->on_include(lexer->file, line, path, lexer->userdata);
}

/* Passes over one token or one character between tokens. */
static int skip_token(struct lexer *lexer)
{
	char c = *lexer->cursor;

	if (c == '"')
		return skip_string(lexer);
	if (startswith(lexer->cursor, "@include"))
		return pass_include(lexer);
	if (c == '#' || startswith(lexer->cursor, "//") || startswith(lexer->cursor, "/*"))
		return skip_comment(lexer);
	if (strchr("({[", c))
		return open_bracket(lexer);
	if (strchr(")}]", c))
		return close_bracket(lexer);
	if (isalnum((unsigned char)c) || strchr("+-*_", c))
		return skip_word(lexer);
	advance(lexer, 1);
	return 0;
}

static unsigned line_at(const char *text, size_t offset)
{
	unsigned line = 1;

	for (size_t i = 0; i < offset; i++)
		line += text[i] == '\n';
	return line;
}

int lexical_check(const char *file, const char *text, size_t size, struct report *report,
	lexical_include_handler on_include, void *userdata)
{
	struct lexer lexer = {
		.file = file,
		.cursor = text,
		.line = 1,
		.report = report,
		.on_include = on_include,
		.userdata = userdata,
	};
	size_t valid = utf8_valid_length(text, size);
	const char *nul = memchr(text, '\0', size);
	int r;

	if (nul)
		return lexer_complain(
			&lexer, line_at(text, (size_t)(nul - text)), "holds a byte 0: not a text");
	if (valid < size)
		return lexer_complain(&lexer, line_at(text, valid),
			"holds the byte 0x%02x, which is not UTF-8",
			(unsigned)(unsigned char)text[valid]);
	while (*lexer.cursor) {
		r = skip_token(&lexer);
		if (r < 0)
			return r;
	}
	if (lexer.depth > 0)
		return lexer_complain(&lexer, lexer.open[lexer.depth - 1].line,
			"the \"%c\" opened in this line is never closed",
			lexer.open[lexer.depth - 1].bracket);
	return 0;
}
