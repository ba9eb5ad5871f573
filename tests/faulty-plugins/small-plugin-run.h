/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/error.h"
#include "planted-faults.h"

/* `delay` in microseconds is what one of the faults puts before Allocate. Serves until SIGTERM.
 * Returns the exit status or negative errno. The process is to end with _exit() afterwards: nothing
 * is torn down. */
int plugin_run(enum fault fault, const char *dir, const char *resource, uint64_t delay,
	struct error *error);
