/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reports the problems of all resources of the node in the cluster, whether DRA or the device
 * plugin API serves them.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "common/control-cluster.h"
#include "dra/evictor.h"

struct node_report;

/* `node` outlives it. Returns 0 or negative errno. */
int node_report_new(
	sd_event *event, struct dra_api *api, const char *node, struct node_report **ret);

/* Takes a CLUSTER_RESOURCES. Returns 0 or -EBADMSG. */
int node_report_take_resources(struct node_report *report, struct control_message *message);

/* The devices of a resource and what it expects, as dra_devices_read() returns both; a copy is kept
 * of what is reported. */
void node_report_set_devices(struct node_report *report, const char *resource,
	const json_t *devices, const json_t *expect);

/* Takes what has happened to a pod whose device has failed. */
void node_report_take_pod(struct node_report *report, const struct evictor_pod *pod);

/* Takes a CLUSTER_HOLDERS. Returns 0, -EBADMSG or -ENOMEM. */
int node_report_take_holders(struct node_report *report, struct control_message *message);

struct node_report *node_report_free(struct node_report *report);
DEFINE_CLEANUP(struct node_report *, node_report_free)
