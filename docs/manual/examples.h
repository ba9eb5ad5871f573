/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of docs/examples, in the manual.
 */

#include "docs/manual/format.h"

/* For examples_write(): those of every driver. */
#define ANY_DRIVER ""

/* Shows the examples of a driver, or with NULL those that are of none, in the order of their names;
 * drop-ins behind the file they belong to. A directory that is not there has none. Returns 0 or
 * negative errno. */
int examples_write(const struct manual_format *format, const char *directory, const char *driver);
