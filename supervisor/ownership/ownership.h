/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides which resource owns a device: the first, in the order of the configuration, that finds
 * the hardware behind it. Others do not offer it, unless both set `overlap`. While the device is
 * assigned to a pod through another resource, the first one and those that share with it do not
 * offer it either. That resource
 * may have been renamed or removed, or served by another program: a pod has the device if the
 * resource's bookings name its id. The decision has no state: the same claims and bookings give the
 * same answer, in any order of arrival.
 */

#include "supervisor/ownership/decision.h"

/* Decides about all resources, which are in the order of the configuration. Returns 0 or -ENOMEM,
 * after which there are no results. */
int ownership_decide(struct decision *decisions, size_t n);
