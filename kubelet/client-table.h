/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides which connection counts as "the" client of a resource, and thus which one is disconnected
 * when a ListAndWatch stream ends. Up to 1.36, a resource has one entry, which the latest Register
 * overwrites: the end of an older stream disconnects the newer client, and after a failed Register
 * there is no client to disconnect. Later kubelets identify clients by the path of their socket.
 */

#include "common/util.h"

struct client {
	char *resource;
	char *path;
	uint64_t connection;
};

struct client_table {
	bool stale_stream_race; /* one entry for each resource, as up to 1.36 */
	struct client *clients;
	size_t count;
};

/* Step 5 of Register: the entry is made, or overwritten. */
int client_table_put(
	struct client_table *table, const char *resource, const char *path, uint64_t connection);

/* Deletes the entry of a failed Register, or the entry that replaced it. */
void client_table_drop(struct client_table *table, const char *resource, const char *path);

/* Handles the end of the stream of that path's client: removes the entry of the client to
 * disconnect and returns its connection, 0 if there is none. */
uint64_t client_table_end(struct client_table *table, const char *resource, const char *path);

/* The connection of the resource's newest entry, 0 if there is none. */
uint64_t client_table_find(const struct client_table *table, const char *resource);

void client_table_done(struct client_table *table);
