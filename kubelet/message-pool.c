/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates one block for each request, because messages are few and are freed soon.
 */
#include "kubelet/message-pool.h"

void *message_pool_alloc(struct message_pool *pool, size_t count, size_t size)
{
	void *block;

	if (array_reserve((void **)&pool->blocks, pool->n_blocks, sizeof(void *)) < 0)
		return NULL;
	block = calloc(count + 1, size);
	if (block)
		pool->blocks[pool->n_blocks++] = block;
	return block;
}

void message_pool_done(struct message_pool *pool)
{
	for (size_t i = 0; i < pool->n_blocks; i++)
		free(pool->blocks[i]);
	free(pool->blocks);
	*pool = (struct message_pool){};
}
