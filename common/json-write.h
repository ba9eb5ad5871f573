/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes JSON directly through a buffer: a tree of jansson's for 10,000 devices costs ten times as
 * much, most of it in malloc() and in a call for each brace. The caller writes the punctuation;
 * only strings are escaped.
 */

#include "common/util.h"

#define JSON_BUFFER_SIZE 16384

struct json_writer {
	int fd; /* owned by the caller */
	int error;
	size_t used;
	char buffer[JSON_BUFFER_SIZE];
};

/* Begins at the descriptor's position. */
void json_writer_init(struct json_writer *writer, int fd);

void json_write_bytes(struct json_writer *writer, const char *bytes, size_t size);

/* Braces, keys, commas: copied as they are. Inline, so that the length of a literal is a constant.
 */
static inline void json_write_text(struct json_writer *writer, const char *text)
{
	size_t size = strlen(text);

	if (size >= sizeof(writer->buffer) - writer->used) {
		json_write_bytes(writer, text, size);
		return;
	}
	memcpy(writer->buffer + writer->used, text, size);
	writer->used += size;
}

/* Writes a string with its quotes (RFC 8259), or null for NULL. Bytes that are not UTF-8 become
 * '?'. */
void json_write_string(struct json_writer *writer, const char *string);

void json_write_number(struct json_writer *writer, uint64_t number);

/* A string of 16 hexadecimal digits. */
void json_write_hex(struct json_writer *writer, uint64_t number);

/* Writes the rest. Returns 0 or the first error, a negative errno. */
int json_writer_finish(struct json_writer *writer);
