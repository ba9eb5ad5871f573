/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Saves the pods of the node over restarts; a real kubelet gets them from the API server.
 */

#include <jansson.h>

#include "kubelet/model.h"

/* Writes state_dir/pods.json, and makes state_dir/pod-logs/NAMESPACE_NAME_UID for each pod, as a
 * kubelet does in its podLogsDir; removes those of other pods. */
int pod_file_write(const struct model *model, const char *state_dir, struct error *error);

/* Adds a container from {"name", "kind", "limits": {resource: count}, maybe "others"}. -EBADMSG if
 * the form is wrong; otherwise as pod_add_container(). */
int pod_read_container(struct pod *pod, json_t *json);

/* Reads the file into the model; no file: 0. Skips pods whose admission was interrupted by a
 * crash. */
int pod_file_read(struct model *model, const char *state_dir, struct error *error);
