/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a configuration's text before libconfig reads it, one token at a time. An unclosed bracket
 * or quote is reported with the line where it was opened, and numbers that libconfig 1.5 would cut
 * to 32 or 64 bits are refused. Grammar is left to libconfig, except for common mistakes that it
 * only calls a syntax error: the first is reported if all brackets and quotes are closed, because
 * otherwise it may be a consequence.
 */
#include <ctype.h>
#include <limits.h>

#include "common/utf8.h"
#include "configuration/source.h"

/* More levels than any table needs. libconfig has a limit too, but does not report the line. */
#define DEPTH_MAX 32
/* How many names of the groups open at one place are compared; libconfig compares the rest. */
#define NAMES_MAX 256

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
		size_t names; /* index of this group's first name */
	} open[DEPTH_MAX];
	size_t depth;
	unsigned comma_line; /* line of a comma followed only by space and comments; 0: none */
	struct name {
		const char *text;
		size_t length;
		unsigned line;
	} names[NAMES_MAX]; /* of the groups that are open */
	size_t n_names;
	char mistake[128];     /* the first mistake in grammar that has a hint */
	unsigned mistake_line; /* 0: none */
};

static const char pairs[] = "(){}[]";

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
				"a string must not contain the byte 0 (\"\\x00\")");
		advance(lexer, *lexer->cursor == '\\' ? 2 : 1);
	}
	advance(lexer, 1);
	return 0;
}

static int skip_comment(struct lexer *lexer)
{
	const char *end;

	if (!startswith(lexer->cursor, "/*")) {
		size_t length = strcspn(lexer->cursor, "\n");
		const char *carriage_return = memchr(lexer->cursor, '\r', length);

		/* What follows would be a part of the comment, and so have no effect. */
		if (carriage_return && carriage_return < lexer->cursor + length - 1)
			return lexer_complain(lexer, lexer->line,
				"a carriage return alone does not end a line: save the file with "
				"Unix line ends");
		advance(lexer, length);
		return 0;
	}
	end = strstr(lexer->cursor + 2, "*/");
	if (!end)
		return lexer_complain(
			lexer, lexer->line, "the comment opened in this line is never closed");
	advance(lexer, (size_t)(end - lexer->cursor) + 2);
	return 0;
}

/* Whether the key that the number belongs to takes more than 32 bits: then an "L" helps. */
static bool is_wide(const struct lexer *lexer)
{
	static const char *const keys[] = { "uid", "gid" }; /* of cdi_spec */
	const struct name *name = lexer->n_names > 0 ? &lexer->names[lexer->n_names - 1] : NULL;

	for (size_t i = 0; name && i < ARRAY_SIZE(keys); i++)
		if (strlen(keys[i]) == name->length &&
			strncmp(keys[i], name->text, name->length) == 0)
			return true;
	return false;
}

static int check_number(struct lexer *lexer, const char *number, size_t length)
{
	bool is_long = strspn(number, "+-0123456789abcdefABCDEFxX") < length;
	const char *digits = number + strspn(number, "+-");
	char *end;
	long long value;

	/* libconfig 1.5 and 1.8 read it as a decimal number, 1.7 as an octal one. */
	if (digits[0] == '0' && isdigit((unsigned char)digits[1]) && number[length] != ':')
		return lexer_complain(lexer, lexer->line,
			"the number %.*s begins with 0: remove the 0, or write 0x%.*s for a "
			"hexadecimal number",
			(int)length, number, (int)(number + length - digits), digits);
	errno = 0;
	value = strtoll(
		number, &end, startswith(number, "0x") || startswith(number, "0X") ? 16 : 10);
	if (errno == ERANGE || (!is_long && (value > INT_MAX || value < INT_MIN)))
		return lexer_complain(lexer, lexer->line,
			is_long || errno == ERANGE || !is_wide(lexer)
				? "the number %.*s is too large"
				: "the number %.*s is too large without the suffix \"L\"",
			(int)length, number);
	return 0;
}

static size_t scope_begin(const struct lexer *lexer)
{
	return lexer->depth > 0 ? lexer->open[lexer->depth - 1].names : 0;
}

/* Keeps a name that precedes a value, because libconfig does not report which name it found
 * twice. */
static int add_name(struct lexer *lexer, const char *text, size_t length)
{
	for (size_t i = scope_begin(lexer); i < lexer->n_names; i++)
		if (lexer->names[i].length == length &&
			strncmp(lexer->names[i].text, text, length) == 0)
			return lexer_complain(lexer, lexer->line,
				"the key \"%.*s\" occurs twice, first in line %u: remove one",
				(int)MIN_OF(length, (size_t)100), text, lexer->names[i].line);
	if (lexer->n_names < NAMES_MAX)
		lexer->names[lexer->n_names++] =
			(struct name){ .text = text, .length = length, .line = lexer->line };
	return 0;
}

/* "resources:" with the next name in a line below it. */
static bool is_yaml_key(const char *colon)
{
	const char *next = colon + 1 + strspn(colon + 1, " \t\r");

	return *next == '\n' && isalpha((unsigned char)next[strspn(next, " \t\r\n")]);
}

static int pass_name(struct lexer *lexer, const char *word, size_t length)
{
	const char *next = word + length + strspn(word + length, " \t");

	if (*next != '=' && *next != ':')
		return 0;
	if (*next == ':' && is_yaml_key(next))
		return lexer_complain(lexer, lexer->line,
			"this is YAML; write \"%.*s = { ... };\" or \"%.*s = ( ... );\", as in "
			"devplugd.conf(5)",
			(int)MIN_OF(length, (size_t)100), word, (int)MIN_OF(length, (size_t)100),
			word);
	return add_name(lexer, word, length);
}

/* Reads names and numbers. Names are skipped, so that digits in them do not count as numbers. */
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
	else
		r = pass_name(lexer, word, length);
	advance(lexer, MAX_OF(length, (size_t)1));
	return r;
}

static int open_bracket(struct lexer *lexer)
{
	if (lexer->depth == DEPTH_MAX)
		return lexer_complain(lexer, lexer->line,
			"brackets are nested more than %d levels deep", DEPTH_MAX);
	lexer->open[lexer->depth].bracket = *lexer->cursor;
	lexer->open[lexer->depth].names = lexer->n_names;
	lexer->open[lexer->depth++].line = lexer->line;
	advance(lexer, 1);
	return 0;
}

static int close_bracket(struct lexer *lexer)
{
	char found = *lexer->cursor;
	char open = lexer->depth > 0 ? lexer->open[lexer->depth - 1].bracket : '\0';

	if (!open)
		return lexer_complain(
			lexer, lexer->line, "\"%c\" closes a bracket that is not open", found);
	if (strchr(pairs, open)[1] != found)
		return lexer_complain(lexer, lexer->line,
			"\"%c\" cannot close the \"%c\" of line %u: a \"%c\" is missing", found,
			open, lexer->open[lexer->depth - 1].line, strchr(pairs, open)[1]);
	/* In a group, a comma ends a setting, as ";" does. */
	if (lexer->comma_line > 0 && found != '}')
		return lexer_complain(lexer, lexer->comma_line,
			"nothing follows the last \",\" before \"%c\": remove the comma", found);
	lexer->n_names = scope_begin(lexer);
	lexer->depth--;
	advance(lexer, 1);
	return 0;
}

/* Whether only white space precedes it in its line. */
static bool is_first_in_line(const char *text, const char *place)
{
	while (place > text && strchr(" \t", place[-1]))
		place--;
	return place == text || place[-1] == '\n';
}

/* As in libconfig, this is a directive at the beginning of a line and an error elsewhere. */
static int pass_include(struct lexer *lexer, const char *text)
{
	struct lexical_include include = { .begin = lexer->cursor, .line = lexer->line };
	const char *quote = lexer->cursor + strlen("@include");
	_cleanup_free_ char *path = NULL;
	int r;

	quote += strspn(quote, " \t");
	if (*quote != '"') {
		advance(lexer, 1);
		return 0;
	}
	if (!lexer->on_include)
		return lexer_complain(
			lexer, include.line, "@include: no file can be included here");
	if (!is_first_in_line(text, include.begin))
		return lexer_complain(
			lexer, include.line, "@include must be at the beginning of a line");
	advance(lexer, (size_t)(quote - lexer->cursor));
	r = skip_string(lexer);
	if (r < 0)
		return r;
	include.end = lexer->cursor;
	include.path = path = strndup(quote + 1, (size_t)(include.end - quote) - 2);
	if (!path)
		return -ENOMEM;
	if (strpbrk(path, "\\\n"))
		return lexer_complain(lexer, include.line,
			"@include: the file's name must not contain a backslash or a line end");
	return lexer->on_include(&include, lexer->userdata);
}

/* Recognises other syntaxes, and quotes that an editor has replaced. */
static int check_foreign(struct lexer *lexer, const char *text)
{
	static const char *const quotes[] = { "\u2018", "\u2019", "\u201c", "\u201d", "\u201e",
		"\u00ab", "\u00bb", "'", "`" };
	const char *at = lexer->cursor;
	bool begins_line = at == text || at[-1] == '\n' || at[-1] == ' ' || at[-1] == '\t';

	for (size_t i = 0; i < ARRAY_SIZE(quotes); i++)
		if (startswith(at, quotes[i]))
			return lexer_complain(lexer, lexer->line,
				"%s is not a quote here: strings are between \" and \"", quotes[i]);
	if (*at == '{' && at[1 + strspn(at + 1, " \t\r\n")] == '"')
		return lexer_complain(lexer, lexer->line,
			"this is JSON; write \"resources = ( { name = ...; } );\", as in "
			"devplugd.conf(5)");
	if (begins_line && *at == '-' &&
		(startswith(at, "---") || (at[1] == ' ' && isalpha((unsigned char)at[2]))))
		return lexer_complain(lexer, lexer->line,
			"this is YAML; write \"resources = ( { name = ...; } );\", as in "
			"devplugd.conf(5)");
	return 0;
}

#define lexer_note(lexer, ...)                                                           \
	do {                                                                             \
		if ((lexer)->mistake_line > 0)                                           \
			break;                                                           \
		(lexer)->mistake_line = (lexer)->line;                                   \
		(void)snprintf((lexer)->mistake, sizeof((lexer)->mistake), __VA_ARGS__); \
	} while (0)

/* Recognises separators and groups where libconfig does not allow them. */
static void note_misplaced(struct lexer *lexer)
{
	static const struct {
		const char *brackets;
		char found;
		const char *hint;
	} misplaced[] = {
		{ "([", ';', "write \",\" between elements, and nothing after the last one" },
		{ "([", '=', "settings belong in { }, and strings in quotes" },
		{ "[", '{', "groups need ( ), as in ( { ... }, { ... } )" },
	};
	char open = lexer->depth > 0 ? lexer->open[lexer->depth - 1].bracket : '{';

	for (size_t i = 0; i < ARRAY_SIZE(misplaced); i++)
		if (*lexer->cursor == misplaced[i].found && strchr(misplaced[i].brackets, open))
			lexer_note(lexer, "\"%c\" cannot stand in %c %c: %s", misplaced[i].found,
				open, strchr(pairs, open)[1], misplaced[i].hint);
}

/* Recognises words such as "yes" at the beginning of a value. */
static void note_boolean(struct lexer *lexer)
{
	static const struct {
		const char *word, *meant;
	} booleans[] = { { "yes", "true" }, { "on", "true" }, { "no", "false" },
		{ "off", "false" } };
	const char *word = lexer->cursor + 1 + strspn(lexer->cursor + 1, " \t");
	size_t length = strcspn(word, " \t\r\n;,}");

	if (!strchr("=:", *lexer->cursor))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(booleans); i++)
		if (strlen(booleans[i].word) == length &&
			strncasecmp(booleans[i].word, word, length) == 0)
			lexer_note(lexer, "%.*s is not a value: write %s, or \"%.*s\" for a string",
				(int)length, word, booleans[i].meant, (int)length, word);
}

/* Skips one token or one character between tokens. */
static int skip_token(struct lexer *lexer, const char *text)
{
	char c = *lexer->cursor;
	int r;

	if (isspace((unsigned char)c)) {
		advance(lexer, 1);
		return 0;
	}
	if (c == '#' || startswith(lexer->cursor, "//") || startswith(lexer->cursor, "/*"))
		return skip_comment(lexer);
	if (strchr(")}]", c))
		return close_bracket(lexer);
	lexer->comma_line = c == ',' ? lexer->line : 0;
	if (c == '"')
		return skip_string(lexer);
	r = check_foreign(lexer, text);
	if (r < 0)
		return r;
	note_misplaced(lexer);
	note_boolean(lexer);
	if (startswith(lexer->cursor, "@include"))
		return pass_include(lexer, text);
	if (strchr("({[", c))
		return open_bracket(lexer);
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
		return lexer_complain(&lexer, line_at(text, (size_t)(nul - text)),
			"contains a byte 0, so it is not text");
	if (valid < size)
		return lexer_complain(&lexer, line_at(text, valid),
			"contains the byte 0x%02x, which is not UTF-8",
			(unsigned)(unsigned char)text[valid]);
	while (*lexer.cursor) {
		r = skip_token(&lexer, text);
		if (r < 0)
			return r;
	}
	if (lexer.depth > 0)
		return lexer_complain(&lexer, lexer.open[lexer.depth - 1].line,
			"the \"%c\" opened in this line is never closed",
			lexer.open[lexer.depth - 1].bracket);
	if (lexer.mistake_line > 0)
		return lexer_complain(&lexer, lexer.mistake_line, "%s", lexer.mistake);
	return 0;
}
