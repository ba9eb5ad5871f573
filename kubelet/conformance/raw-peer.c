/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements only what the attacks need: literal header fields, no Huffman codes, no state.
 */
#include "kubelet/conformance/raw-peer.h"

#include <poll.h>
#include <sys/socket.h>

#define RECEIVE_MAX (1U << 20)

void bytes_done(struct bytes *bytes)
{
	free(bytes->data);
	*bytes = (struct bytes){};
}

void bytes_add(struct bytes *bytes, const void *data, size_t size)
{
	if (bytes->room - bytes->size < size) {
		bytes->room = MAX_OF(bytes->room * 2, bytes->size + size + 4096);
		bytes->data = realloc(bytes->data, bytes->room);
		/* Without memory for its input, a test cannot continue. */
		if (!bytes->data)
			abort();
	}
	memcpy(bytes->data + bytes->size, data, size);
	bytes->size += size;
}

void bytes_add_head(
	struct bytes *bytes, size_t length, enum frame_type type, uint8_t flags, uint32_t stream)
{
	const uint8_t head[9] = {
		(uint8_t)(length >> 16),
		(uint8_t)(length >> 8),
		(uint8_t)length,
		(uint8_t)type,
		flags,
		(uint8_t)(stream >> 24),
		(uint8_t)(stream >> 16),
		(uint8_t)(stream >> 8),
		(uint8_t)stream,
	};

	bytes_add(bytes, head, sizeof(head));
}

void bytes_add_frame(struct bytes *bytes, enum frame_type type, uint8_t flags, uint32_t stream,
	const void *data, size_t size)
{
	bytes_add_head(bytes, size, type, flags, stream);
	if (size > 0)
		bytes_add(bytes, data, size);
}

void bytes_add_preface(struct bytes *bytes, uint32_t window)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	const uint8_t settings[6] = {
		0,
		4, /* SETTINGS_INITIAL_WINDOW_SIZE */
		(uint8_t)(window >> 24),
		(uint8_t)(window >> 16),
		(uint8_t)(window >> 8),
		(uint8_t)window,
	};

	bytes_add(bytes, preface, sizeof(preface) - 1);
	bytes_add_frame(bytes, FRAME_SETTINGS, 0, 0, settings, sizeof(settings));
}

/* A literal field that is not put into the table. */
static void add_field(struct bytes *bytes, const char *name, const char *value)
{
	const uint8_t literal = 0, name_size = (uint8_t)strlen(name),
		      value_size = (uint8_t)strlen(value);

	assert(name_size < 127 && value_size < 127);

	bytes_add(bytes, &literal, 1);
	bytes_add(bytes, &name_size, 1);
	bytes_add(bytes, name, name_size);
	bytes_add(bytes, &value_size, 1);
	bytes_add(bytes, value, value_size);
}

void bytes_add_call(struct bytes *bytes, uint32_t stream, const char *method, const char *encoding)
{
	_cleanup_bytes_ struct bytes fields = {};

	add_field(&fields, ":method", "POST");
	add_field(&fields, ":scheme", "http");
	add_field(&fields, ":path", method);
	add_field(&fields, ":authority", "localhost");
	add_field(&fields, "content-type", "application/grpc");
	add_field(&fields, "te", "trailers");
	if (encoding)
		add_field(&fields, "grpc-encoding", encoding);
	bytes_add_frame(bytes, FRAME_HEADERS, FLAG_END_HEADERS, stream, fields.data, fields.size);
}

void bytes_add_message(struct bytes *bytes, uint32_t stream, uint8_t compressed, uint32_t length,
	const void *data, size_t size)
{
	const uint8_t prefix[5] = {
		compressed,
		(uint8_t)(length >> 24),
		(uint8_t)(length >> 16),
		(uint8_t)(length >> 8),
		(uint8_t)length,
	};
	bool complete = length == size;

	bytes_add_head(
		bytes, sizeof(prefix) + size, FRAME_DATA, complete ? FLAG_END_STREAM : 0, stream);
	bytes_add(bytes, prefix, sizeof(prefix));
	if (size > 0)
		bytes_add(bytes, data, size);
}

size_t raw_send(int fd, const struct bytes *bytes, uint64_t limit)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + limit;
	size_t done = 0;

	while (done < bytes->size) {
		ssize_t n = send(
			fd, bytes->data + done, bytes->size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
		struct pollfd ready = { .fd = fd, .events = POLLOUT };

		if (n >= 0) {
			done += (size_t)n;
			continue;
		}
		/* A plugin is allowed to stop reading or to hang up. */
		if (errno != EAGAIN || now_usec(CLOCK_MONOTONIC) >= end)
			break;
		(void)poll(&ready, 1, 50);
	}
	return done;
}

void raw_receive(int fd, struct bytes *ret, uint64_t limit)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + limit;
	uint8_t buffer[16384];

	while (now_usec(CLOCK_MONOTONIC) < end && ret->size < RECEIVE_MAX) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (poll(&ready, 1, 100) <= 0)
			continue;
		n = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
		if (n <= 0)
			break;
		bytes_add(ret, buffer, (size_t)n);
	}
}

bool raw_has_frame(const struct bytes *received, enum frame_type type, uint32_t stream, size_t size)
{
	size_t at = 0;

	while (received->size - at >= 9) {
		const uint8_t *head = received->data + at;
		size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
		uint32_t on = (uint32_t)(head[5] & 0x7f) << 24 | (uint32_t)head[6] << 16 |
			(uint32_t)head[7] << 8 | head[8];

		if (head[3] == (uint8_t)type && on == stream && length >= size)
			return true;
		if (received->size - at - 9 < length)
			break;
		at += 9 + length;
	}
	return false;
}
