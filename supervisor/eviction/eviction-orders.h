/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of eviction: what devplugd-cluster is to do, and what it reports.
 */

#include "common/control-cluster.h"
#include "supervisor/eviction/eviction-list.h"

/* Asks which pods use the devices, and sends orders when that is known. */
void eviction_orders_begin(struct evictions *evictions);

/* Sends again what devplugd-cluster was sent last. */
void eviction_orders_send(struct evictions *evictions);

/* Takes a CLUSTER_EVICTED. False: it is malformed. */
bool eviction_orders_take_results(struct evictions *evictions, struct control_message *message);
