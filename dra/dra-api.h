/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends requests to the API server, on the event loop. The supervisor reads the credentials for the
 * first request, again after a minute, and when the server refuses them. The first request waits
 * until they are read. Later ones are sent with those that are known, and sent once more if the
 * server refuses them, or fails while they change. Nothing secret is logged.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "common/control-cluster.h"
#include "common/error.h"

#define DRA_API_TIMEOUT      (10 * USEC_PER_SEC)
#define DRA_API_ANSWER_MAX   (64U << 20)
#define DRA_CREDENTIALS_WAIT (5 * USEC_PER_SEC)

/* Namespace and name. */
#define DRA_CLAIM_PATH "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s"

struct dra_api;

struct dra_answer {
	int code;             /* of HTTP; 0: there was none */
	bool timed_out;       /* there was none in DRA_API_TIMEOUT */
	json_t *body;         /* NULL: not JSON */
	uint64_t retry_after; /* seconds, 0: not in the answer */
	const char *failure;  /* the reason for a person if it is not 2xx; else NULL */
};

typedef void (*dra_answer_handler)(const struct dra_answer *answer, void *userdata);

int dra_api_new(sd_event *event, struct dra_api **ret);

/* The node for which requests are made; outlives the object. `settled` false: the name in the
 * client certificate counts more. Requests then wait for the process that replaces this one, if
 * that is another name. */
void dra_api_set_node(struct dra_api *api, const char *node, bool settled);

/* CLUSTER_FILE of the supervisor. */
void dra_api_take_file(struct dra_api *api, struct control_message *message);

/* `path` begins with "/". `body`: sent as JSON, a PATCH as a strategic merge; or NULL; the
 * reference stays the caller's. The handler is called once, later, unless the request is cancelled.
 * Returns 0 or -ENOMEM. */
int dra_api_request(struct dra_api *api, const char *method, const char *path, const json_t *body,
	dra_answer_handler on_answer, void *userdata);

/* A PATCH by server-side apply: the server merges the fields of `body` with those of others. */
int dra_api_apply(struct dra_api *api, const char *path, const json_t *body,
	dra_answer_handler on_answer, void *userdata);

/* A number that changes with the credentials. */
unsigned dra_api_credentials(const struct dra_api *api);

/* A GET whose answer is a stream of events, one JSON document a line, that lasts until the server
 * ends it. `on_event` is called for each, and may not start or cancel requests; then `on_end`. */
typedef void (*dra_event_handler)(const json_t *event, void *userdata);
int dra_api_watch(struct dra_api *api, const char *path, dra_event_handler on_event,
	dra_answer_handler on_end, void *userdata);

/* Whether the server fails, and not the request: the same request may succeed later. So it is with
 * an answer that is not JSON, and while the server does not know the credentials. */
bool dra_api_is_outage(const struct dra_answer *answer);

/* The delay before a request is repeated after a failure: 1 s to a minute, at least Retry-After,
 * and up to a quarter more, so that the nodes of a cluster do not retry at one moment. `*delay`:
 * the previous one, 0: none. */
uint64_t dra_api_retry_delay(uint64_t *delay, const struct dra_answer *answer);

/* A pause that several requests share, while the server fails. Zeroed: it answers. */
struct dra_outage {
	uint64_t until; /* CLOCK_MONOTONIC */
	uint64_t delay;
};

/* Notes an answer. The pause after a failure is 50 ms to 1 s, and at least Retry-After, up to 5 s.
 * Requests that were sent before the pause and fail in it count as one failure: a broken connection
 * fails all of them. Returns whether the server fails. */
bool dra_api_note_outage(struct dra_outage *outage, const struct dra_answer *answer, uint64_t now);

/* Ends the requests with this userdata; their handlers are not called. */
void dra_api_cancel(struct dra_api *api, const void *userdata);

struct dra_api *dra_api_free(struct dra_api *api);
DEFINE_CLEANUP(struct dra_api *, dra_api_free)
