/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node as JSON, for the control socket. All return NULL without memory.
 */

#include "kubelet/kubelet-manager.h"

/* {"version", "plugin_dir", "stale_stream_race", "resources": [...], "drivers": [...]} */
json_t *view_status(const struct manager *manager);

/* {"name", "namespace", "uid", "phase", "containers": [{"name", "kind", "limits": {}, "resources":
 * {name: [ids]}, "ignored": []}]}; "limits", "resources" and "ignored" of the first main container;
 * "reason" and "message" if there are any; "claims": [{"name", "uid", "prepared", "devices":
 * [{"driver", "pool", "device", "cdi": [], "health", "message"}]}] if it has claims. */
json_t *view_pod(const struct manager *manager, const struct pod *pod);

/* Adds what each container gets, in their order: "container" to each, and that of the first main
 * container to the pod. 0 or negative. */
int view_add_started(json_t *view, const struct pod *pod, const json_t *started);

/* {"pods": [...]} */
json_t *view_pods(const struct manager *manager);

/* {name: {"capacity", "allocatable"} or null}; of the names in `wanted`. */
json_t *view_allocatable(const struct model *model, const json_t *wanted);
