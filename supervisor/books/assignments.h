/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which pod has which device, for clients of the control socket. The kubelet is asked only while a
 * client wants to know, and an answer serves for a few seconds.
 */

#include <jansson.h>

#include "common/util.h"

struct assignments;
struct manager;

int assignments_new(struct manager *manager, struct assignments **ret);

/* A child has reported something, perhaps an allocation, or the kubelet has written its checkpoint:
 * the assignments are outdated. */
void assignments_outdated(struct assignments *assignments);

/* Whether the assignments are new enough; if not, the kubelet is asked, and waiting requests
 * continue when it has answered. */
bool assignments_ready(struct assignments *assignments);

/* The devices of a resource that containers have: an array of {"id", "namespace", "pod",
 * "container"}; NULL: none, or nothing is known. The reference stays ours. */
json_t *assignments_of(const struct assignments *assignments, const char *resource);

/* The devices of a resource that only the kubelet's checkpoint assigns: to pods that it no longer
 * lists, or to plain init containers of pods of which it lists no other device. An array of {"id",
 * "pod_uid", "container"}; NULL: none. The reference stays ours. */
json_t *assignments_booked(const struct assignments *assignments, const char *resource);

/* Why nothing is known, or "". */
const char *assignments_failure(const struct assignments *assignments);

/* How long the kubelet has not answered the last question, or had not when it failed; 0: it has. */
uint64_t assignments_waited(const struct assignments *assignments);

struct assignments *assignments_free(struct assignments *assignments);
DEFINE_CLEANUP(struct assignments *, assignments_free)
