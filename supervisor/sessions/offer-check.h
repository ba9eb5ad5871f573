/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks that the kubelet offers the listed devices. Another plugin can register the same resource
 * name and end: the kubelet then marks all devices unhealthy, although our stream is open, and
 * sends us nothing. While the other plugin is registered, the kubelet offers its devices. After
 * each registration, after a socket was created in the plugin directory or removed from it, and
 * once a minute, the number of healthy devices is compared with GetAllocatableResources. On a
 * difference that lasts, the session is renewed.
 */

#include "common/pod-table.h"
#include "common/util.h"

#define OFFER_CHECK_INTERVAL (60 * USEC_PER_SEC)
/* The time from a registration, or from the first difference, to the next check. */
#define OFFER_CHECK_DELAY (2 * USEC_PER_SEC)
/* How long a difference must last, because a kubelet with many devices and pods needs time for each
 * list. */
#define OFFER_SETTLE_TIME (10 * USEC_PER_SEC)
/* The minimum time between two renewals of one resource without success; it doubles. */
#define OFFER_RENEWAL_MIN (60 * USEC_PER_SEC)
#define OFFER_RENEWAL_MAX (3600 * USEC_PER_SEC)

struct manager;
struct offer_check;

int offer_check_new(struct manager *manager, struct offer_check **ret);

/* To be called when resources, sessions or the configuration have changed: plans the next check. */
void offer_check_plan(struct offer_check *check);

/* How many devices of a resource the answer to GetAllocatableResources contains. A device on
 * several NUMA nodes has rows that follow one another. */
uint64_t offer_count(const struct pod_table *table, const char *resource);

/* To be called when another plugin may have registered or ended: asks the kubelet soon, before the
 * minute is over. */
void offer_check_soon(struct offer_check *check);

struct offer_check *offer_check_free(struct offer_check *check);
DEFINE_CLEANUP(struct offer_check *, offer_check_free)
