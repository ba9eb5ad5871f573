/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes the files of docs/examples into the manual.
 */

#include "docs/manual/format.h"

/* For examples_write(): those of every driver. */
#define ANY_DRIVER ""

/* Shows the examples of a driver, or with NULL those that are of none, in the order of their names;
 * drop-ins behind the file they belong to. A missing directory is an empty one. Returns 0 or
 * negative errno. */
int examples_write(const struct manual_format *format, const char *directory, const char *driver);
