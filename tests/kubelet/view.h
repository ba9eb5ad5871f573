/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node as JSON, for the control socket. All return NULL without memory.
 */

#include "manager.h"

/* {"behaviour", "plugin_dir", "stale_stream_race", "resources": [...]} */
json_t *view_status(const struct manager *manager);

/* {"name", "namespace", "uid", "phase", "limits": {}, "resources": {name: [ids]}, "ignored": []},
 * and "reason" and "message" if there are any. */
json_t *view_pod(const struct model *model, const struct pod *pod);

/* {"pods": [...]} */
json_t *view_pods(const struct model *model);

/* {name: {"capacity", "allocatable"} or null}; of the names in `wanted`. */
json_t *view_allocatable(const struct model *model, const json_t *wanted);
