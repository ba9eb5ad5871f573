/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Saying what changed between two snapshots: the record by which an administrator later learns when
 * a device failed, why, and when it came back.
 */

#include "drivers/inventory.h"

/* Logs each device that came, went, failed or recovered; many at once are summed up. `before` may
 * be NULL: then only what is unhealthy is said. */
void changes_log(const struct snapshot *before, const struct snapshot *after);
