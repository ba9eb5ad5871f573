/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a configuration as libconfig text, which is sent to children and stored. Order, spelling
 * and white space depend only on the tables and the values, because configurations are compared by
 * this text.
 */
#include "configuration/libconfig-text.h"

#include <inttypes.h>
#include <limits.h>

static void write_string(FILE *stream, const char *text)
{
	(void)fputc('"', stream);
	for (const char *p = text; *p; p++)
		if (*p == '"' || *p == '\\')
			(void)fprintf(stream, "\\%c", *p);
		else if ((unsigned char)*p < 0x20 || *p == 0x7f)
			(void)fprintf(stream, "\\x%02x", (unsigned)*p);
		else
			(void)fputc(*p, stream);
	(void)fputc('"', stream);
}

static void write_integer(FILE *stream, int64_t value)
{
	(void)fprintf(
		stream, "%" PRId64 "%s", value, value > INT_MAX || value < INT_MIN ? "L" : "");
}

/* Writes whole seconds, or as many decimals as needed. */
static void write_seconds(FILE *stream, uint64_t value)
{
	unsigned fraction = (unsigned)(value % USEC_PER_SEC);
	int digits = 6;

	(void)fprintf(stream, "%llu", value / USEC_PER_SEC);
	if (fraction == 0)
		return;
	for (; fraction % 10 == 0; digits--)
		fraction /= 10;
	(void)fprintf(stream, ".%0*u", digits, fraction);
}

static void indent(FILE *stream, unsigned depth)
{
	for (; depth > 0; depth--)
		(void)fputc('\t', stream);
}

static void write_strings(FILE *stream, const struct strings *strings)
{
	(void)fputs("( ", stream);
	for (size_t i = 0; i < strings->count; i++) {
		(void)fputs(i > 0 ? ", " : "", stream);
		write_string(stream, strings->items[i]);
	}
	(void)fputs(" )", stream);
}

static void write_integers(FILE *stream, const struct integers *integers)
{
	(void)fputs("( ", stream);
	for (size_t i = 0; i < integers->count; i++) {
		(void)fputs(i > 0 ? ", " : "", stream);
		write_integer(stream, integers->items[i]);
	}
	(void)fputs(" )", stream);
}

static void write_groups(
	FILE *stream, const struct groups *groups, enum text_extent extent, unsigned depth)
{
	(void)fputs("(", stream);
	for (size_t i = 0; i < groups->count; i++) {
		(void)fputs(i > 0 ? ", {\n" : " {\n", stream);
		text_write(stream, groups->table, groups_get(groups, i), extent, depth + 1);
		indent(stream, depth);
		(void)fputs("}", stream);
	}
	(void)fputs(" )", stream);
}

static bool is_off(const struct option_table *table, const void *structure)
{
	return table->off > 0 && *(const bool *)((const char *)structure + table->off);
}

static bool table_has_value(
	const struct option_table *table, const void *structure, enum text_extent extent);

/* Whether there is something to write. */
static bool has_value(const struct option *option, const void *member, enum text_extent extent)
{
	bool full = extent == TEXT_FULL || option->required;
	const char *string;
	int64_t integer;

	switch (option->type) {
	case OPTION_BOOL:
		return full || *(const bool *)member != (option->default_integer != 0);
	case OPTION_INTEGER:
		integer = *(const int64_t *)member;
		if (integer != option->default_integer)
			return true;
		return full && integer >= option->minimum && integer <= option->maximum;
	case OPTION_SECONDS:
		return full ||
			*(const uint64_t *)member !=
			(uint64_t)option->default_integer * USEC_PER_MSEC;
	case OPTION_CHOICE:
		return full || *(const int *)member != option->default_integer;
	case OPTION_STRING:
		string = *(char *const *)member;
		return string &&
			(full || !option->default_string || !streq(string, option->default_string));
	case OPTION_STRINGS:
		return ((const struct strings *)member)->count > 0;
	case OPTION_INTEGERS:
		return ((const struct integers *)member)->count > 0;
	case OPTION_GROUP:
		/* A resource with a group that is off is as one without the group. */
		return is_off(option->table, member)
			? extent == TEXT_FULL
			: table_has_value(option->table, member, extent);
	case OPTION_GROUPS:
	case OPTION_DRIVER:
		return ((const struct groups *)member)->count > 0;
	}
	return false;
}

/* A group that lacks a required key was not declared. */
static bool table_has_value(
	const struct option_table *table, const void *structure, enum text_extent extent)
{
	bool some = false;

	for (size_t i = 0; i < table->count; i++) {
		const struct option *option = &table->options[i];

		if (!option_applies(table, option, structure))
			continue;
		if (has_value(option, (const char *)structure + option->offset, extent))
			some = true;
		else if (option->required)
			return false;
	}
	return some;
}

static void write_value(FILE *stream, const struct option *option, const void *member,
	enum text_extent extent, unsigned depth)
{
	const char *word;

	switch (option->type) {
	case OPTION_BOOL:
		(void)fputs(*(const bool *)member ? "true" : "false", stream);
		return;
	case OPTION_INTEGER:
		write_integer(stream, *(const int64_t *)member);
		return;
	case OPTION_SECONDS:
		write_seconds(stream, *(const uint64_t *)member);
		return;
	case OPTION_CHOICE:
		word = option->choices[*(const int *)member];
		if (option_word_is_bool(word))
			(void)fputs(word, stream);
		else
			write_string(stream, word);
		return;
	case OPTION_STRING:
		write_string(stream, *(char *const *)member);
		return;
	case OPTION_STRINGS:
		write_strings(stream, member);
		return;
	case OPTION_INTEGERS:
		write_integers(stream, member);
		return;
	case OPTION_GROUP:
		if (is_off(option->table, member)) {
			(void)fputs("false", stream);
			return;
		}
		(void)fputs("{\n", stream);
		text_write(stream, option->table, member, extent, depth + 1);
		indent(stream, depth);
		(void)fputs("}", stream);
		return;
	case OPTION_GROUPS:
	case OPTION_DRIVER:
		write_groups(stream, member, extent, depth);
		return;
	}
}

void text_write(FILE *stream, const struct option_table *table, const void *structure,
	enum text_extent extent, unsigned depth)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct option *option = &table->options[i];
		const void *member = (const char *)structure + option->offset;

		if (!option_applies(table, option, structure) || !has_value(option, member, extent))
			continue;
		indent(stream, depth);
		(void)fprintf(stream, "%s = ", option->key);
		write_value(stream, option, member, extent, depth);
		(void)fputs(";\n", stream);
	}
}
