/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends devplugd-cluster the labels that resources have for the Node (cluster.labels), and shows
 * with the resources what fails in that.
 */

#include "common/control-cluster.h"

struct auxiliary;
struct config;
struct manager;

struct cluster_labels {
	char *sent; /* what the process knows; NULL: nothing */
};

/* Sends them if they have changed. */
void cluster_labels_send(
	struct cluster_labels *labels, const struct manager *manager, struct auxiliary *process);

/* Takes a CLUSTER_LABELLED. */
void cluster_labels_take(const struct manager *manager, const struct control_message *message);

/* To be called when the process has started: it knows nothing. */
void cluster_labels_done(struct cluster_labels *labels);
