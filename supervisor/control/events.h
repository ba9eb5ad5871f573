/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last events (log records that have an identity), for devplugctl on hosts without a journal.
 * One resource cannot displace the events of the others, and refused claims cannot displace other
 * events.
 */

#include "supervisor/control/request.h"

#define EVENTS_MAX        1000
#define EVENTS_SOURCE_MAX 250 /* of one resource; without a resource, of one message id */
#define EVENT_TEXT_MAX    512 /* bytes; longer texts are cut */
/* Seconds until a client that follows gets an empty answer. */
#define EVENTS_FOLLOW_TIMEOUT 30

struct events;

/* Keeps log records from now on. There is one object at a time. Returns 0 or -ENOMEM. */
int events_new(struct manager *manager, struct events **ret);

/* The verb "events": {"after": N, "resource": NAME, "follow": true}, each optional; answers
 * {"events": [{"number", "time", "level", "resource", "device", "message_id", "text"}], "last": N,
 * "journal": whether they are in the journal, too} with those whose number is above `after`. With
 * `follow` it waits for one. */
int events_request(struct request *request, json_t **ret_answer, struct error *error);

struct events *events_free(struct events *events);
DEFINE_CLEANUP(struct events *, events_free)
