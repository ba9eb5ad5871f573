/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An AllocateResponse made of allocations.
 */

#include "common/error.h"
#include "drivers/allocation.h"

/* Packs one container response for each allocation. Returns 0, -ENOMEM, -EILSEQ for text that is
 * not UTF-8 (a kubelet refuses the whole message), or -E2BIG beyond what a kubelet accepts. */
int response_pack(const struct allocation *allocations, size_t n, uint8_t **ret_data,
	size_t *ret_size, struct error *error);
