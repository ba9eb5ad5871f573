/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Draws the screen of "devplugctl top". Only this file and its caller use ncurses.
 */

#include "supervisor/ctl/daemon-state.h"
#include "supervisor/ctl/top-rows.h"

struct top_view {
	const struct daemon_state *daemon; /* NULL: nothing was read yet */
	const char *failure;               /* reason why the state could not be read again; "" if it
					    * was */
	const struct top_choice *choice;
	const struct top_row *rows;
	size_t n_rows;
	size_t selected; /* row */
};

/* Takes control of the terminal. Returns 0, or -EINVAL if its type ($TERM) is not known. */
int top_screen_open(void);

/* Gives the terminal back. */
void top_screen_close(void);

/* Draws everything, so that the selected row is visible. */
void top_screen_draw(const struct top_view *view);

/* How many rows fit, at least 1. */
size_t top_screen_rows(void);
