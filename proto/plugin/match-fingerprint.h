/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Identifies configurations that select the same devices. */

#include "drivers/model/declaration.h"

/* A hash of the keys that select devices, and the root; 0 if memory is short. */
uint64_t match_fingerprint(const struct declaration *declaration);
