/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Running a configured program from the main loop: health probes and prestart. Never through a
 * shell, never blocking, always with an end: a program that outlives its time is killed with
 * everything it started.
 */

#include <systemd/sd-event.h>

#include "common/error.h"

struct command;

/* `status` is 0 if the program exited 0, else negative; the error then says how it ended, with the
 * last line it wrote. */
typedef void (*command_handler)(int status, const struct error *error, void *userdata);

/* Starts `argv` (absolute path first, NULL-terminated) with a minimal environment and stdin from
 * /dev/null. `on_end` is called once, from the loop, unless the command is freed before. */
int command_start(sd_event *event, char *const *argv, uint64_t timeout, command_handler on_end,
	void *userdata, struct command **ret, struct error *error);

/* Kills the program if it runs. Returns NULL. */
struct command *command_free(struct command *command);
DEFINE_CLEANUP(struct command *, command_free)
