/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the text format of Prometheus; families.c decides what is in it. Numbers are written digit
 * by digit: printf() would use the locale, and is slow for 50,000 samples.
 */
#include "exporter/exposition.h"

#include "common/utf8.h"

#define NUMBER_MAX 32

static char *room(struct exposition *exposition, size_t more)
{
	if (exposition->capacity - exposition->size < more) {
		size_t capacity = MAX_OF(exposition->capacity * 2, exposition->size + more);
		char *grown = exposition->failed ? NULL : realloc(exposition->text, capacity);

		if (!grown) {
			exposition->failed = true;
			return NULL;
		}
		exposition->text = grown;
		exposition->capacity = capacity;
	}
	return exposition->text + exposition->size;
}

static void put_bytes(struct exposition *exposition, const char *bytes, size_t size)
{
	char *to = room(exposition, size);

	if (!to)
		return;
	memcpy(to, bytes, size);
	exposition->size += size;
}

static void put(struct exposition *exposition, const char *text)
{
	put_bytes(exposition, text, strlen(text));
}

static size_t escape(char c, bool quoted, char to[static 2])
{
	to[0] = '\\';
	to[1] = c;
	if (c == '\n')
		to[1] = 'n';
	else if (c != '\\' && !(quoted && c == '"')) {
		to[0] = c;
		return 1;
	}
	return 2;
}

/* Bytes that are not UTF-8 become '?'. */
static void put_escaped(struct exposition *exposition, const char *text, bool quoted)
{
	size_t length = strlen(text), valid = utf8_valid_length(text, length);
	char *to = room(exposition, 2 * length);

	if (!to)
		return;
	for (size_t i = 0; i < length; i++) {
		if (i >= valid) {
			valid = i + 1 + utf8_valid_length(text + i + 1, length - i - 1);
			*to++ = '?';
			exposition->size++;
		} else {
			size_t n = escape(text[i], quoted, to);

			to += n;
			exposition->size += n;
		}
	}
}

static void put_number(struct exposition *exposition, uint64_t number)
{
	char digits[NUMBER_MAX], *p = digits + sizeof(digits);

	do
		*--p = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	put_bytes(exposition, p, (size_t)(digits + sizeof(digits) - p));
}

static void put_head(struct exposition *exposition)
{
	put(exposition, "# HELP ");
	put(exposition, exposition->name);
	put(exposition, " ");
	put_escaped(exposition, exposition->help, false);
	put(exposition, "\n# TYPE ");
	put(exposition, exposition->name);
	put(exposition, " ");
	put(exposition, exposition->type);
	put(exposition, "\n");
}

void exposition_begin(
	struct exposition *exposition, const char *name, const char *type, const char *help)
{
	exposition->name = name;
	exposition->type = type;
	exposition->help = help;
	exposition->shown = false;
}

static void put_labels(struct exposition *exposition, const struct label *labels, size_t n_labels)
{
	bool first = true;

	for (size_t i = 0; i < n_labels; i++) {
		if (!labels[i].value || !*labels[i].value)
			continue;
		put(exposition, first ? "{" : ",");
		first = false;
		put(exposition, labels[i].name);
		put(exposition, "=\"");
		put_escaped(exposition, labels[i].value, true);
		put(exposition, "\"");
	}
	put(exposition, first ? " " : "} ");
}

static void begin_sample(struct exposition *exposition, const char *suffix,
	const struct label *labels, size_t n_labels)
{
	if (!exposition->shown)
		put_head(exposition);
	exposition->shown = true;
	put(exposition, exposition->name);
	put(exposition, suffix);
	put_labels(exposition, labels, n_labels);
}

void exposition_add(struct exposition *exposition, const char *suffix, const struct label *labels,
	size_t n_labels, uint64_t value)
{
	begin_sample(exposition, suffix, labels, n_labels);
	put_number(exposition, value);
	put(exposition, "\n");
}

void exposition_add_seconds(struct exposition *exposition, const char *suffix,
	const struct label *labels, size_t n_labels, uint64_t usec)
{
	char fraction[8] = ".";
	uint64_t rest = usec % USEC_PER_SEC;

	begin_sample(exposition, suffix, labels, n_labels);
	put_number(exposition, usec / USEC_PER_SEC);
	if (rest > 0) {
		for (int i = 6; i > 0; i--, rest /= 10)
			fraction[i] = (char)('0' + rest % 10);
		for (int i = 6; fraction[i] == '0'; i--)
			fraction[i] = '\0';
		put(exposition, fraction);
	}
	put(exposition, "\n");
}

void exposition_done(struct exposition *exposition)
{
	free(exposition->text);
	*exposition = (struct exposition){ 0 };
}
