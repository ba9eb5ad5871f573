/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inner parts of a connection, for connection.c: its memory, and the mailbox messages that carry
 * lists and results from gRPC's thread to the main loop.
 */

#include <pthread.h>

#include "kubelet/connection.h"

/* One message of ListAndWatch on its way to the main loop. */
struct list {
	struct mailbox_message base;
	struct connection *connection;
	uint8_t *data;
	size_t size;
	uint64_t merged; /* older messages that this one replaced before they were read */
};
typedef void (*list_handler)(struct connection *connection, const struct list *list);

struct connection {
	struct manager *manager;
	struct connection *next;
	uint64_t number;
	char *resource, *endpoint, *path;
	struct register_request *request; /* NULL once answered */
	struct channel *client;           /* NULL: not connected, or closed */
	bool streaming;                   /* the kubelet reads the list */
	uint64_t began, backoff;          /* of the dial */
	sd_event_source *timer;           /* dial again, or close when idle */
	unsigned outstanding;             /* results that have not been delivered */
	list_handler on_list;
	const void *stream; /* names the stream for channel_cancel() */

	pthread_mutex_t lock; /* below: shared with gRPC's thread */
	unsigned waiting;     /* lists in the mailbox */
	struct list *newest;  /* the last of them */
};

int connection_new(struct manager *manager, const char *resource, const char *endpoint,
	const char *path, struct connection **ret);

/* Frees the connection if it is closed and nothing refers to it. */
void connection_release(struct connection *connection);

/* Closes the connection; outstanding calls end with Canceled. */
void connection_close(struct connection *connection);

/* Opens a stream whose messages are complete lists; on_result receives the connection. -ENOTCONN:
 * it was closed. */
int connection_stream(struct connection *connection, const char *method, list_handler on_list,
	answer_handler on_result);
