/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A snapshot as the bytes of a ListAndWatchResponse. Written by hand because it is the one message
 * whose size follows the number of devices: one pass to measure, one to write, no object per
 * device; and after a change of health only what has changed is written anew.
 */

#include "drivers/inventory.h"

/* Encodes every offered id of the snapshot. Returns 0, -E2BIG beyond the 4 MiB that a kubelet
 * accepts, or -ENOMEM. The bytes are malloc'ed. */
int list_encode(const struct snapshot *snapshot, uint8_t **ret_data, size_t *ret_size);

/* The same bytes, made from the list of a snapshot `before` (or NULL): of devices that both share
 * and that are as they were, the old bytes are copied. */
int list_encode_change(const struct snapshot *before, const uint8_t *list, size_t size,
	const struct snapshot *snapshot, uint8_t **ret_data, size_t *ret_size);
