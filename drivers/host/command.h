/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a configured program from the main loop: health probes, prestart and programs that list
 * devices or add to what a container gets. No function uses a shell or blocks. A program that
 * exceeds its time limit, or whose owner ends, is killed with everything that it started.
 */

#include <systemd/sd-event.h>

#include "common/error.h"
#include "drivers/model/option.h"

struct command;

/* `status` is 0 if the program exited 0, else negative; the error then describes how it ended, with
 * the last line it wrote. -EIO: the program itself reported a failure. Otherwise it could not run,
 * was killed, or exceeded its time; shells exit 126 or 127 if they cannot run a program. */
typedef void (*command_handler)(int status, const struct error *error, void *userdata);

/* Takes the program's standard output as it arrives. Returns false to stop: the program is killed
 * and no more of its output is read. Must not free the command. */
typedef bool (*command_reader)(const char *data, size_t size, void *userdata);

/* Adds what a program is about, such as "prestart of gpu-1". Returns 0 or -ENOMEM. */
_printf_(2, 3) int command_subject(struct strings *subjects, const char *format, ...);

/* Starts `argv` (absolute path first, NULL-terminated) with a minimal environment and standard
 * input from /dev/null. `on_end` is called once, from the loop, unless the command is freed before.
 * `subjects` are copied. -EBUSY: a killed program with one of them still hangs in the kernel, so
 * this one is not started. */
int command_start(sd_event *event, char *const *argv, const struct strings *subjects,
	uint64_t timeout, command_handler on_end, void *userdata, struct command **ret,
	struct error *error);

/* As command_start(), but only the error output is kept for the error. Standard input is `input`,
 * which the caller keeps, or /dev/null if that is -EBADF. */
int command_start_reading(sd_event *event, char *const *argv, const struct strings *subjects,
	int input, uint64_t timeout, command_reader on_data, command_handler on_end, void *userdata,
	struct command **ret, struct error *error);

/* Removes the program's time limit. */
void command_forget_timeout(struct command *command);

/* Sets the program's time limit, from now on. */
void command_set_timeout(struct command *command, uint64_t timeout);

/* Kills the program if it runs. Returns NULL. */
struct command *command_free(struct command *command);
DEFINE_CLEANUP(struct command *, command_free)

/* Kills processes that programs left behind; call it from time to time, because a killed process
 * may have had children. Returns whether any were killed since the last call, also by the end of a
 * program. Does nothing where the kernel does not list the children of a process
 * (CONFIG_PROC_CHILDREN). */
bool command_end_orphans(void);
