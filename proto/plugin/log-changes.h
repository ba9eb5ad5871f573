/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Logs what changed between two snapshots: from these records an administrator learns later when a
 * device failed, why, and when it recovered.
 */

#include "drivers/inventory/inventory.h"

/* Logs each device that was added, was removed, failed or recovered; many at once are summed up.
 * `before` may be NULL: then only unhealthy ones are logged. */
void changes_log(const struct snapshot *before, const struct snapshot *after);
