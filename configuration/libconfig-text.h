/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes structures back as libconfig text, by the option tables. Reading the text gives the same
 * structure.
 */

#include "drivers/model/option.h"

enum text_extent {
	TEXT_CANONICAL, /* only values that differ from the defaults, so that equal structures give
			 * equal text */
	TEXT_FULL,      /* all values */
};

/* Writes the keys of a structure, each in a line of its own, behind `depth` tabs. Errors are left
 * to ferror(). */
void text_write(FILE *stream, const struct option_table *table, const void *structure,
	enum text_extent extent, unsigned depth);
