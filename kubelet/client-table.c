/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores clients in an array, in the order of registration: a node has a few hundred at most.
 */
#include "kubelet/client-table.h"

static struct client *find(const struct client_table *table, const char *resource, const char *path)
{
	for (size_t i = table->count; i > 0; i--) {
		struct client *client = &table->clients[i - 1];

		if (!streq(client->resource, resource))
			continue;
		if (table->stale_stream_race || streq(client->path, path))
			return client;
	}
	return NULL;
}

static void remove_client(struct client_table *table, struct client *client)
{
	size_t behind = table->count - (size_t)(client - table->clients) - 1;

	free(client->resource);
	free(client->path);
	memmove(client, client + 1, behind * sizeof(*client));
	table->count--;
}

int client_table_put(
	struct client_table *table, const char *resource, const char *path, uint64_t connection)
{
	_cleanup_free_ char *resource_copy = strdup(resource), *path_copy = strdup(path);
	struct client *client;
	int r;

	if (!resource_copy || !path_copy)
		return -ENOMEM;
	client = find(table, resource, path);
	if (client)
		remove_client(table, client);
	r = array_reserve((void **)&table->clients, table->count, sizeof(*table->clients));
	if (r < 0)
		return r;
	table->clients[table->count++] = (struct client){
		.resource = TAKE_PTR(resource_copy),
		.path = TAKE_PTR(path_copy),
		.connection = connection,
	};
	return 0;
}

void client_table_drop(struct client_table *table, const char *resource, const char *path)
{
	(void)client_table_end(table, resource, path);
}

uint64_t client_table_end(struct client_table *table, const char *resource, const char *path)
{
	struct client *client = find(table, resource, path);
	uint64_t connection;

	if (!client)
		return 0;
	connection = client->connection;
	remove_client(table, client);
	return connection;
}

uint64_t client_table_find(const struct client_table *table, const char *resource)
{
	for (size_t i = table->count; i > 0; i--)
		if (streq(table->clients[i - 1].resource, resource))
			return table->clients[i - 1].connection;
	return 0;
}

void client_table_done(struct client_table *table)
{
	while (table->count > 0)
		remove_client(table, &table->clients[table->count - 1]);
	free(table->clients);
	*table = (struct client_table){};
}
