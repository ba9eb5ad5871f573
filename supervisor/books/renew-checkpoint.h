/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Gets bookings of removed pods out of the kubelet's checkpoint where they keep devices from other
 * pods: outdated answers to Allocate (promise P21), hardware that one device has at a time
 * (overlap = "exclusive"), and devices that are unhealthy until their pod has ended (on_recovery,
 * missing.on_return). The kubelet keeps such bookings until a question to PodResources, or an
 * allocation, makes it drop them, and the checkpoint has them until a list makes it write. If all
 * devices of a resource are unhealthy because of them, nothing else would do either.
 */

#include "common/util.h"

struct child;
struct kubelet_checkpoint;
struct manager;
struct pod_table;

/* Whether a booking of the resource can keep devices from pods. */
bool renewal_matters(const struct child *child);

/* Whether there are such bookings, or may be: to know that, the kubelet has to be asked.
 * `checkpoint` NULL: there is none. */
bool renewal_is_wanted(const struct manager *manager, const struct kubelet_checkpoint *checkpoint);

/* To be called with each answer of PodResources while that is so: sends the kubelet the list of a
 * resource again if the second answer in a row does not name a device that the checkpoint books.
 * Later lists get rarer, because the devices of plain init containers are never named. `checkpoint`
 * NULL: there is none. */
void renew_checkpoint(struct manager *manager, const struct kubelet_checkpoint *checkpoint,
	const struct pod_table *pods);
