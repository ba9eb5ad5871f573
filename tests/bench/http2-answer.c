/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 as far as a client of gRPC needs it to be answered (RFC 9113, RFC 7541): frames are read
 * over, settings and pings acknowledged, and each request that is complete is answered by the same
 * bytes, an AllocateResponse for one container without anything in it.
 */
#include "http2-answer.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/util.h"

#define PREFACE_SIZE  24
#define HEADER_SIZE   9
#define STREAM_OFFSET 5
#define PING_SIZE     8
/* The largest frame has 16384 bytes: no other size was negotiated. */
#define BUFFER_SIZE (64 << 10)

enum {
	FRAME_DATA = 0,
	FRAME_HEADERS = 1,
	FRAME_SETTINGS = 4,
	FRAME_PING = 6,
	FRAME_WINDOW_UPDATE = 8,
	FLAG_END_STREAM = 1,
	FLAG_ACK = 1,
	FLAG_END_HEADERS = 4,
};

static const uint8_t empty_settings[] = { 0, 0, 0, FRAME_SETTINGS, 0, 0, 0, 0, 0 };
static const uint8_t settings_ack[] = { 0, 0, 0, FRAME_SETTINGS, FLAG_ACK, 0, 0, 0, 0 };
/* The window of the connection, which is never used up. */
static const uint8_t window[] = { 0, 0, 4, FRAME_WINDOW_UPDATE, 0, 0, 0, 0, 0, 0x7f, 0xff, 0, 0 };

/* ":status: 200", "content-type: application/grpc" */
static const uint8_t headers[] = { 0, 0, 20, FRAME_HEADERS, FLAG_END_HEADERS, 0, 0, 0, 0, 0x88,
	0x0f, 0x10, 16, 'a', 'p', 'p', 'l', 'i', 'c', 'a', 't', 'i', 'o', 'n', '/', 'g', 'r', 'p',
	'c' };
static const uint8_t message[] = { 0, 0, 7, FRAME_DATA, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x0a, 0 };
/* "grpc-status: 0" */
static const uint8_t trailers[] = { 0, 0, 15, FRAME_HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS, 0,
	0, 0, 0, 0, 11, 'g', 'r', 'p', 'c', '-', 's', 't', 'a', 't', 'u', 's', 1, '0' };

/* Appends a frame of that stream. */
static uint8_t *put(uint8_t *at, const uint8_t *frame, size_t size, const uint8_t *stream)
{
	memcpy(at, frame, size);
	memcpy(at + STREAM_OFFSET, stream, sizeof(uint32_t));
	return at + size;
}

static int answer_request(int fd, const uint8_t *stream)
{
	uint8_t bytes[sizeof(headers) + sizeof(message) + sizeof(trailers)], *p = bytes;

	p = put(p, headers, sizeof(headers), stream);
	p = put(p, message, sizeof(message), stream);
	(void)put(p, trailers, sizeof(trailers), stream);
	return write_all(fd, bytes, sizeof(bytes));
}

static int take_frame(int fd, const uint8_t *frame)
{
	uint8_t type = frame[3], flags = frame[4];
	uint8_t ack[HEADER_SIZE + PING_SIZE] = { 0, 0, PING_SIZE, FRAME_PING, FLAG_ACK };

	if ((type == FRAME_DATA || type == FRAME_HEADERS) && (flags & FLAG_END_STREAM))
		return answer_request(fd, frame + STREAM_OFFSET);
	if (type == FRAME_SETTINGS && !(flags & FLAG_ACK))
		return write_all(fd, settings_ack, sizeof(settings_ack));
	if (type == FRAME_PING && !(flags & FLAG_ACK)) {
		memcpy(ack + HEADER_SIZE, frame + HEADER_SIZE, PING_SIZE);
		return write_all(fd, ack, sizeof(ack));
	}
	return 0;
}

/* Until the peer leaves, or something is not as it should be. */
static void serve(int fd)
{
	static uint8_t buffer[BUFFER_SIZE];
	size_t skip = PREFACE_SIZE, used = 0;

	if (write_all(fd, empty_settings, sizeof(empty_settings)) < 0 ||
		write_all(fd, window, sizeof(window)) < 0)
		return;
	for (;;) {
		ssize_t n = RETRY_ON_EINTR(read(fd, buffer + used, sizeof(buffer) - used));
		size_t done = 0;

		if (n <= 0)
			return;
		used += (size_t)n;
		if (used < skip)
			continue;
		done = skip;
		skip = 0;
		while (used - done >= HEADER_SIZE) {
			const uint8_t *frame = buffer + done;
			size_t size = HEADER_SIZE +
				((size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2]);

			if (size > sizeof(buffer))
				return;
			if (used - done < size)
				break;
			if (take_frame(fd, frame) < 0)
				return;
			done += size;
		}
		memmove(buffer, buffer + done, used - done);
		used -= done;
	}
}

int run_answer(int argc, char *argv[])
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(argv[0]) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, argv[0], strlen(argv[0]));
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(listener, SOMAXCONN) < 0)
		return -errno;
	(void)signal(SIGCHLD, SIG_IGN);
	(void)puts("listening");
	(void)fflush(stdout);
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			return -errno;
		switch (fork()) {
		case -1:
			return -errno;
		case 0:
			serve(fd);
			_exit(EXIT_SUCCESS);
		}
		(void)close(fd);
	}
}
