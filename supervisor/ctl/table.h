/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prints columns that are as wide as their contents. Colours are only used on a terminal.
 */

#include "common/util.h"

#define TABLE_COLUMNS_MAX 9

enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_BAD, COLOUR_BETWEEN };

struct table;

/* The first row is the heading. */
int table_new(size_t n_columns, struct table **ret);

/* Adds the next cell, row by row; the text is copied. After a failure nothing more is added, and
 * table_print() returns it. */
_printf_(3, 4) void table_add(struct table *table, enum colour colour, const char *format, ...);

/* Whether to use colours on stdout: it is a terminal, and NO_COLOR is not set. */
bool terminal_wants_colours(void);

/* Prints it to stdout; on a terminal that is wide enough, the last column is wrapped. Returns 0, or
 * -ENOMEM if a cell could not be kept. */
int table_print(const struct table *table);

struct table *table_free(struct table *table);
DEFINE_CLEANUP(struct table *, table_free)
