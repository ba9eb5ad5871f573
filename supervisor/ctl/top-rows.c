/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which rows "devplugctl top" shows, and in which order. Equal resources stay in the order
 * of the configuration, and equal devices in the order of their ids, so that a refresh does not
 * move rows without need.
 */
#include "supervisor/ctl/top-rows.h"

#include "supervisor/ctl/daemon-state.h"
#include "supervisor/ctl/show-usage.h"

/* The sort key of a row: a name in ascending order, or a number in descending order. */
static const char *const members[] = { NULL, "name", "state", NULL, "offered", "healthy", "in_use",
	"free" };
const char *const top_sorts[] = { "configuration", "name", "state", "problems", "offered",
	"healthy", "in use", "free" };
const size_t top_n_sorts = ARRAY_SIZE(top_sorts);

enum { SORT_CONFIGURATION, SORT_NAME, SORT_STATE, SORT_PROBLEMS };

struct entry {
	struct top_row row;
	size_t place;
	const char *id;   /* of a device; NULL: a resource, whose place decides among equals */
	const char *text; /* NULL: the number counts */
	json_int_t number;
	bool reverse;
};

static bool is_unhealthy(const json_t *device)
{
	return streq(text_of(device, "health"), "Unhealthy");
}

static size_t count_problems(const json_t *resource)
{
	size_t count = !streq(text_of(resource, "state"), "serving"), i;
	json_t *device;

	json_array_foreach(json_object_get(resource, "devices"), i, device) count +=
		is_unhealthy(device);
	return count;
}

static int compare(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	int r = 0;

	if (a->text && b->text)
		r = strverscmp(a->text, b->text);
	else if (a->number != b->number)
		r = a->number > b->number ? -1 : 1;
	if (r == 0 && a->id && b->id)
		r = strverscmp(a->id, b->id);
	if (r == 0)
		r = a->place < b->place ? -1 : 1;
	return a->reverse ? -r : r;
}

static struct entry resource_entry(
	const json_t *resource, size_t place, const struct top_choice *choice)
{
	struct entry entry = {
		.row = { .kind = TOP_RESOURCE, .resource = resource },
		.place = place,
		.reverse = choice->reverse,
	};

	if (choice->sort == SORT_NAME || choice->sort == SORT_STATE)
		entry.text = text_of(resource, members[choice->sort]);
	else if (choice->sort == SORT_PROBLEMS)
		entry.number = (json_int_t)count_problems(resource);
	else if (choice->sort != SORT_CONFIGURATION)
		entry.number = integer_of(resource, members[choice->sort]);
	return entry;
}

/* Devices share the columns name, health and containers with resources. */
static struct entry device_entry(
	const json_t *resource, const json_t *device, size_t place, const struct top_choice *choice)
{
	struct entry entry = {
		.row = { .kind = TOP_DEVICE, .resource = resource, .device = device },
		.place = place,
		.id = text_of(device, "id"),
		.reverse = choice->reverse,
	};
	size_t pods = usage_is_taken(device) ? json_array_size(json_object_get(device, "pods")) : 0;

	if (choice->sort == SORT_STATE)
		entry.text = text_of(device, "health");
	else if (choice->sort == SORT_PROBLEMS)
		entry.number = is_unhealthy(device);
	else if (streq(top_sorts[choice->sort], "healthy"))
		entry.number = !is_unhealthy(device);
	else if (streq(top_sorts[choice->sort], "in use"))
		entry.number = (json_int_t)pods;
	else if (streq(top_sorts[choice->sort], "free"))
		entry.number = pods == 0;
	return entry;
}

static bool is_open(const json_t *resource, const struct top_choice *choice)
{
	return choice->opened && streq(text_of(resource, "name"), choice->opened);
}

/* Returns how many rows were added; `entries` is working space. */
static size_t add_devices(const json_t *resource, const struct top_choice *choice,
	struct entry *entries, struct top_row *rows)
{
	const json_t *devices = json_object_get(resource, "devices");
	size_t n = json_array_size(devices);

	rows[0] = (struct top_row){ .kind = TOP_HEADING, .resource = resource };
	for (size_t i = 0; i < n; i++)
		entries[i] = device_entry(resource, json_array_get(devices, i), i, choice);
	qsort(entries, n, sizeof(*entries), compare);
	for (size_t i = 0; i < n; i++)
		rows[1 + i] = entries[i].row;
	return 1 + n;
}

int top_rows(const json_t *resources, const struct top_choice *choice, struct top_row **ret,
	size_t *ret_count)
{
	size_t n = json_array_size(resources), most = n + 1, longest = n, count = 0;
	_cleanup_free_ struct entry *order = NULL, *entries = NULL;
	_cleanup_free_ struct top_row *rows = NULL;

	for (size_t i = 0; i < n; i++) {
		const json_t *resource = json_array_get(resources, i);
		size_t devices = json_array_size(json_object_get(resource, "devices"));

		most += is_open(resource, choice) ? devices + 1 : 0;
		longest = MAX_OF(longest, devices);
	}
	order = calloc(n + 1, sizeof(*order));
	entries = calloc(longest + 1, sizeof(*entries));
	rows = calloc(most, sizeof(*rows));
	if (!order || !entries || !rows)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = resource_entry(json_array_get(resources, i), i, choice);
	qsort(order, n, sizeof(*order), compare);
	for (size_t i = 0; i < n; i++) {
		rows[count++] = order[i].row;
		if (is_open(order[i].row.resource, choice))
			count += add_devices(order[i].row.resource, choice, entries, rows + count);
	}
	*ret = TAKE_PTR(rows);
	*ret_count = count;
	return 0;
}
