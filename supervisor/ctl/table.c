/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and words are both left-aligned: the tables are short, and such lines are easy to cut
 * with awk.
 */
#include "ctl/table.h"

#define GAP 2

struct cell {
	char *text;
	enum colour colour;
};

struct table {
	struct cell *cells;
	size_t count, n_columns;
	int error;
};

static const char *const colour_codes[] = {
	[COLOUR_GOOD] = "\033[32m",
	[COLOUR_BAD] = "\033[31m",
	[COLOUR_BETWEEN] = "\033[33m",
};
static const char colour_end[] = "\033[0m";

int table_new(size_t n_columns, struct table **ret)
{
	struct table *table = calloc(1, sizeof(*table));

	assert(n_columns > 0 && n_columns <= TABLE_COLUMNS_MAX);
	if (!table)
		return -ENOMEM;
	table->n_columns = n_columns;
	*ret = table;
	return 0;
}

void table_add(struct table *table, enum colour colour, const char *format, ...)
{
	struct cell cell = { .colour = colour };
	va_list ap;

	if (table->error < 0)
		return;
	table->error = array_reserve((void **)&table->cells, table->count, sizeof(cell));
	if (table->error < 0)
		return;
	va_start(ap, format);
	if (vasprintf(&cell.text, format, ap) < 0)
		table->error = -ENOMEM;
	va_end(ap);
	if (table->error >= 0)
		table->cells[table->count++] = cell;
}

/* Characters rather than bytes; a name in another script still lines up nearly. */
static int text_width(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

static void print_cell(const struct cell *cell, int width, bool last, bool colours)
{
	bool coloured = colours && cell->colour != COLOUR_NONE;

	(void)printf("%s%s%s", coloured ? colour_codes[cell->colour] : "", cell->text,
		coloured ? colour_end : "");
	if (last)
		(void)putchar('\n');
	else
		(void)printf("%*s", width - text_width(cell->text) + GAP, "");
}

int table_print(const struct table *table)
{
	bool colours = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	int widths[TABLE_COLUMNS_MAX] = { 0 };

	for (size_t i = 0; i < table->count; i++) {
		int *width = &widths[i % table->n_columns];

		*width = MAX_OF(*width, text_width(table->cells[i].text));
	}
	for (size_t i = 0; i < table->count; i++) {
		size_t column = i % table->n_columns;

		print_cell(
			&table->cells[i], widths[column], column + 1 == table->n_columns, colours);
	}
	return table->error;
}

struct table *table_free(struct table *table)
{
	if (!table)
		return NULL;
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i].text);
	free(table->cells);
	free(table);
	return NULL;
}
