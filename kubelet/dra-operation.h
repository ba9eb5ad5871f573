/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prepares and unprepares the claims of a pod, with one call for each driver, with all claims that
 * concern it. The first failure ends it.
 */

#include "kubelet/kubelet-manager.h"

/* `error`: NULL, or the kubelet's error text. */
typedef void (*dra_operation_handler)(
	struct manager *manager, struct pod *pod, const char *error, void *userdata);

/* Prepares the claims of the pod that are not prepared. The handler is called once, perhaps before
 * this returns, unless the manager is freed before. */
void dra_prepare(
	struct manager *manager, struct pod *pod, dra_operation_handler handler, void *userdata);

/* Unprepares the claims that no other pod uses, and drops them. */
void dra_unprepare(
	struct manager *manager, struct pod *pod, dra_operation_handler handler, void *userdata);

/* Whether one of these operations is in progress for the pod. */
bool dra_is_under_way(const struct manager *manager, const struct pod *pod);

/* For manager_free(). */
void dra_operation_free_all(struct manager *manager);
