/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory for the parts of a message under construction. Blocks never move, because messages point
 * to them, and are freed all at once.
 */

#include "common/util.h"

struct message_pool {
	void **blocks;
	size_t n_blocks;
};

/* Zeroed memory for `count` elements, never of size 0; NULL: no memory. */
void *message_pool_alloc(struct message_pool *pool, size_t count, size_t size);

void message_pool_done(struct message_pool *pool);
#define _cleanup_message_pool_ _cleanup_(message_pool_done)
