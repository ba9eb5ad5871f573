/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Answers HTTP requests: GET and HEAD of /metrics, /readyz and /healthz on a listening socket that
 * the caller opened. Each connection serves one request and has a final deadline.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

#define HTTP_CLIENTS_MAX  16
#define HTTP_REQUEST_MAX  4096
#define HTTP_REQUEST_TIME (5 * USEC_PER_SEC) /* to send a request, and again to take the answer */
/* The time to send a request while other clients wait for a place. */
#define HTTP_REQUEST_TIME_MIN (20 * USEC_PER_MSEC)

struct http_server;

/* Called when a client waits for the metrics, or for readiness; answer with http_server_answer().
 * Not called again before that. */
typedef void (*http_wanted_handler)(void *userdata);

/* Serves a listening, non-blocking socket; takes the descriptor, also on failure. Returns 0 or
 * negative errno. */
int http_server_new(sd_event *event, int fd, http_wanted_handler on_wanted, void *userdata,
	struct http_server **ret);

struct http_answer {
	char *metrics; /* malloc'ed; NULL: not available, and clients receive 503 */
	size_t size;
	char *readiness; /* malloc'ed text for people; NULL: not available */
	bool ready;      /* clients receive 200 with it, or 503 */
};

/* Answers all waiting clients. Takes the texts. */
void http_server_answer(struct http_server *server, struct http_answer *answer);

/* Ends all connections; the socket's other holders keep it. */
struct http_server *http_server_free(struct http_server *server);
DEFINE_CLEANUP(struct http_server *, http_server_free)
