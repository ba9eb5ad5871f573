/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which boot of the host this is, for files that outlive one.
 */

#include "common/util.h"

/* The boot id of the kernel, or NULL if it cannot be read. */
const char *boot_id(void);
