/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Running a configured program from the main loop: health probes, prestart and programs that tell
 * which devices there are, or what containers are given for them. Never through a shell, never
 * blocking: a program that outlives its time is killed with everything it started, and one whose
 * owner dies is killed, too.
 */

#include <systemd/sd-event.h>

#include "common/error.h"

struct command;

/* `status` is 0 if the program exited 0, else negative; the error then says how it ended, with the
 * last line it wrote. */
typedef void (*command_handler)(int status, const struct error *error, void *userdata);

/* Takes what the program wrote to its standard output, as it comes. Returns false when it has had
 * enough: the program is killed and nothing more of it is read. Must not free the command. */
typedef bool (*command_reader)(const char *data, size_t size, void *userdata);

/* Starts `argv` (absolute path first, NULL-terminated) with a minimal environment and standard
 * input from /dev/null. `on_end` is called once, from the loop, unless the command is freed before.
 */
int command_start(sd_event *event, char *const *argv, uint64_t timeout, command_handler on_end,
	void *userdata, struct command **ret, struct error *error);

/* The same, but only what the program writes to its error output is kept for the error, and its
 * standard input is `input`, which stays the caller's; -EBADF: /dev/null. */
int command_start_reading(sd_event *event, char *const *argv, int input, uint64_t timeout,
	command_reader on_data, command_handler on_end, void *userdata, struct command **ret,
	struct error *error);

/* Lets the program run for as long as it wants. */
void command_forget_timeout(struct command *command);

/* Kills the program if it runs. Returns NULL. */
struct command *command_free(struct command *command);
DEFINE_CLEANUP(struct command *, command_free)
