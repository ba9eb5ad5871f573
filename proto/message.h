/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Packs and unpacks protocol buffers. Unpacking uses one bounded block of memory for each message,
 * because protobuf-c alone turns 4 MiB of hostile input into 235 MB of allocations.
 */

#include <protobuf-c/protobuf-c.h>

#include "common/util.h"
#include "proto/rpc.h"

/* An unpacked message and the memory that holds it. */
struct message {
	const ProtobufCMessage *base; /* NULL if the bytes are not a message of that type */
	void *memory;
};

/* Unpacks; base is NULL if the bytes are malformed or would need more than the bound. */
struct message message_unpack(
	const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size);
void message_done(struct message *message);
#define _cleanup_message_ _cleanup_(message_done)

/* Packs into malloc'ed memory. Returns 0 or -ENOMEM. */
int message_pack(const ProtobufCMessage *message, uint8_t **ret_data, size_t *ret_size);

/* Answers a call with a message, or with an error if there is no memory for it. */
void message_reply(struct rpc_call *call, const ProtobufCMessage *message);
