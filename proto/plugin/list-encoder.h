/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Encodes a snapshot as a ListAndWatchResponse. The code is written by hand because only this
 * message grows with the number of devices: one pass, no object per device.
 */

#include "drivers/inventory/inventory.h"

/* Encodes every offered id of the snapshot. Returns 0, -E2BIG above the 4 MiB that a kubelet
 * accepts, or -ENOMEM. The bytes are malloc'ed. */
int list_encode(const struct snapshot *snapshot, uint8_t **ret_data, size_t *ret_size);
