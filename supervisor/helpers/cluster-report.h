/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends devplugd-cluster which resources it reports in the cluster, and keeps what fails in that.
 */

#include <jansson.h>

#include "common/control-cluster.h"

struct auxiliary;
struct cluster_report;
struct manager;

/* `process`: devplugd-cluster. */
int cluster_report_new(
	struct manager *manager, struct auxiliary *process, struct cluster_report **ret);

/* Whether the configuration wants reports. */
bool cluster_report_is_wanted(const struct cluster_report *report);

/* To be called when devplugd-cluster has started: it knows nothing. */
void cluster_report_started(struct cluster_report *report);

/* Sends the resources if they have changed. Returns whether this was the first time, so that the
 * devices have to be sent, too. */
bool cluster_report_send(struct cluster_report *report);

/* Takes a CLUSTER_REPORTED. */
void cluster_report_take(struct cluster_report *report, const struct control_message *message);

/* What fails, or "". */
const char *cluster_report_failure(const struct cluster_report *report);

struct cluster_report *cluster_report_free(struct cluster_report *report);
DEFINE_CLEANUP(struct cluster_report *, cluster_report_free)
