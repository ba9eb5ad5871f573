/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composes the sentences of struct error. A message may contain names that came from a bus or a
 * file, so bytes that would break a terminal or a log line are replaced here, where every message
 * passes.
 */
#include "common/error.h"

#include "common/text.h"

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
	text_sanitize_cut(error->message, sizeof(error->message));
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
	n = vformat_text(&head, format, ap);
	va_end(ap);
	if (n < 0 || format_text(&whole, "%s: %s", head, error->message) < 0)
		return;
	(void)snprintf(error->message, sizeof(error->message), "%s", whole);
	text_sanitize_cut(error->message, sizeof(error->message));
}
