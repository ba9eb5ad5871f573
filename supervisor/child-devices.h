/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a child says of its devices, in the state files. Great inventories are written less often
 * than small ones.
 */

#include "child.h"

struct state;

/* Writes the newest inventory to its state file, if there is one. Returns when to come again for
 * one that is held back (CLOCK_MONOTONIC), USEC_INFINITY if there is none. */
uint64_t child_devices_write(struct child *child, struct state *state);

/* Takes the inventory of a process that has ended out of the state files. */
void child_devices_forget(struct child *child);
