/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Gets outdated answers to Allocate out of the kubelet's checkpoint when their pods are removed
 * (promise P21). The kubelet keeps such bookings until a question to PodResources, or an
 * allocation, makes it drop them, and the checkpoint has them until a list makes it write. If all
 * devices of a resource are unhealthy because of them, nothing else would do either.
 */

#include "common/util.h"

struct kubelet_checkpoint;
struct manager;
struct pod_table;

/* Whether any resource has an outdated answer. */
bool outdated_answers(const struct manager *manager);

/* To be called with each answer of PodResources while there are outdated answers: sends the kubelet
 * the list of a resource again if the second answer in a row does not name a device that the
 * checkpoint books. Later lists get rarer, because the devices of plain init containers are never
 * named. `checkpoint` NULL: there is none. */
void renew_checkpoint(struct manager *manager, const struct kubelet_checkpoint *checkpoint,
	const struct pod_table *pods);
