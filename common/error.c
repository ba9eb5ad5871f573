/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composes the sentences of struct error. A message may contain names that came from a bus or a
 * file, so bytes that would break a terminal or a log line are replaced here, where every message
 * passes.
 */
#include "common/error.h"

/* How many bytes at the end are the beginning of a UTF-8 character that a cut has split. */
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

static void make_presentable(char *text, size_t size)
{
	size_t length = strnlen(text, size - 1);

	if (length == size - 1)
		length -= split_character(text, length);
	text[length] = '\0';

	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
}

int error_set(struct error *error, int code, const char *format, ...)
{
	va_list ap;

	assert(code < 0);

	if (!error)
		return code;
	error->code = code;
	va_start(ap, format);
	(void)vsnprintf(error->message, sizeof(error->message), format, ap);
	va_end(ap);
	make_presentable(error->message, sizeof(error->message));
	return code;
}

void error_prefix(struct error *error, const char *format, ...)
{
	_cleanup_free_ char *head = NULL, *whole = NULL;
	va_list ap;
	int n;

	if (!error)
		return;
	va_start(ap, format);
	n = vasprintf(&head, format, ap);
	va_end(ap);
	if (n < 0) {
		head = NULL;
		return;
	}
	if (asprintf(&whole, "%s: %s", head, error->message) < 0) {
		whole = NULL;
		return;
	}
	(void)snprintf(error->message, sizeof(error->message), "%s", whole);
	make_presentable(error->message, sizeof(error->message));
}
