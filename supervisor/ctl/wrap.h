/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Wraps lines to a terminal. Output to a file or another program stays on one line, so that it can
 * be searched.
 */

#include "common/util.h"

/* Columns that a text takes on a terminal. */
int text_width(const char *text);

/* How many bytes of a text fit into `width` columns (at least 1). */
size_t text_fit(const char *text, int width);

/* The next line of a text that is broken at spaces to `width` columns; a word that is longer is
 * broken too. Returns its length in bytes; the next line begins at `*ret_next`, NULL: this is the
 * last one. */
size_t wrap_line(const char *text, int width, const char **ret_next);

/* Columns of the terminal on stdout, or 0 if it is none. */
int terminal_width(void);

/* Prints a line to stdout; on a terminal, its continuation lines are indented by `indent`. */
_printf_(2, 3) void print_wrapped(int indent, const char *format, ...);
