/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the conditions of the Node that are devplugd's in the API server: one for each resource, of
 * the type that node_condition_type() makes. True means a problem. Conditions of that prefix
 * without a resource are removed. Changes are written together, at most every
 * NODE_CONDITIONS_PAUSE, and all conditions every NODE_CONDITIONS_HEARTBEAT; a failure is repeated
 * after 1 s to a minute.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "dra/dra-api.h"

#define NODE_CONDITIONS_PAUSE     (2 * USEC_PER_SEC)
#define NODE_CONDITIONS_HEARTBEAT (300 * USEC_PER_SEC)

struct node_conditions;

/* What fails, or "" after a success. */
typedef void (*node_conditions_handler)(const char *failure, void *userdata);

/* `node` outlives the object. */
int node_conditions_new(sd_event *event, struct dra_api *api, const char *node,
	node_conditions_handler on_result, void *userdata, struct node_conditions **ret);

/* The conditions that the Node shall have: by type, {"status", "reason", "message"}, or null for
 * one that is not known yet and stays as it is. Takes the reference. */
void node_conditions_set(struct node_conditions *conditions, json_t *wanted);

struct node_conditions *node_conditions_free(struct node_conditions *conditions);
DEFINE_CLEANUP(struct node_conditions *, node_conditions_free)
