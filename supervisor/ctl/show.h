/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prints the daemon's state for people.
 */

#include "supervisor/ctl/daemon-state.h"
#include "supervisor/ctl/table.h"
#include "supervisor/ctl/verb.h"

/* Prints each resource in a row, then the problems: resources that do not serve, and unhealthy
 * devices, with their reasons. Returns 0 or -ENOMEM. */
int show_status(const struct daemon_state *daemon, const struct command_line *line);

/* Explains the only resource of the daemon's state in words: the reasons for its state, and what to
 * do. Returns 0. */
int show_explanation(const struct daemon_state *daemon, const struct command_line *line);

/* Prints the status of the DRA driver with that name, NULL: of each, in a few lines, after `gap`;
 * nothing if no resource is served by DRA. */
void show_dra(const struct daemon_state *daemon, const char *name, const char *gap);

/* Prints each device in a row. Returns 0 or -ENOMEM. */
int show_devices(const struct daemon_state *daemon, const struct command_line *line);

/* The colours for the state of a resource, and for a health. */
enum colour colour_of_state(const char *state);
enum colour colour_of_health(const char *health);
