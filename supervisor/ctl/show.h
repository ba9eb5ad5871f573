/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The snapshot as people read it.
 */

#include "ctl/snapshot.h"

/* Each resource in a row, then what is wrong: resources that do not serve, devices that are
 * unhealthy, and why. Returns 0 or -ENOMEM. */
int show_status(const struct snapshot *snapshot);

/* The only resource of the snapshot in words: why it is as it is, and what to do. Returns 0. */
int show_explanation(const struct snapshot *snapshot);

/* Each device in a row. Returns 0 or -ENOMEM. */
int show_devices(const struct snapshot *snapshot);
