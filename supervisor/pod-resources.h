/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finding out which devices that have vanished may be forgotten: the kubelet is asked, through a
 * process of its own that knows gRPC (proto/plugin/pod-reader.h), which ones containers have; and
 * only while there are such devices, at the interval that the configuration says, far below the
 * kubelet's limit of 100 questions a second for all who ask. Where it cannot be asked, nothing is
 * forgotten.
 */

#include "child.h"

struct pod_resources;

int pod_resources_new(struct manager *manager, struct pod_resources **ret);

/* The number of vanished devices, the configuration, or what is served has changed. */
void pod_resources_look(struct pod_resources *pods);

struct pod_resources *pod_resources_free(struct pod_resources *pods);
DEFINE_CLEANUP(struct pod_resources *, pod_resources_free)
