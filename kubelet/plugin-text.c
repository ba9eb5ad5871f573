/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repairs and quotes text, because plugins may send any bytes.
 */
#include "kubelet/plugin-text.h"

#include "common/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd"

json_t *text_json(const char *text)
{
	_cleanup_free_ char *repaired = NULL;
	size_t size = strlen(text);
	char *out;

	if (utf8_is_valid(text))
		return json_string_nocheck(text);
	repaired = malloc(size * (sizeof(REPLACEMENT) - 1) + 1);
	if (!repaired)
		return NULL;
	out = repaired;
	for (;;) {
		size_t valid = utf8_valid_length(text, size);

		out = mempcpy(out, text, valid);
		if (valid == size)
			break;
		out = stpcpy(out, REPLACEMENT);
		text += valid + 1;
		size -= valid + 1;
	}
	*out = '\0';
	return json_string_nocheck(repaired);
}

char *text_quote(char *buffer, size_t size, const char *text)
{
	static const char special[] = "\"\\\a\b\f\n\r\t\v", letters[] = "\"\\abfnrtv";
	size_t used = 0, left = strlen(text);

	assert(size > 2 * sizeof("\\u0000"));

	buffer[used++] = '"';
	for (; left > 0 && used < size - sizeof("\\u0000\""); text++, left--) {
		unsigned char c = (unsigned char)*text;
		const char *found = strchr(special, c);

		if (found) {
			buffer[used++] = '\\';
			buffer[used++] = letters[found - special];
		} else if (c == 0xc2 && (unsigned char)text[1] < 0xa0 && left > 1) {
			used += (size_t)snprintf(
				buffer + used, size - used, "\\u%04x", (unsigned char)text[1]);
			text++;
			left--;
		} else if (c < 0x20 || c == 0x7f ||
			(c >= 0xc0 && utf8_valid_length(text, MIN_OF(left, (size_t)4)) == 0)) {
			used += (size_t)snprintf(buffer + used, size - used, "\\x%02x", c);
		} else {
			buffer[used++] = (char)c;
		}
	}
	buffer[used++] = '"';
	buffer[used] = '\0';
	return buffer;
}
