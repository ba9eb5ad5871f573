/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints columns as wide as their contents. Numbers and words are both left-aligned: the tables are
 * short, and such lines are easy to cut with awk.
 */
#include "supervisor/ctl/table.h"

#include "supervisor/ctl/wrap.h"

#define GAP 2
/* Columns in which the last cell of a row is wrapped; with fewer, it is below the others. */
#define LAST_MIN 20
#define INDENT   4

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
	if (vformat_text(&cell.text, format, ap) < 0)
		table->error = -ENOMEM;
	va_end(ap);
	if (table->error >= 0)
		table->cells[table->count++] = cell;
}

bool terminal_wants_colours(void)
{
	const char *no = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && (!no || *no == '\0');
}

/* `spaces`: how many precede the cell. Returns how many follow: a line does not end in spaces, so
 * an empty cell leaves them to the next one. */
static int print_cell(const struct cell *cell, int spaces, int width, bool colours)
{
	bool coloured = colours && cell->colour != COLOUR_NONE;

	if (*cell->text == '\0')
		return spaces + width + GAP;
	(void)printf("%*s%s%s%s", spaces, "", coloured ? colour_codes[cell->colour] : "",
		cell->text, coloured ? colour_end : "");
	return width - text_width(cell->text) + GAP;
}

/* `before`: columns in front of it; `width`: of the terminal, 0: none. If the
 * cell does not fit beside the others, it is printed below them. */
static void print_last_cell(
	const struct cell *cell, int spaces, int before, int width, bool colours)
{
	bool coloured = colours && cell->colour != COLOUR_NONE;
	bool wrapped = width > 0 && before + text_width(cell->text) > width;
	const char *line = cell->text, *next = NULL;
	int indent = width - before < LAST_MIN ? INDENT : before, here = spaces;

	if (*line == '\0') {
		(void)putchar('\n');
		return;
	}
	if (wrapped && indent == INDENT) {
		(void)putchar('\n');
		here = indent;
	}
	for (; line; line = next, here = indent) {
		size_t length = wrapped ? wrap_line(line, width - indent, &next) : strlen(line);

		(void)printf("%*s%s%.*s%s\n", here, "", coloured ? colour_codes[cell->colour] : "",
			(int)length, line, coloured ? colour_end : "");
	}
}

int table_print(const struct table *table)
{
	bool colours = terminal_wants_colours();
	int widths[TABLE_COLUMNS_MAX] = { 0 }, before = 0, terminal = terminal_width();
	int spaces = 0;

	for (size_t i = 0; i < table->count; i++) {
		int *width = &widths[i % table->n_columns];

		*width = MAX_OF(*width, text_width(table->cells[i].text));
	}
	for (size_t i = 0; i + 1 < table->n_columns; i++)
		before += widths[i] + GAP;
	for (size_t i = 0; i < table->count; i++) {
		size_t column = i % table->n_columns;

		if (column + 1 < table->n_columns) {
			spaces = print_cell(&table->cells[i], spaces, widths[column], colours);
			continue;
		}
		print_last_cell(&table->cells[i], spaces, before, terminal, colours);
		spaces = 0;
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
