/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the reasons by the names of the listed devices, of which each has room for one, so that a
 * host with thousands of other candidates costs no more than a search in the table.
 */
#include "drivers/model/left-out.h"

#define REASON_MAX DEVICE_PROBLEM_MAX

/* NULL: it has no directory. */
static const char *name_of(const struct device *device)
{
	const char *directory = device_variable(device, "sysfs");
	const char *slash = directory ? strrchr(directory, '/') : NULL;

	return slash ? slash + 1 : NULL;
}

int left_out_reserve(struct left_out *left_out, size_t count)
{
	if (count == 0)
		return 0;
	left_out->items = calloc(count, sizeof(*left_out->items));
	return left_out->items ? map_reserve(&left_out->by_name, count) : -ENOMEM;
}

int left_out_expect(struct left_out *left_out, struct device *device)
{
	struct left_out_item *item = &left_out->items[left_out->count];
	const char *name = name_of(device);
	int r;

	if (!name)
		return 0;
	r = map_put(&left_out->by_name, name, item);
	/* Replicas of a directory, such as the parts of a card, share one. */
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	item->device = device_ref(device);
	left_out->count++;
	return 0;
}

bool left_out_wants(const struct left_out *left_out, const char *name, unsigned rank)
{
	const struct left_out_item *item = left_out ? map_get(&left_out->by_name, name) : NULL;

	return item && (!item->reason || rank > item->rank);
}

void left_out_add(
	struct left_out *left_out, const char *name, unsigned rank, const char *format, ...)
{
	struct left_out_item *item;
	char text[REASON_MAX];
	va_list ap;

	if (!left_out_wants(left_out, name, rank))
		return;
	item = map_get(&left_out->by_name, name);
	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	free(item->reason);
	item->reason = strdup(text);
	item->rank = rank;
}

const char *left_out_reason(
	const struct left_out *left_out, const struct device *device, unsigned rank)
{
	const char *name = name_of(device);
	const struct left_out_item *item = name ? map_get(&left_out->by_name, name) : NULL;

	return item && item->rank >= rank ? item->reason : NULL;
}

void left_out_done(struct left_out *left_out)
{
	for (size_t i = 0; i < left_out->count; i++) {
		(void)device_unref(left_out->items[i].device);
		free(left_out->items[i].reason);
	}
	free(left_out->items);
	map_done(&left_out->by_name);
}
