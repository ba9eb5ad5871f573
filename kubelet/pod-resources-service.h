/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's PodResources API, v1, which reports the devices of each container. Served on
 * STATE_DIR/pod-resources/kubelet.sock, which appears by a rename, as the kubelet's does.
 */

#include "kubelet/kubelet-manager.h"

#define POD_RESOURCES_QPS   100
#define POD_RESOURCES_BURST 10

struct pod_resources;

int pod_resources_new(struct manager *manager, struct pod_resources **ret, struct error *error);

/* Answers the waiting calls and stops serving. */
struct pod_resources *pod_resources_free(struct pod_resources *server);
