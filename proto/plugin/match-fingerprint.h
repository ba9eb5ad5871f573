/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Identifies configurations that select the same devices. */

#include "drivers/model/declaration.h"

/* A hash of the keys that select devices, and the root; 0 if memory is short. */
uint64_t match_fingerprint(const struct declaration *declaration);

/* The same with `where` and `exclude`, for lists that lack the devices that these leave out. */
uint64_t match_fingerprint_whole(const struct declaration *declaration);
