/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes through tables of conditions, and finds the words for an entry that matches nothing. The
 * example of a condition is the first candidate that it refused, or the first one that nearly met
 * it, because that is most likely the one that was meant.
 */
#include "drivers/model/condition.h"

#include <fnmatch.h>
#include <inttypes.h>

/* Shorter texts are part of too many others. */
#define NEAR_MIN 3
/* Maximum number of candidates for which near() is called: it may read files. */
#define NEAR_TRIES 256

bool patterns_nearly_match(const struct strings *patterns, const char *text)
{
	for (size_t i = 0; i < patterns->count; i++) {
		const char *pattern = patterns->items[i];

		if (fnmatch(pattern, text, FNM_CASEFOLD) == 0 ||
			(strlen(pattern) >= NEAR_MIN && strcasestr(text, pattern)))
			return true;
	}
	return false;
}

int64_t digits_as_hexadecimal(int64_t number)
{
	int64_t value = 0;

	for (unsigned shift = 0; number > 0 && shift < 60; number /= 10, shift += 4)
		value |= number % 10 << shift;
	return value;
}

static const void *wanted_of(const struct condition *condition, const void *entry)
{
	return (const char *)entry + condition->wanted;
}

static int64_t number_of(const struct condition *condition, const void *candidate)
{
	int64_t number;

	memcpy(&number, (const char *)candidate + condition->value, sizeof(number));
	return number;
}

/* NULL: the candidate has none. */
static const char *text_of(const struct condition *condition, const void *candidate)
{
	const char *text = (const char *)candidate + condition->value;

	if (condition->kind == CONDITION_STRING)
		memcpy(&text, (const char *)candidate + condition->value, sizeof(text));
	else if (!*text)
		return NULL;
	return text;
}

/* --- one condition --- */

static bool is_asked(const struct condition *condition, const void *entry)
{
	const struct strings *texts = wanted_of(condition, entry);
	const struct integers *integers = wanted_of(condition, entry);

	switch (condition->kind) {
	case CONDITION_INTEGERS:
		return integers->count > 0;
	case CONDITION_TEXT:
	case CONDITION_STRING:
		return texts->count > 0;
	default:
		return true;
	}
}

static int condition_holds(const struct condition *condition, const void *entry, void *candidate)
{
	const char *text;

	switch (condition->kind) {
	case CONDITION_INTEGERS:
		return integers_admit(wanted_of(condition, entry), number_of(condition, candidate));
	case CONDITION_TEXT:
	case CONDITION_STRING:
		text = text_of(condition, candidate);
		return text && patterns_match(wanted_of(condition, entry), text);
	default:
		return condition->test ? condition->test(entry, candidate) : 1;
	}
}

static bool integers_nearly_admit(const struct integers *integers, int64_t value)
{
	for (size_t i = 0; i < integers->count; i++)
		if (value > 0 && digits_as_hexadecimal(integers->items[i]) == value)
			return true;
	return false;
}

static bool is_near(const struct condition *condition, const void *entry, const void *candidate)
{
	const char *text;

	switch (condition->kind) {
	case CONDITION_INTEGERS:
		return integers_nearly_admit(
			wanted_of(condition, entry), number_of(condition, candidate));
	case CONDITION_TEXT:
	case CONDITION_STRING:
		text = text_of(condition, candidate);
		return text && patterns_nearly_match(wanted_of(condition, entry), text);
	default:
		return condition->near && condition->near(entry, candidate);
	}
}

static void describe_found(const struct condition *condition, const void *entry,
	const void *candidate, bool near, char ret_found[static CONDITION_FOUND_MAX])
{
	char value[CONDITION_FOUND_MAX - 32] = "";

	if (condition->found) {
		condition->found(entry, candidate, ret_found);
		return;
	}
	if (condition->kind == CONDITION_INTEGERS && number_of(condition, candidate) >= 0)
		(void)snprintf(value, sizeof(value), "0x%04" PRIx64,
			(uint64_t)number_of(condition, candidate));
	else if (condition->kind == CONDITION_TEXT || condition->kind == CONDITION_STRING)
		(void)snprintf(
			value, sizeof(value), "\"%.120s\"", text_of(condition, candidate) ?: "");
	if (condition->phrase)
		(void)snprintf(ret_found, CONDITION_FOUND_MAX, "%s", condition->phrase);
	else if (near && condition->kind == CONDITION_INTEGERS)
		(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has %s: write 0x", value);
	else if (*value && !streq(value, "\"\""))
		(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has %s%s", value,
			near ? ": write that" : "");
	else
		(void)strcpy(ret_found, "has none");
}

static void refuse(struct refusal *refusal, const struct condition *condition, const void *entry,
	const void *candidate, const char *name)
{
	char found[CONDITION_FOUND_MAX];
	bool near;

	refusal->count++;
	if (refusal->near)
		return;
	near = (!condition->near || refusal->count <= NEAR_TRIES) &&
		is_near(condition, entry, candidate);
	if (refusal->count > 1 && !near)
		return;
	refusal->near = near;
	describe_found(condition, entry, candidate, near, found);
	(void)snprintf(refusal->example, sizeof(refusal->example), "%.60s %s", name, found);
}

/* --- all of them --- */

/* One run through a table. */
struct run {
	const struct conditions *conditions;
	const void *entry;
	void *candidate;
	bool excludes;     /* for an entry of `exclude` */
	size_t refused_by; /* the condition that failed or, if none did, the first unknown one */
};

/* Returns an enum condition_answer, or negative errno. -ENODEV: the candidate cannot be tested. */
static int test_all(struct run *run)
{
	int answer = CONDITION_HOLDS;

	for (size_t i = 0; i < run->conditions->count; i++) {
		const struct condition *condition = &run->conditions->items[i];
		int r = 1;

		if (!is_asked(condition, run->entry) ||
			(run->excludes && condition->is_default &&
				condition->is_default(run->entry)))
			continue;
		if (condition->read)
			r = condition->read(condition, run->candidate);
		if (r <= 0)
			return r < 0 ? r : -ENODEV;
		r = condition_holds(condition, run->entry, run->candidate);
		if (r < 0)
			return r;
		if (r == CONDITION_FAILS || (r == CONDITION_UNKNOWN && answer == CONDITION_HOLDS))
			run->refused_by = i;
		if (r == CONDITION_FAILS)
			return r;
		if (r == CONDITION_UNKNOWN)
			answer = r;
	}
	return answer;
}

/* The condition that refuses a listed device last is most likely the one that has changed. */
static void leave_out(const struct tally *tally, const struct run *run, const char *name)
{
	const struct condition *condition = &run->conditions->items[run->refused_by];
	unsigned rank = (unsigned)run->refused_by + 1;
	char found[CONDITION_FOUND_MAX];

	if (!left_out_wants(tally->left_out, name, rank))
		return;
	describe_found(condition, run->entry, run->candidate, false, found);
	left_out_add(tally->left_out, name, rank, "\"%s\" of match[%zu] refuses it, because it %s",
		condition->key, tally->entry, found);
}

static void count(const struct run *run, bool matched, const char *name, struct tally *tally)
{
	if (!tally)
		return;
	tally->candidates++;
	if (matched)
		tally->matched++;
	else
		refuse(&tally->refusals[run->refused_by], &run->conditions->items[run->refused_by],
			run->entry, run->candidate, name);
	if (!matched)
		leave_out(tally, run, name);
}

int conditions_hold(const struct conditions *conditions, const void *entry, void *candidate,
	const char *name, struct tally *tally)
{
	struct run run = { .conditions = conditions, .entry = entry, .candidate = candidate };
	int r = test_all(&run);

	if (r < 0)
		return r == -ENODEV ? 0 : r;
	count(&run, r == CONDITION_HOLDS, name, tally);
	return r == CONDITION_HOLDS;
}

int conditions_exclude(const struct conditions *conditions, const void *entry, void *candidate,
	const char *name, struct tally *tally)
{
	struct run run = {
		.conditions = conditions, .entry = entry, .candidate = candidate, .excludes = true
	};
	int r = test_all(&run);

	/* What is disappearing is left out as well. */
	if (r < 0)
		return r == -ENODEV ? 1 : r;
	count(&run, r != CONDITION_FAILS, name, tally);
	return r != CONDITION_FAILS;
}

int conditions_answer(const struct conditions *conditions, const void *entry, void *candidate)
{
	struct run run = { .conditions = conditions, .entry = entry, .candidate = candidate };
	int r = test_all(&run);

	return r == -ENODEV ? CONDITION_FAILS : r;
}

void tally_describe(const struct tally *tally, char *ret_text, size_t size)
{
	const struct conditions *conditions = tally->conditions;
	const char *separator = "";
	size_t length = 0;

	*ret_text = '\0';
	for (size_t i = 0; i < conditions->count && length < size; i++) {
		const struct refusal *refusal = &tally->refusals[i];

		if (refusal->count == 0)
			continue;
		length += (size_t)snprintf(ret_text + length, size - length, "%s%s refused %u (%s)",
			separator, conditions->items[i].key, refusal->count, refusal->example);
		separator = ", ";
	}
}
