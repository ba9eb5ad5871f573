/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by server.c, stream.c and client.c inside the binding: the completion queue and its tags.
 * A tag is embedded in the object that waits for an event; the queue's thread calls it back exactly
 * once for every operation that was started with it.
 */

#include <grpc/grpc.h>

#include "common/util.h"

struct tag {
	void (*on_event)(struct tag *tag, bool ok);
};

/* The object that embeds a tag. */
#define TAG_OWNER(tag, type, member) ((type *)(void *)((char *)(tag)-offsetof(type, member)))

/* The process's completion queue; NULL unless between rpc_start() and rpc_stop(). */
grpc_completion_queue *rpc_queue(void);

/* Calls the tag's handler on the queue's thread. From any thread; not after rpc_stop() began. */
void rpc_queue_post(struct tag *tag);

/* The bytes of a received message in one slice; the caller unrefs it. -EBADMSG: the message is
 * incomplete, or compressed, which is refused because a small request could become a huge one. */
int rpc_read_message(grpc_byte_buffer *buffer, grpc_slice *ret);
