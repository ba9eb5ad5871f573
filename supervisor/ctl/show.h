/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The snapshot as people read it.
 */

#include "ctl/snapshot.h"

/* Each resource in a row, then what is wrong: resources that do not serve, devices that are
 * unhealthy, and why. Returns 0 or -ENOMEM. */
int show_status(const struct snapshot *snapshot);

/* Each device in a row. Returns 0 or -ENOMEM. */
int show_devices(const struct snapshot *snapshot);
