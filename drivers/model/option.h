/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Option tables: the one description of every configuration key. The parser fills structures from
 * them, the checks and their messages come from them, and so does the reference manual. A structure
 * described by a table begins with `struct origin`, so that every later check can report file and
 * line.
 */

#include "common/util.h"
#include "drivers/model/suggest.h"

/* The place where a structure was declared. The configuration owns `file`. */
struct origin {
	const char *file;
	unsigned line;
};

enum option_type {
	OPTION_BOOL,     /* bool */
	OPTION_INTEGER,  /* int64_t, within minimum..maximum */
	OPTION_SECONDS,  /* uint64_t microseconds, written as seconds (5 or 0.5) */
	OPTION_STRING,   /* char *, NULL if absent; never empty */
	OPTION_STRINGS,  /* struct strings: a list or array of strings; a lone string counts as one
			  */
	OPTION_INTEGERS, /* struct integers: a list or array of whole numbers, each within
			    minimum..maximum; a lone number counts as one */
	OPTION_CHOICE,   /* int: index of the word in `choices`, written as a string; the words
			    "true" and "false" without quotes */
	OPTION_GROUP,    /* an embedded structure described by `table` */
	OPTION_GROUPS,   /* struct groups: a list of structures described by `table` */
	OPTION_DRIVER,   /* struct groups: like OPTION_GROUPS, with the `match` table of the
			    resource's driver */
};

struct strings {
	char **items;
	size_t count;
};

struct integers {
	int64_t *items;
	size_t count;
	int64_t decimal; /* the first of several digits that was written in decimal; 0: none */
};

/* `items` is an array of `count` structures, each `table->size` bytes. */
struct groups {
	void *items;
	size_t count;
	const struct option_table *table;
};

struct error;
struct parser;
struct config_setting_t;

struct option {
	const char *key;
	enum option_type type;
	size_t offset;       /* of the member in the table's structure */
	bool required;       /* lists: and not empty */
	bool template;       /* strings: may contain ${variables}, which are checked. Lists of
			      * strings without variables, and of numbers, are conditions and must
			      * not be empty */
	const char *variant; /* only with this word of the table's selector, or these, separated by
				spaces; NULL: always */

	/* Inclusive bounds of integers (of a list, each of them), and of seconds in milliseconds;
	 * strings: maximum length, if not 0. */
	int64_t minimum, maximum;
	/* The default of a bool, integer, choice (an index) or seconds (in milliseconds). An
	 * integer's default outside the bounds stands for "not given". */
	int64_t default_integer;
	const char *default_string;
	const char *const *choices; /* NULL-terminated */
	const struct option_table *table;
	/* For OPTION_GROUPS whose elements need more than the keys of a table: reads one
	 * element. */
	void (*parse)(struct parser *parser, struct config_setting_t *setting, void *element);

	/* Checks the form of a string, or of each string of a list; the length is checked
	 * separately. Returns 0, or -EINVAL with a sentence that follows the key: "must be ...".
	 * NULL: any text. */
	int (*check)(const char *value, struct error *error);
	bool hexadecimal; /* numbers: known in hexadecimal, so --check warns of decimal ones */
	const char *unit; /* for the manual: "seconds", "devices" */
	const char *help; /* for the manual: one sentence */
};

struct option_table {
	const char *name; /* what an entry is called in messages and the manual: "match entry" */
	const char *shorthand; /* a plain string in place of a group sets this key, of a string or a
				  list of them; NULL: not allowed */
	const char *selector; /* key of the OPTION_CHOICE that decides which variant's keys an entry
				 has, first in the table; NULL: no variants */
	size_t off;  /* of a bool in the structure: "KEY = false" instead of a group sets it; 0: a
			group cannot be switched off */
	size_t size; /* of the structure */
	const struct option *options;
	size_t count;
};

/* Appends a copy of `length` bytes of text. Returns 0 or -ENOMEM. */
int strings_add(struct strings *strings, const char *text, size_t length);
/* Appends a copy of a text, unless it is there. Returns 0 or -ENOMEM. */
int strings_add_once(struct strings *strings, const char *text);
/* Appends copies of the texts of another list. Returns 0 or -ENOMEM. */
int strings_add_all(struct strings *strings, const struct strings *others);
/* Removes a string. Returns whether it was there. */
bool strings_remove(struct strings *strings, const char *text);
void strings_done(struct strings *strings);
#define _cleanup_strings_ _cleanup_(strings_done)
bool strings_contain(const struct strings *strings, const char *text);
void strings_sort(struct strings *strings);
/* Whether both contain the same strings in the same order. */
bool strings_equal(const struct strings *a, const struct strings *b);

/* Whether any of the shell patterns matches, or there is none. */
bool patterns_match(const struct strings *patterns, const char *text);

/* Appends a number. Returns 0 or -ENOMEM. */
int integers_add(struct integers *integers, int64_t value);
void integers_done(struct integers *integers);

/* Whether the number is in the list; an empty list has every number. */
bool integers_admit(const struct integers *integers, int64_t value);

/* Element `index` of a group list. */
static inline void *groups_get(const struct groups *groups, size_t index)
{
	assert(index < groups->count);
	return (char *)groups->items + index * groups->table->size;
}

/* Appends an element with default values. Returns 0 or -ENOMEM. */
int groups_add(struct groups *groups, void **ret_element);
void groups_done(struct groups *groups);

/* Sets every option of the structure to its default; strings with a default are allocated.
 * Returns 0 or -ENOMEM. */
int option_table_init(const struct option_table *table, void *structure);

/* Frees the values of the structure's options, not the structure itself. Accepts a half-filled
 * structure. */
void option_table_done(const struct option_table *table, void *structure);

/* Whether a word of `choices` is written without quotes. */
bool option_word_is_bool(const char *word);

/* The option of that key, or NULL. */
const struct option *option_table_find(const struct option_table *table, const char *key);

/* Whether the option applies with the structure's selector. */
bool option_applies(
	const struct option_table *table, const struct option *option, const void *structure);

/* The words of the option's variant as a person would write them: "file" or "sysfs", in quotes. */
#define OPTION_VARIANTS_MAX 160
void option_variants(const struct option *option, char ret_text[static OPTION_VARIANTS_MAX]);

/* The key in the table that a mistyped `key` most likely meant, or NULL if none is similar. */
const char *option_table_suggest(const struct option_table *table, const char *key);

/* Problems found by a check, each with its place. Collected, so that one run shows all of them. */
struct report_entry {
	struct origin origin; /* the file's name is the entry's own copy; line 0: the whole file */
	char *text;
};

struct report {
	struct report_entry *entries;
	size_t count;
	const char *context; /* prefix for added entries, while set; owned by the caller */
	size_t entry;    /* while an entry of `match` is checked: its number, from 1; else 0. Keys
			    are then those of the entry, and "match" stands for the whole entry */
	bool incomplete; /* memory ran out: something is missing */
};

/* Adds "context: key: text" at a place; `origin` and `key` may be NULL. Returns -EINVAL, or -ENOMEM
 * if it could not be kept. */
_printf_(4, 5) int report_add(struct report *report, const struct origin *origin, const char *key,
	const char *format, ...);
void report_done(struct report *report);
#define _cleanup_report_ _cleanup_(report_done)
