/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the devices of pods, for clients of the control socket. The kubelet is asked only when a
 * client requests it, and an answer is used for a few seconds.
 */

#include <jansson.h>

#include "common/util.h"

struct assignments;
struct manager;

int assignments_new(struct manager *manager, struct assignments **ret);

/* Marks the assignments as outdated: a child has reported something, perhaps an allocation, or the
 * kubelet has written its checkpoint. */
void assignments_outdated(struct assignments *assignments);

/* Whether the assignments are new enough; if not, the kubelet is asked, and waiting requests
 * continue when it has answered. */
bool assignments_ready(struct assignments *assignments);

/* As above, but the kubelet must have been asked at that time (CLOCK_MONOTONIC) or later, and
 * manager_changed() is called when it has answered. */
bool assignments_ready_since(struct assignments *assignments, uint64_t since);

/* The devices of a resource that are assigned to containers: an array of {"id", "namespace", "pod",
 * "container"}; NULL: none, or not known. A borrowed reference. */
json_t *assignments_of(const struct assignments *assignments, const char *resource);

/* The devices of a resource that only the kubelet's checkpoint assigns, to pods that do not exist
 * any more as far as is known. An array of {"id",
 * "pod_uid", "container"}; NULL: none. A borrowed reference. */
json_t *assignments_booked(const struct assignments *assignments, const char *resource);

/* The kubelet's last answer, see pod-table.h: a sealed memfd, which the caller must not close.
 * -EBADF: there is none. */
int assignments_table_fd(const struct assignments *assignments);

/* Why nothing is known, or "". */
const char *assignments_failure(const struct assignments *assignments);

/* How long the last question has waited for the kubelet's answer, or had waited when it failed; 0:
 * it was answered. */
uint64_t assignments_waited(const struct assignments *assignments);

struct assignments *assignments_free(struct assignments *assignments);
DEFINE_CLEANUP(struct assignments *, assignments_free)
