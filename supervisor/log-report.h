/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The problems of a configuration file that is not taken, in the log of a daemon that runs.
 */

#include "drivers/option.h"

/* Logs each; `file` is where those stand that have no file of their own. */
void log_report(const struct report *report, const char *file);
