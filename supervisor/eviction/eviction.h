/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Evicts the pods of failed devices: takes the failures that the processes of resources report,
 * decides by eviction-plan.h, and sends devplugd-cluster the pods and claims that have the devices.
 * What was decided is saved in runtime_dir, so that a restart neither forgets that an eviction is
 * held nor begins the time again.
 */

#include <jansson.h>

#include "common/error.h"

struct auxiliary;
struct child;
struct control_message;
struct evictions;
struct manager;
struct request;

/* Reads what an earlier daemon has saved. Returns 0 or negative errno. */
int evictions_new(struct manager *manager, struct evictions **ret);

/* Takes CHILD_FAILURES of a resource's process. Returns 0, or -EBADMSG if the document is
 * malformed. */
int evictions_take(struct evictions *evictions, const struct child *child, int fd);

/* To be called when a resource has accepted a configuration, and when its process has ended:
 * nothing is evicted until the next one has reported. */
void evictions_configure(struct evictions *evictions, const struct child *child);
void evictions_child_gone(struct evictions *evictions, const struct child *child);

/* Drops what is known about resources that are not configured any more. */
void evictions_drop_removed(struct evictions *evictions);

/* The process devplugd-cluster, which outlives this object. */
void evictions_set_process(struct evictions *evictions, struct auxiliary *process);

/* To be called when that process was started, and with its CLUSTER_EVICTED; false: the message is
 * malformed. */
void evictions_send(struct evictions *evictions);
bool evictions_take_results(struct evictions *evictions, struct control_message *message);

/* Writes the file because it was removed, or if an earlier attempt failed. The second returns
 * whether it is written. */
void evictions_write_again(struct evictions *evictions);
bool evictions_write_left(struct evictions *evictions);

/* Decides about all failures, saves that, and plans the next time. */
void evictions_decide(struct evictions *evictions);

/* The member "eviction" of a resource: {"held": why any is held, or "", "problem": why pods are not
 * known, or "", "failures": [{"device", "state", "hold", "text", "since", "due", "pods":
 * [{"namespace", "name", "uid", "state", "text"}]}]}; NULL if the resource evicts nothing. A new
 * reference. */
json_t *evictions_describe(const struct evictions *evictions, const char *resource);

/* What the cluster learns: by device, {"state": "held", "evicting", or "waiting" for one that is
 * confirmed, "since", "text", "confirmed": whether an administrator has confirmed it}; a new
 * reference, NULL: nothing. */
json_t *evictions_report(const struct evictions *evictions, const char *resource);

/* For metrics: {"evicted", "deleted", "waiting", "held", "evicting"}, all numbers, a new reference;
 * NULL as above. */
json_t *evictions_numbers(const struct evictions *evictions, const char *resource);

/* Handles the verb "evict" of the control socket: {"resource"}. All failures that are held are
 * acted on. Answers {"devices": [ids]}. */
int evict_request(struct request *request, json_t **ret_answer, struct error *error);

struct evictions *evictions_free(struct evictions *evictions);
DEFINE_CLEANUP(struct evictions *, evictions_free)
