/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Timers that begin a request when something has changed.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

bool timing_is_planned(sd_event_source *timer);

/* Plans the timer for that time (CLOCK_MONOTONIC), instead of any other. */
void timing_plan(sd_event_source *timer, uint64_t at);

/* The same, unless it is planned for an earlier time: changes that follow one another never delay a
 * request. */
void timing_plan_by(sd_event_source *timer, uint64_t at);
