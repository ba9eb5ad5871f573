/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events on standard output: one JSON object per line, or on a terminal a table of the node that is
 * redrawn. A reader that does not read costs bounded memory and never stops the kubelet.
 */

#include "kubelet/kubelet-manager.h"

int output_new(struct manager *manager, bool force_json, struct output **ret);

/* Writes out what the reader takes without waiting. */
struct output *output_free(struct output *output);

/* One event; the object stays the caller's. */
void output_event(struct output *output, const json_t *event);

/* The table is to be redrawn soon. */
void output_changed(struct output *output);
