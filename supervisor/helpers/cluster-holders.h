/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Answers devplugd-cluster's question which pods use which devices.
 */

#include "common/control-cluster.h"

struct auxiliary;
struct manager;

/* A question that is not answered yet. Zeroed: none. */
struct cluster_holders {
	uint64_t number;   /* 0: none */
	uint64_t asked_at; /* CLOCK_MONOTONIC */
};

/* Takes a CLUSTER_HOLDERS_WANTED, in place of an earlier one. */
void cluster_holders_take(struct cluster_holders *holders, const struct control_message *message);

/* Answers the question if the kubelet has answered, and has it asked otherwise: to be called again
 * when something has changed. */
void cluster_holders_send(
	struct cluster_holders *holders, const struct manager *manager, struct auxiliary *process);
