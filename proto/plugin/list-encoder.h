/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Encodes an offer as a ListAndWatchResponse. The code is written by hand because only this
 * message grows with the number of devices: one pass, no object per device.
 */

#include "proto/plugin/offer.h"

/* Encodes every offered id. Returns 0, -E2BIG above the 4 MiB that a kubelet
 * accepts, or -ENOMEM. The bytes are malloc'ed. */
int list_encode(const struct offer *offer, uint8_t **ret_data, size_t *ret_size);
