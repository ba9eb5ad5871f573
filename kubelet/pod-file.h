/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The pods of the node over restarts: what a real kubelet learns from the API server.
 */

#include <jansson.h>

#include "kubelet/model.h"

/* Writes state_dir/pods.json. */
int pod_file_write(const struct model *model, const char *state_dir, struct error *error);

/* Adds a container from {"name", "kind", "limits": {resource: count}, maybe "others"}. -EBADMSG if
 * it is not that; otherwise as pod_add_container(). */
int pod_read_container(struct pod *pod, json_t *json);

/* Reads it into the model; no file: 0. Pods whose admission a crash cut off are left out. */
int pod_file_read(struct model *model, const char *state_dir, struct error *error);
