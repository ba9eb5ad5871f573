/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's checkpoint: the devices of each container, the plugins' answers, and the registered
 * resources. A real kubelet reads our file, and we read its files; a member that it ignores marks
 * ours.
 */

#include "kubelet/model.h"

#define CHECKPOINT_NAME "kubelet_internal_checkpoint"

/* Writes the file into the directory, durably. */
int checkpoint_write(const struct model *model, const char *dir, struct error *error);

/* Reads the file into an empty model: allocations, and resources as known without devices. No file:
 * 0. Returns 1 if a real kubelet has written it. -EBADMSG: not a checkpoint; the model is then
 * undefined and must be freed. */
int checkpoint_read(struct model *model, const char *dir, struct error *error);
