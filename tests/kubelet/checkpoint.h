/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's checkpoint: which devices which container has, the plugins' answers, and which
 * resources were registered. The file's shape is the kubelet's; the checksum is not, because the
 * kubelet's is a hash of how Go prints its memory.
 */

#include "model.h"

#define CHECKPOINT_NAME "kubelet_internal_checkpoint"

/* Writes the file into the directory, durably. */
int checkpoint_write(const struct model *model, const char *dir, struct error *error);

/* Reads the file into an empty model: allocations, and resources as known without devices. No file:
 * 0. -EBADMSG: not a checkpoint of ours; the model is then in an undefined state and to be freed.
 */
int checkpoint_read(struct model *model, const char *dir, struct error *error);
