/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP/2 without a library, for peers that violate the protocol.
 */

#include "common/util.h"

/* Bytes to be sent. */
struct bytes {
	uint8_t *data;
	size_t size, room;
};
void bytes_done(struct bytes *bytes);
#define _cleanup_bytes_ _cleanup_(bytes_done)

enum frame_type {
	FRAME_DATA = 0,
	FRAME_HEADERS = 1,
	FRAME_RST_STREAM = 3,
	FRAME_SETTINGS = 4,
	FRAME_PING = 6,
	FRAME_CONTINUATION = 9,
};
#define FLAG_END_STREAM  0x1
#define FLAG_END_HEADERS 0x4

void bytes_add(struct bytes *bytes, const void *data, size_t size);

/* A frame's head; `length` may differ from the length of the frame. */
void bytes_add_head(
	struct bytes *bytes, size_t length, enum frame_type type, uint8_t flags, uint32_t stream);
void bytes_add_frame(struct bytes *bytes, enum frame_type type, uint8_t flags, uint32_t stream,
	const void *data, size_t size);

/* The first bytes of a client, with the size of the windows for each stream. */
void bytes_add_preface(struct bytes *bytes, uint32_t window);

/* The headers of a call; `encoding` is the encoding of its messages, NULL: none. */
void bytes_add_call(struct bytes *bytes, uint32_t stream, const char *method, const char *encoding);

/* A message in a DATA frame that ends the stream; `length` is the length in its prefix. */
void bytes_add_message(struct bytes *bytes, uint32_t stream, uint8_t compressed, uint32_t length,
	const void *data, size_t size);

/* Sends as much as the peer takes within `limit` microseconds, and never reads. Returns how many
 * bytes were sent. */
size_t raw_send(int fd, const struct bytes *bytes, uint64_t limit);

/* Reads as long as data arrives, at most for `limit` microseconds. The caller frees the result. */
void raw_receive(int fd, struct bytes *ret, uint64_t limit);

/* Whether a frame of the type with at least `size` bytes has arrived on the stream. */
bool raw_has_frame(
	const struct bytes *received, enum frame_type type, uint32_t stream, size_t size);
