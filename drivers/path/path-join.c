/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the matches of several patterns by the number in their names, for nodes that the kernel
 * numbers together: the nodes of one sound card, a camera and its media controller. Without the
 * number, the first match of each pattern would be one device, although they may be of different
 * cards.
 */
#include "drivers/host/scan.h"
#include "drivers/model/form.h"
#include "drivers/path/path.h"

static const char digits[] = "0123456789";

/* Finds the number in a match: the first digits from where the pattern's first wildcard is. */
static bool find_number(const char *pattern, const char *path, const char **ret, size_t *ret_length)
{
	size_t literal = strcspn(pattern, "*?[\\"), length;

	path += MIN_OF(literal, strlen(path));
	path += strcspn(path, digits);
	length = strspn(path, digits);
	if (length == 0)
		return false;
	while (length > 1 && *path == '0') {
		path++;
		length--;
	}
	*ret = path;
	*ret_length = length;
	return true;
}

static int read_member(const struct path_member *member, const struct strings *found,
	struct scan *scan, struct path_numbers *numbers, struct map *by_number)
{
	int r = 0;

	for (size_t i = 0; i < found->count && r >= 0; i++) {
		const char *path = found->items[i], *number;
		size_t length;

		if (!find_number(member->path, path, &number, &length)) {
			scan_note(scan, "%.200s is left out: its name has no number to join it by",
				path);
			continue;
		}
		r = strings_add(&numbers->texts, number, length);
		if (r < 0)
			return r;
		number = numbers->texts.items[numbers->texts.count - 1];
		r = map_put(by_number, number, found->items[i]);
		if (r != -EEXIST)
			continue;
		scan_note(scan,
			"%.200s is left out: %.200s has the number %.20s, too; narrow the pattern",
			path, (const char *)map_get(by_number, number), number);
		r = 0;
	}
	return r;
}

/* Whether all required members, or any if none is, have a path for the number. */
static bool is_complete(const struct path_match *match, const struct strings *found,
	const struct path_numbers *numbers, const char *number)
{
	bool any = false;

	for (size_t i = 0; i < numbers->n_members; i++) {
		const struct path_member *member = path_member_get(match, i);
		bool numbered = form_is_pattern(member->path);
		bool has = numbered ? map_get(&numbers->by_number[i], number) != NULL
				    : found[i].count > 0;

		if (!member->optional && !has)
			return false;
		any = any || (numbered && has);
	}
	return any;
}

static int compare_numbers(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;
	size_t x_length = strlen(x), y_length = strlen(y);

	if (x_length != y_length)
		return x_length < y_length ? -1 : 1;
	return strcmp(x, y);
}

int path_numbers_read(const struct path_match *match, const struct strings *found,
	struct scan *scan, struct path_numbers *numbers)
{
	_cleanup_(map_done) struct map seen = { 0 };
	size_t n = path_member_count(match);
	int r = 0;

	numbers->by_number = calloc(n, sizeof(*numbers->by_number));
	if (!numbers->by_number)
		return -ENOMEM;
	numbers->n_members = n;
	for (size_t i = 0; i < n && r >= 0; i++)
		if (form_is_pattern(path_member_get(match, i)->path))
			r = read_member(path_member_get(match, i), &found[i], scan, numbers,
				&numbers->by_number[i]);
	for (size_t i = 0; i < numbers->texts.count && r >= 0; i++) {
		const char *number = numbers->texts.items[i];

		if (map_get(&seen, number) || !is_complete(match, found, numbers, number))
			continue;
		r = map_put(&seen, number, numbers);
		if (r >= 0)
			r = strings_add(&numbers->devices, number, strlen(number));
	}
	if (r >= 0 && numbers->devices.count > 0)
		qsort(numbers->devices.items, numbers->devices.count, sizeof(char *),
			compare_numbers);
	return r;
}

const char *path_numbers_get(const struct path_numbers *numbers, size_t member, size_t index)
{
	return map_get(&numbers->by_number[member], numbers->devices.items[index]);
}

void path_numbers_done(struct path_numbers *numbers)
{
	for (size_t i = 0; i < numbers->n_members; i++)
		map_done(&numbers->by_number[i]);
	free(numbers->by_number);
	strings_done(&numbers->texts);
	strings_done(&numbers->devices);
	*numbers = (struct path_numbers){ 0 };
}
