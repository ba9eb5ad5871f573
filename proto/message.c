/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how much memory one message may take. Unpacking uses one block that is sized by the
 * message: protobuf-c asks for memory piece by piece, the pieces are cut from the block, and when
 * it is used up the message is refused.
 */
#include "proto/message.h"

/* The most expensive valid message is a list of one-byte ids: three bytes on the wire, and in
 * memory a pointer, a string and protobuf-c's record of the field. Long lists have long ids, so the
 * total is bounded too. */
#define BLOCK_PER_BYTE  32
#define BLOCK_MINIMUM   4096
#define BLOCK_MAXIMUM   (64U << 20)
#define BLOCK_ALIGNMENT 8

struct block {
	size_t size, used;
	unsigned char bytes[] __attribute__((aligned(BLOCK_ALIGNMENT)));
};

static void *block_alloc(void *data, size_t size)
{
	struct block *block = data;
	void *piece;

	if (size > block->size - block->used)
		return NULL;
	piece = block->bytes + block->used;
	size = (size + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
	block->used += MIN_OF(size, block->size - block->used);
	return piece;
}

static void block_free(void *data, void *piece)
{
	/* Pieces live as long as their block. */
}

struct message message_unpack(
	const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size)
{
	struct message message = {};
	size_t bytes = MIN_OF(BLOCK_MINIMUM + size * BLOCK_PER_BYTE, BLOCK_MAXIMUM);
	struct block *block = malloc(sizeof(*block) + bytes);
	ProtobufCAllocator allocator = {
		.alloc = block_alloc,
		.free = block_free,
		.allocator_data = block,
	};

	if (!block)
		return message;
	block->size = bytes;
	block->used = 0;
	message.base = protobuf_c_message_unpack(type, &allocator, size, data);
	if (message.base)
		message.memory = block;
	else
		free(block);
	return message;
}

void message_done(struct message *message)
{
	free(message->memory);
	*message = (struct message){};
}

int message_pack(const ProtobufCMessage *message, uint8_t **ret_data, size_t *ret_size)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	uint8_t *data = malloc(size ? size : 1);

	if (!data)
		return -ENOMEM;
	*ret_size = protobuf_c_message_pack(message, data);
	*ret_data = data;
	return 0;
}

void message_reply(struct rpc_call *call, const ProtobufCMessage *message)
{
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;

	if (message_pack(message, &data, &size) < 0)
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		rpc_reply(call, data, size);
}
