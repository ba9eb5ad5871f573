/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon's part of the exporter (exporter/): the socket that it listens on, and for each scrape
 * the daemon's state: its resources, their devices, and the devices of pods. There is an exporter
 * only while `metrics` in the configuration names a socket or a text file, or systemd passed a
 * socket with the name "metrics".
 *
 * metrics-state.c makes the daemon's part. Devices are in the documents of their processes, which
 * the exporter receives unchanged.
 */

#include "common/util.h"

struct manager;
struct metrics;

int metrics_new(struct manager *manager, struct metrics **ret);

/* Follows the applied configuration. Logs. */
void metrics_configure(struct metrics *metrics);

/* The reason why there are no metrics, or no text file with them, for display; NULL: nothing
 * failed. The argument may be NULL. */
const char *metrics_failure(const struct metrics *metrics);

/* Makes the socket at a path again if another process removed it. Logs. */
void metrics_restore(struct metrics *metrics);

struct metrics *metrics_free(struct metrics *metrics);
DEFINE_CLEANUP(struct metrics *, metrics_free)
