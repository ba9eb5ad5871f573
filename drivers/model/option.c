/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills, checks and frees any structure that an option table describes, so that no key needs code
 * of its own. Members are reached by offset alone, so the type in the table must be the member's;
 * the tables are the only place where the two meet.
 */
#include "drivers/model/option.h"

#include <fnmatch.h>

static void *member_of(const struct option *option, void *structure)
{
	return (char *)structure + option->offset;
}

int strings_add(struct strings *strings, const char *text, size_t length)
{
	_cleanup_free_ char *copy = strndup(text, length);
	int r;

	if (!copy)
		return -ENOMEM;
	r = array_reserve((void **)&strings->items, strings->count, sizeof(char *));
	if (r < 0)
		return r;
	strings->items[strings->count++] = TAKE_PTR(copy);
	return 0;
}

bool strings_remove(struct strings *strings, const char *text)
{
	for (size_t i = 0; i < strings->count; i++) {
		if (!streq(strings->items[i], text))
			continue;
		free(strings->items[i]);
		strings->count--;
		memmove(&strings->items[i], &strings->items[i + 1],
			(strings->count - i) * sizeof(strings->items[0]));
		return true;
	}
	return false;
}

int strings_add_once(struct strings *strings, const char *text)
{
	return strings_contain(strings, text) ? 0 : strings_add(strings, text, strlen(text));
}

int strings_add_all(struct strings *strings, const struct strings *others)
{
	int r = 0;

	for (size_t i = 0; i < others->count && r >= 0; i++)
		r = strings_add(strings, others->items[i], strlen(others->items[i]));
	return r;
}

void strings_done(struct strings *strings)
{
	for (size_t i = 0; i < strings->count; i++)
		free(strings->items[i]);
	free(strings->items);
	*strings = (struct strings){ 0 };
}

bool strings_contain(const struct strings *strings, const char *text)
{
	for (size_t i = 0; i < strings->count; i++)
		if (streq(strings->items[i], text))
			return true;
	return false;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void strings_sort(struct strings *strings)
{
	if (strings->count > 0)
		qsort(strings->items, strings->count, sizeof(*strings->items), compare_strings);
}

bool strings_equal(const struct strings *a, const struct strings *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!streq(a->items[i], b->items[i]))
			return false;
	return true;
}

bool patterns_match(const struct strings *patterns, const char *text)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (fnmatch(patterns->items[i], text, 0) == 0)
			return true;
	return patterns->count == 0;
}

int integers_add(struct integers *integers, int64_t value)
{
	int r;

	r = array_reserve((void **)&integers->items, integers->count, sizeof(*integers->items));
	if (r < 0)
		return r;
	integers->items[integers->count++] = value;
	return 0;
}

void integers_done(struct integers *integers)
{
	free(integers->items);
	*integers = (struct integers){ 0 };
}

bool integers_admit(const struct integers *integers, int64_t value)
{
	for (size_t i = 0; i < integers->count; i++)
		if (integers->items[i] == value)
			return true;
	return integers->count == 0;
}

int groups_add(struct groups *groups, void **ret_element)
{
	void *element;
	int r;

	r = array_reserve(&groups->items, groups->count, groups->table->size);
	if (r < 0)
		return r;
	element = (char *)groups->items + groups->count * groups->table->size;
	memset(element, 0, groups->table->size);
	r = option_table_init(groups->table, element);
	if (r < 0) {
		option_table_done(groups->table, element);
		return r;
	}
	groups->count++;
	*ret_element = element;
	return 0;
}

void groups_done(struct groups *groups)
{
	for (size_t i = 0; i < groups->count; i++)
		option_table_done(groups->table, groups_get(groups, i));
	free(groups->items);
	groups->items = NULL;
	groups->count = 0;
}

static int option_init(const struct option *option, void *member)
{
	switch (option->type) {
	case OPTION_BOOL:
		*(bool *)member = option->default_integer != 0;
		return 0;
	case OPTION_INTEGER:
		*(int64_t *)member = option->default_integer;
		return 0;
	case OPTION_SECONDS:
		*(uint64_t *)member = (uint64_t)option->default_integer * USEC_PER_MSEC;
		return 0;
	case OPTION_CHOICE:
		*(int *)member = (int)option->default_integer;
		return 0;
	case OPTION_STRING:
		*(char **)member = NULL;
		if (!option->default_string)
			return 0;
		*(char **)member = strdup(option->default_string);
		return *(char **)member ? 0 : -ENOMEM;
	case OPTION_STRINGS:
		*(struct strings *)member = (struct strings){ 0 };
		return 0;
	case OPTION_INTEGERS:
		*(struct integers *)member = (struct integers){ 0 };
		return 0;
	case OPTION_GROUP:
		return option_table_init(option->table, member);
	case OPTION_GROUPS:
	case OPTION_DRIVER:
		*(struct groups *)member = (struct groups){ .table = option->table };
		return 0;
	}
	return 0;
}

int option_table_init(const struct option_table *table, void *structure)
{
	int r = 0;

	/* All members are set even after a failure, so that the structure can be freed. */
	for (size_t i = 0; i < table->count; i++) {
		const struct option *option = &table->options[i];

		if (option_init(option, member_of(option, structure)) < 0)
			r = -ENOMEM;
	}
	return r;
}

void option_table_done(const struct option_table *table, void *structure)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct option *option = &table->options[i];
		void *member = member_of(option, structure);

		switch (option->type) {
		case OPTION_STRING:
			free(*(char **)member);
			*(char **)member = NULL;
			break;
		case OPTION_STRINGS:
			strings_done(member);
			break;
		case OPTION_INTEGERS:
			integers_done(member);
			break;
		case OPTION_GROUP:
			option_table_done(option->table, member);
			break;
		case OPTION_GROUPS:
		case OPTION_DRIVER:
			groups_done(member);
			break;
		case OPTION_BOOL:
		case OPTION_INTEGER:
		case OPTION_SECONDS:
		case OPTION_CHOICE:
			break;
		}
	}
}

bool option_word_is_bool(const char *word)
{
	return streq(word, "true") || streq(word, "false");
}

const struct option *option_table_find(const struct option_table *table, const char *key)
{
	for (size_t i = 0; i < table->count; i++)
		if (streq(table->options[i].key, key))
			return &table->options[i];
	return NULL;
}

static bool has_word(const char *words, const char *word)
{
	size_t length = strlen(word);

	for (const char *p = words; *p; p += strcspn(p, " "), p += strspn(p, " "))
		if (strcspn(p, " ") == length && strncmp(p, word, length) == 0)
			return true;
	return false;
}

bool option_applies(
	const struct option_table *table, const struct option *option, const void *structure)
{
	const struct option *selector;
	const void *selected;

	if (!option->variant)
		return true;
	selector = option_table_find(table, table->selector);
	selected = (const char *)structure + selector->offset;
	return has_word(option->variant, selector->choices[*(const int *)selected]);
}

void option_variants(const struct option *option, char ret_text[static OPTION_VARIANTS_MAX])
{
	const char *word = option->variant;
	size_t length = 0;

	ret_text[0] = '\0';
	while (*word && length < OPTION_VARIANTS_MAX) {
		size_t size = strcspn(word, " ");
		const char *next = word + size + strspn(word + size, " ");
		const char *between = word == option->variant ? "" : *next ? ", " : " or ";

		length += (size_t)snprintf(ret_text + length, OPTION_VARIANTS_MAX - length,
			"%s\"%.*s\"", between, (int)size, word);
		word = next;
	}
}

/* Shortest ending that is taken for an abbreviation. */
#define ENDING_MIN 5

/* The only key that ends in the word, as "device_plugin_dir" does in "plugin_dir". */
static const char *find_ending(const struct option_table *table, const char *word)
{
	size_t length = strlen(word);
	const char *found = NULL;

	for (size_t i = 0; i < table->count && length >= ENDING_MIN; i++) {
		const char *key = table->options[i].key;
		size_t size = strlen(key);

		if (size <= length || key[size - length - 1] != '_' ||
			!streq(key + size - length, word))
			continue;
		if (found)
			return NULL;
		found = key;
	}
	return found;
}

const char *option_table_suggest(const struct option_table *table, const char *key)
{
	const char *best = NULL;

	/* Two at a time, the best so far against the next, needs no array of the keys. */
	for (size_t i = 0; i < table->count; i++) {
		const char *const pair[] = { best ? best : table->options[i].key,
			table->options[i].key };
		const char *found = suggest_word(key, pair, ARRAY_SIZE(pair));

		if (found)
			best = found;
	}
	return best ?: find_ending(table, key);
}
