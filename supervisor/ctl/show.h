/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The snapshot as people read it.
 */

#include "supervisor/ctl/daemon-state.h"
#include "supervisor/ctl/table.h"
#include "supervisor/ctl/verb.h"

/* Each resource in a row, then what is wrong: resources that do not serve, devices that are
 * unhealthy, and why. Returns 0 or -ENOMEM. */
int show_status(const struct snapshot *snapshot, const struct request *request);

/* The only resource of the snapshot in words: why it is as it is, and what to do. Returns 0. */
int show_explanation(const struct snapshot *snapshot, const struct request *request);

/* The status of DRA in a few lines; nothing if no resource is served by it. `gap` is printed before
 * them. */
void show_dra(const struct snapshot *snapshot, const char *gap);

/* Each device in a row. Returns 0 or -ENOMEM. */
int show_devices(const struct snapshot *snapshot, const struct request *request);

/* The colours of a state of a resource, and of a health. */
enum colour colour_of_state(const char *state);
enum colour colour_of_health(const char *health);
