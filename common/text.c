/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes untrusted text harmless. The result is valid UTF-8 without C0 and C1 controls, so it can
 * neither split a log record, nor drive a terminal, nor be refused by a JSON encoder.
 */
#include "common/text.h"

#include <ctype.h>

#include "common/utf8.h"

void text_sanitize(char *text)
{
	size_t size = strlen(text), done = 0;

	while (done < size) {
		done += utf8_valid_length(text + done, size - done);
		if (done < size)
			text[done++] = '?';
	}
	for (unsigned char *p = (unsigned char *)text; *p; p++) {
		if (*p < 0x20 || *p == 0x7f)
			*p = '?';
		else if (p[0] == 0xc2 && p[1] < 0xa0)
			p[0] = p[1] = '?';
	}
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
