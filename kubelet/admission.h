/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Admits pods and starts their containers, with the calls to plugins in the kubelet's order. One
 * pod is admitted at a time, with no time limit, so a plugin that hangs in Allocate stops admission
 * as it stops a kubelet's; containers start independently.
 */

#include "kubelet/kubelet-manager.h"

struct control_request;

/* Admits a pending pod, starts its container, and then answers the request. */
int admission_new(struct manager *manager, struct pod *pod, struct control_request *requester);

/* Starts the container of a running pod again: PreStartContainer, and the answers of Allocate that
 * were kept. */
int admission_restart(struct manager *manager, struct pod *pod, struct control_request *requester);

/* Whether the pod is being admitted or started. */
bool admission_is_under_way(const struct manager *manager, const struct pod *pod);

/* Drops all admissions, for manager_free(). */
void admission_free_all(struct manager *manager);
