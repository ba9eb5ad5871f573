/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes Events about devices on the Node and on pods. An Event is a notice: one that the API
 * server does not take is repeated for a while, and is then dropped. Occurrences with the same
 * device, object and reason are counted in one Event, which is written NODE_EVENTS_REPEATS times,
 * and then once in NODE_EVENTS_PAUSE. All writes together are limited to NODE_EVENTS_BURST, and one
 * more each NODE_EVENTS_REFILL.
 */

#include <systemd/sd-event.h>

#include "dra/dra-api.h"

#define NODE_EVENTS_REPEATS 3
#define NODE_EVENTS_PAUSE   (60 * USEC_PER_SEC)
#define NODE_EVENTS_BURST   25
#define NODE_EVENTS_REFILL  (2 * USEC_PER_SEC)
/* How many are known at a time, and how long. */
#define NODE_EVENTS_MAX 256
#define NODE_EVENTS_AGE (600 * USEC_PER_SEC)

struct node_events;

/* What has happened to a device. The texts are copied. */
struct node_event {
	const char *reason; /* a word in CamelCase, such as "DeviceFailed" */
	bool warning;       /* its type is Warning, not Normal */
	const char *resource, *device;
	const char *text;            /* the message */
	const char *namespace, *pod; /* of the pod that it is about; NULL: the Node */
	const char *uid;             /* of the pod; NULL: it is read from the API server */
};

/* What fails, or "" after a success. */
typedef void (*node_events_handler)(const char *failure, void *userdata);

/* `node` outlives the object. */
int node_events_new(sd_event *event, struct dra_api *api, const char *node,
	node_events_handler on_result, void *userdata, struct node_events **ret);

/* Has the Event written soon. Logs. */
void node_events_add(struct node_events *events, const struct node_event *event);

struct node_events *node_events_free(struct node_events *events);
DEFINE_CLEANUP(struct node_events *, node_events_free)
