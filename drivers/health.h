/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The probes of a resource and what they say about each unit. A unit is healthy if every probe says
 * so; one that no probe has spoken about yet is not.
 */

#include <systemd/sd-event.h>

#include "drivers/driver.h"
#include "drivers/memory.h"
#include "drivers/watch.h"

struct health;
struct health_unit;

/* Told when what the probes say about a unit has changed, or how many results in a row speak
 * against it; `userdata` is the unit's. May not free units. */
typedef void (*health_handler)(void *userdata);

/* `declaration`, `root` and `watcher` must outlive it. */
int health_new(sd_event *event, const struct declaration *declaration, const char *root,
	struct watcher *watcher, health_handler handler, struct health **ret);

/* All units must have been freed. */
struct health *health_free(struct health *health);
DEFINE_CLEANUP(struct health *, health_free)

/* Begins to probe a device. What can be told at once (files) is told when it returns; the handler
 * is called for later changes only. `memory` (or NULL) is what was found about the device before:
 * probes that look at the same thing begin with it. */
int health_unit_new(struct health *health, struct device *device, size_t index,
	const struct memory_unit *memory, void *userdata, struct health_unit **ret);

/* Adds what is known to a memory of the device. Returns 0 or -ENOMEM. */
int health_unit_remember(const struct health_unit *unit, struct memory_unit *memory);

struct health_unit *health_unit_free(struct health_unit *unit);
DEFINE_CLEANUP(struct health_unit *, health_unit_free)

/* The device or its place in the list has changed. NULL: it is gone, nothing is probed, and what
 * was found is kept. The handler is not called from here. */
int health_unit_update(struct health_unit *unit, struct device *device, size_t index);

/* What the probes say together; `ret_reason` (kept by the unit until the next change) is why not.
 */
bool health_unit_verdict(const struct health_unit *unit, const char **ret_reason);
