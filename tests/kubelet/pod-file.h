/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The pods of the node over restarts: what a real kubelet learns from the API server.
 */

#include "model.h"

/* Writes state_dir/pods.json. */
int pod_file_write(const struct model *model, const char *state_dir, struct error *error);

/* Reads it into the model; no file: 0. Pods whose admission a crash cut off are left out. */
int pod_file_read(struct model *model, const char *state_dir, struct error *error);
