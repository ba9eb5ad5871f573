/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composing the sentences of struct error. A message is data for people: it may hold names that
 * came from a bus or a file, so bytes that would break a terminal or a log line are replaced here,
 * at the one place every message passes.
 */
#include "common/error.h"

static void make_presentable(char *text, size_t size)
{
	size_t length = strnlen(text, size - 1);

	/* A cut may have split a multi-byte character: drop its incomplete tail. */
	if (length == size - 1)
		while (length > 0 && ((unsigned char)text[length - 1] & 0x80) != 0)
			length--;
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
