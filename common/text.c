/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes untrusted text harmless. The result is valid UTF-8 without C0 and C1 controls, so it can
 * neither split a log record, nor drive a terminal, nor be refused by a JSON encoder. It has no
 * characters that reorder or break a line, or that have no width, so nothing in it is hidden.
 */
#include "common/text.h"

#include <ctype.h>

#include "common/utf8.h"

static const struct {
	uint32_t first, last;
} refused[] = {
	{ 0x00, 0x1f }, { 0x7f, 0x9f }, { 0x61c, 0x61c }, /* reorders */
	{ 0x180e, 0x180e },                               /* no width */
	{ 0x200b, 0x200f },                               /* no width, reorder */
	{ 0x2028, 0x202e },   /* line and paragraph separators, reorder */
	{ 0x2060, 0x206f },   /* no width, reorder */
	{ 0xfeff, 0xfeff },   /* no width */
	{ 0xfff9, 0xfffb },   /* annotations */
	{ 0xe0000, 0xe007f }, /* no width */
};

static bool is_refused(uint32_t code)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (code >= refused[i].first && code <= refused[i].last)
			return true;
	return false;
}

/* Whether the first character may stay. `ret_length`: its length, 1 if it is not valid. */
static bool is_plain(const char *text, size_t size, size_t *ret_length)
{
	uint32_t code;
	size_t length = utf8_next(text, size, &code);

	*ret_length = MAX_OF(length, (size_t)1);
	return length > 0 && !is_refused(code);
}

bool text_is_plain(const char *text)
{
	size_t length;

	for (size_t size = strlen(text); size > 0; text += length, size -= length)
		if (!is_plain(text, size, &length))
			return false;
	return true;
}

bool text_is_number(const char *text)
{
	return text && *text && !text[strspn(text, "0123456789")];
}

void text_sanitize(char *text)
{
	size_t length;

	for (size_t size = strlen(text); size > 0; text += length, size -= length)
		if (!is_plain(text, size, &length))
			memset(text, '?', length);
}

/* How many bytes at the end belong to a UTF-8 character that was cut off. */
static size_t split_character(const char *text, size_t length)
{
	static const size_t sizes[] = { [0xc] = 2, [0xd] = 2, [0xe] = 3, [0xf] = 4 };
	size_t n = 1;

	while (n < 4 && n < length && ((unsigned char)text[length - n] & 0xc0) == 0x80)
		n++;
	return length > 0 && (unsigned char)text[length - n] >= 0xc0 &&
			sizes[(unsigned char)text[length - n] >> 4] > n
		? n
		: 0;
}

void text_sanitize_cut(char *text, size_t size)
{
	size_t length = strnlen(text, size - 1);

	if (length == size - 1)
		length -= split_character(text, length);
	text[length] = '\0';
	text_sanitize(text);
}

void text_time(uint64_t usec, char ret_text[static TEXT_TIME_MAX])
{
	time_t seconds = (time_t)(usec / USEC_PER_SEC);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) ||
		strftime(ret_text, TEXT_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		ret_text[0] = '\0';
}

char *text_trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	while (isspace((unsigned char)*text))
		text++;
	return text;
}
