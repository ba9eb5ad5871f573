/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The conditions of an entry of `match`, as a table of keys and tests. A driver tests them on one
 * candidate after the other, the pieces of hardware that it finds on the host: in the order of the
 * table, until one condition refuses the candidate. A tally counts the refusals of each condition,
 * so that devplugd can explain an entry that finds nothing.
 */

#include "drivers/model/left-out.h"
#include "drivers/model/option.h"

enum condition_kind {
	CONDITION_TEST,     /* test() decides */
	CONDITION_INTEGERS, /* struct integers in the entry, int64_t in the candidate; below 0: the
			       candidate has none */
	CONDITION_TEXT,     /* struct strings (patterns) in the entry, char[] in the candidate;
			       empty: it has none */
	CONDITION_STRING,   /* as CONDITION_TEXT, but char * in the candidate; NULL: it has none */
};

/* What cannot be read neither meets a condition nor fails it: no entry of `match` selects such a
 * candidate, and every entry of `exclude` leaves it out. */
enum condition_answer { CONDITION_FAILS, CONDITION_HOLDS, CONDITION_UNKNOWN };

/* What a candidate has instead of the wanted value, as a phrase: "has 0x1002", "is a hub". */
#define CONDITION_FOUND_MAX 160

struct condition {
	const char *key; /* of the entry. NULL: a step that only reads, for the conditions after it
			  */
	enum condition_kind kind;
	size_t wanted, value; /* offsets in the entry and in the candidate */

	/* Reads the value of the candidate. It is called for each entry, so it returns at once if
	 * the value is known. Not called for an empty list of wanted values. Returns 1, 0 if the
	 * candidate is disappearing or cannot be read, or negative errno. NULL: it is known. */
	int (*read)(const struct condition *condition, void *candidate);

	/* With CONDITION_TEST: returns an enum condition_answer, or negative errno. */
	int (*test)(const void *entry, void *candidate);
	/* With CONDITION_TEST, for a key whose default refuses candidates: whether the entry has
	 * the default. In `exclude` it refuses none. NULL: the default refuses none. */
	bool (*is_default)(const void *entry);
	/* With CONDITION_TEST: the phrase for a candidate that was refused, or writes it. */
	const char *phrase;
	void (*found)(const void *entry, const void *candidate,
		char ret_found[static CONDITION_FOUND_MAX]);
	/* With CONDITION_TEST: whether the candidate nearly meets the condition; then found() names
	 * the remedy. Not called for all of many candidates. NULL: never. */
	bool (*near)(const void *entry, const void *candidate);
};

#define CONDITIONS_MAX 16

struct conditions {
	const char *noun; /* what a candidate is, in the singular: "GPU"; "s" makes the plural */
	const struct condition *items;
	size_t count; /* at most CONDITIONS_MAX */
	/* Whether an entry is about such candidates; NULL: every entry is. */
	bool (*is_for)(const void *entry);
	/* The parts of an entry of which each has these conditions; NULL, or none: the entry has
	 * them. */
	const struct groups *(*parts)(const void *entry);
};

/* What the conditions of one entry found. Zeroed: no candidate was tested. */
struct tally {
	const struct conditions *conditions;
	unsigned candidates, matched;
	char part[32]; /* of the entry, ".devices[1]"; empty: the whole entry */
	char hint[2 * CONDITION_FOUND_MAX]; /* why there is no candidate; empty: not known */
	size_t entry;
	struct left_out *left_out; /* gets the refusals of listed devices; NULL: nothing does */
	struct refusal {
		unsigned count; /* of candidates that this condition refused first */
		bool near;      /* the example is one that nearly meets it */
		char example[64 + CONDITION_FOUND_MAX]; /* "0000:03:00.0 has 0x1002" */
	} refusals[CONDITIONS_MAX];
};

/* Tests all conditions of an entry of `match` on a candidate of that name. The tally may be NULL.
 * Returns 1 if all hold, 0 if not or if that is unknown, or negative errno. Allocates nothing. */
int conditions_hold(const struct conditions *conditions, const void *entry, void *candidate,
	const char *name, struct tally *tally);

/* The same, for an entry of `exclude` or one of its parts. Returns 1 if all hold or if that is
 * unknown. */
int conditions_exclude(const struct conditions *conditions, const void *entry, void *candidate,
	const char *name, struct tally *tally);

/* The same, for any other use: returns an enum condition_answer, or negative errno. */
int conditions_answer(const struct conditions *conditions, const void *entry, void *candidate);

/* Writes which conditions refused candidates: "vendor refused 2 (0000:03:00.0 has 0x1002)". */
void tally_describe(const struct tally *tally, char *ret_text, size_t size);

/* Whether one of the patterns matches the text if case is ignored, or is a part of the text. */
bool patterns_nearly_match(const struct strings *patterns, const char *text);

/* The number that the digits of a decimal number mean if they are read as hexadecimal: 0x1002 for
 * 1002. */
int64_t digits_as_hexadecimal(int64_t number);

/* Rows of a table. */
#define CONDITION_OF_INTEGERS(k, entry, wants, candidate, has)                    \
	.key = (k), .kind = CONDITION_INTEGERS, .wanted = offsetof(entry, wants), \
	.value = offsetof(candidate, has)
#define CONDITION_OF_TEXT(k, entry, wants, candidate, has)                    \
	.key = (k), .kind = CONDITION_TEXT, .wanted = offsetof(entry, wants), \
	.value = offsetof(candidate, has)
#define CONDITION_OF_STRING(k, entry, wants, candidate, has)                    \
	.key = (k), .kind = CONDITION_STRING, .wanted = offsetof(entry, wants), \
	.value = offsetof(candidate, has)
#define CONDITIONS(what, table)                                              \
	{                                                                    \
		.noun = (what), .items = (table), .count = ARRAY_SIZE(table) \
	}
/* The same, for the entries for which the function returns true. */
#define CONDITIONS_FOR(what, table, function)                                                    \
	{                                                                                        \
		.noun = (what), .items = (table), .count = ARRAY_SIZE(table), .is_for = function \
	}
