/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Logs the problems of a configuration file that a running daemon refuses.
 */

#include "drivers/model/option.h"

/* Logs each; `file` is the name for problems without one. */
void log_report(const struct report *report, const char *file);
