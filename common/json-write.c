/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON for long lists, where jansson costs too much. The first error is kept, and later
 * calls do nothing, so callers check only at the end.
 */
#include "common/json-write.h"

#include "common/utf8.h"

void json_writer_init(struct json_writer *writer, int fd)
{
	writer->fd = fd;
	writer->error = 0;
	writer->used = 0;
}

static void flush(struct json_writer *writer)
{
	if (writer->error == 0)
		writer->error = write_all(writer->fd, writer->buffer, writer->used);
	writer->used = 0;
}

void json_write_bytes(struct json_writer *writer, const char *bytes, size_t size)
{
	while (size > 0) {
		size_t part = MIN_OF(size, sizeof(writer->buffer) - writer->used);

		memcpy(writer->buffer + writer->used, bytes, part);
		writer->used += part;
		bytes += part;
		size -= part;
		if (writer->used == sizeof(writer->buffer))
			flush(writer);
	}
}

/* ASCII that is not escaped. */
static const bool plain[256] = {
	[' ' ... '!'] = true,
	['#' ... '['] = true,
	[']' ... 0x7f] = true,
};

/* Valid UTF-8. */
static void write_escaped(struct json_writer *writer, const char *bytes, size_t size)
{
	size_t written = 0;

	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)bytes[i];
		char escaped[8];

		if (plain[c] || c >= 0x80)
			continue;
		json_write_bytes(writer, bytes + written, i - written);
		(void)snprintf(escaped, sizeof(escaped), "\\u%04x", c);
		json_write_text(writer, escaped);
		written = i + 1;
	}
	json_write_bytes(writer, bytes + written, size - written);
}

static void write_any(struct json_writer *writer, const char *string)
{
	size_t valid;

	for (size_t size = strlen(string); size > 0; string += valid, size -= valid) {
		valid = utf8_valid_length(string, size);
		write_escaped(writer, string, valid);
		if (valid < size) {
			json_write_text(writer, "?");
			valid++;
		}
	}
}

void json_write_string(struct json_writer *writer, const char *string)
{
	size_t size = 0;

	if (!string) {
		json_write_text(writer, "null");
		return;
	}
	json_write_text(writer, "\"");
	while (plain[(unsigned char)string[size]])
		size++;
	json_write_bytes(writer, string, size);
	if (string[size])
		write_any(writer, string + size);
	json_write_text(writer, "\"");
}

void json_write_number(struct json_writer *writer, uint64_t number)
{
	char digits[20], *p = digits + sizeof(digits);

	do
		*--p = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	json_write_bytes(writer, p, (size_t)(digits + sizeof(digits) - p));
}

void json_write_hex(struct json_writer *writer, uint64_t number)
{
	char text[18] = { [0] = '"', [17] = '"' };

	for (size_t i = 16; i > 0; i--, number >>= 4)
		text[i] = "0123456789abcdef"[number & 15];
	json_write_bytes(writer, text, sizeof(text));
}

int json_writer_finish(struct json_writer *writer)
{
	flush(writer);
	return writer->error;
}
