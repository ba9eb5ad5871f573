/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The answers of the PodResources API, encoded from the model. Each returns malloc'ed bytes in
 * `ret`, or -ENOMEM.
 */

#include "kubelet/model.h"

/* List: pods that are active (up to 1.32: all), without plain init containers. */
int pod_resources_encode_list(const struct model *model, uint8_t **ret, size_t *ret_size);

/* List of v1alpha1: all pods, containers that are neither init containers nor sidecars, no
 * topology.
 */
int pod_resources_encode_list_v1alpha1(const struct model *model, uint8_t **ret, size_t *ret_size);

/* GetAllocatableResources: every healthy device, in use or not. */
int pod_resources_encode_allocatable(const struct model *model, uint8_t **ret, size_t *ret_size);

/* Get: -ENOENT if there is no such active pod. */
int pod_resources_encode_pod(const struct model *model, const char *namespace, const char *name,
	uint8_t **ret, size_t *ret_size);
