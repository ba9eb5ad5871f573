/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts a program in a session of its own, which ends with this process.
 */

#include <sys/types.h>

#include "common/util.h"

/* Starts `argv` (absolute path first) in a session and process group of its own, with the three
 * descriptors as standard input (-EBADF: /dev/null), output and error output, nothing else open, a
 * minimal environment and no signal blocked or ignored. It is killed when the calling thread ends.
 * Returns 0 or negative errno. */
int command_spawn(char *const *argv, int input, int output, int error_output, pid_t *ret_pid);
