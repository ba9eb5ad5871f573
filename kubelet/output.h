/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events on standard output: one JSON object per line, or on a terminal a table of the node that is
 * redrawn. A client that does not read costs a limited amount of memory and never stops the
 * kubelet.
 */

#include "kubelet/kubelet-manager.h"

int output_new(struct manager *manager, bool force_json, struct output **ret);

/* Writes as much as the reader takes without waiting. */
struct output *output_free(struct output *output);

/* Writes one event; the caller keeps the object. */
void output_event(struct output *output, const json_t *event);

/* Schedules a redraw of the table. */
void output_changed(struct output *output);
