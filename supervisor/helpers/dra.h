/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon's part of Dynamic Resource Allocation and of all else that needs the API server: the
 * process devplugd-cluster, which runs only while a feature needs it, its sockets for the kubelet,
 * one for each driver, its credentials, and which resources are served while their driver is
 * registered. devplugd-cluster talks to the kubelet and the API server and is not trusted: its
 * requests are checked here.
 */

#include <jansson.h>

#include "common/control-cluster.h"
#include "common/error.h"

struct child;
struct dra;
struct manager;
struct session;

int dra_new(struct manager *manager, struct dra **ret);

/* Follows the applied configuration. Logs. */
void dra_configure(struct dra *dra);

/* Sends devplugd-cluster the document of a resource's devices, if it does not have it yet. Returns
 * when to call again because of pacing (CLOCK_MONOTONIC), or USEC_INFINITY. */
uint64_t dra_send_devices(struct dra *dra, struct child *child);

/* Sends devplugd-cluster which devices claims hold, and which resources are reported, if it does
 * not know. */
void dra_send_changes(struct dra *dra);

/* For a resource that is served by DRA: a session without a socket, which exists while its driver
 * is registered. Returns 0, or -ENOENT with the error filled: then RESOURCE_KUBELET comes when
 * there can be one. Its events follow later, and so do the events of its end. */
int dra_open_session(
	struct dra *dra, const char *resource, struct session *ret, struct error *error);
void dra_end_session(struct dra *dra);

/* To be called when the socket of a driver may have been removed. */
void dra_check_session(struct dra *dra);

/* Takes a process's CHILD_EDITS or CHILD_EDITS_CHANGED, or a notice that it has ended. */
void dra_take_edits(struct dra *dra, const struct child *child, struct control_message *message);
void dra_child_gone(struct dra *dra, const struct child *child);

/* For metrics: {"api_failures": number of requests, "drivers": by name: {"slices", "claims":
 * numbers, EVENT: [number, microseconds]}}, with the names of cluster_events; a new reference.
 * NULL: DRA is not in use, or memory is short. `dra` may be NULL. */
json_t *dra_numbers(const struct dra *dra);

/* For display: the member "dra" of the state, or NULL if no resource is served by DRA. `dra` NULL:
 * none is. */
json_t *dra_describe(const struct dra *dra);

/* For display: the member "cluster" of the state, or NULL if nothing is reported in the cluster. */
json_t *dra_describe_cluster(const struct dra *dra);

struct dra *dra_free(struct dra *dra);
DEFINE_CLEANUP(struct dra *, dra_free)
