/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which devices come first: with "packed", the replicas of a device are beside each other;
 * with "numa", so are the devices of a NUMA node; with "spread" and "distinct", those that have
 * little in common.
 */
#include "dra/model/slice-order.h"

#include <stdlib.h>

#include "common/json-read.h"
#include "dra/model/slice-amounts.h"
#include "drivers/model/device.h"

/* Behind all NUMA nodes: devices with none, or with several. */
#define NUMA_NONE INT32_MAX

/* A faulty process may report ids that device_id_make() would not make. */
static bool has_valid_id(const json_t *device)
{
	const char *id = text_of(device, "id");
	char valid[DEVICE_ID_MAX + 1];

	device_id_make(id, valid);
	return streq(id, valid);
}

static json_int_t numa_of(const json_t *device)
{
	const json_t *numa = json_object_get(device, "numa");

	return json_array_size(numa) == 1 ? json_integer_value(json_array_get(numa, 0)) : NUMA_NONE;
}

/* How often the key was counted before. */
static size_t count(json_t *counts, const char *key)
{
	size_t before = (size_t)json_integer_value(json_object_get(counts, key));

	(void)json_object_set_new(counts, key, json_integer((json_int_t)before + 1));
	return before;
}

/* Parts of one card have its PCI address. */
static void compare_with_others(struct slice_place *place, json_t *cards, json_t *nodes)
{
	const char *card = text_of(place->device, "pci_address");
	char key[64];

	place->part = *card ? count(cards, card) : 0;
	(void)snprintf(key, sizeof(key), "%zu of %lld", place->part, (long long)place->numa);
	place->turn = count(nodes, key);
}

/* How many replicas or parts the device has; a faulty process may report any number. */
static json_int_t count_replicas(const json_t *device, const char *driver, unsigned lacks)
{
	const json_t *replicas = json_object_get(device, "replicas");
	size_t n_parts = slice_use_of(device, driver, lacks) == SLICE_PART
		? slice_part_count(device, driver)
		: 1;

	return n_parts > 1 ? (json_int_t)n_parts : replicas ? json_integer_value(replicas) : 1;
}

/* Adds the replicas or parts of a device. Some replicas may still be in use by the device plugin;
 * their numbers are sorted. */
static int add_replicas(const struct slice_place *first, size_t maximum, json_int_t n,
	struct slice_place **places, size_t *n_places)
{
	const json_t *withheld = json_object_get(first->device, "withheld");
	size_t next = 0;

	for (json_int_t k = 0; k < n && *n_places < maximum; k++) {
		struct slice_place *place;

		if (array_reserve((void **)places, *n_places, sizeof(**places)) < 0)
			return -ENOMEM;
		place = &(*places)[(*n_places)++];
		*place = *first;
		place->replica = k;
		place->withheld = next < json_array_size(withheld) &&
			json_integer_value(json_array_get(withheld, next)) == k;
		next += place->withheld;
	}
	return 0;
}

#define COMPARE(a, b) ((a) > (b)) - ((a) < (b))

static int compare_numa(const void *a, const void *b)
{
	const struct slice_place *x = a, *y = b;

	return (COMPARE(x->numa, y->numa)) ?: (COMPARE(x->index, y->index))
			?: COMPARE(x->replica, y->replica);
}

static int compare_distinct(const void *a, const void *b)
{
	const struct slice_place *x = a, *y = b;

	return (COMPARE(x->replica, y->replica)) ?: COMPARE(x->index, y->index);
}

static int compare_spread(const void *a, const void *b)
{
	const struct slice_place *x = a, *y = b;

	return (COMPARE(x->replica, y->replica)) ?: (COMPARE(x->part, y->part))
			?: (COMPARE(x->turn, y->turn))
			?: (COMPARE(x->numa, y->numa))
			?: COMPARE(x->index, y->index);
}

/* In any other case, the order of the report is kept: that of the ids, with the replicas of a
 * device beside each other. */
static void sort(const char *prefer, struct slice_place *places, size_t n_places)
{
	static const struct {
		const char *prefer;
		int (*compare)(const void *a, const void *b);
	} orders[] = {
		{ "numa", compare_numa },
		{ "distinct", compare_distinct },
		{ "spread", compare_spread },
	};

	for (size_t i = 0; i < ARRAY_SIZE(orders) && n_places > 0; i++)
		if (streq(prefer, orders[i].prefer))
			qsort(places, n_places, sizeof(*places), orders[i].compare);
}

/* --- shares --- */

static size_t count_places(
	const json_t *devices, size_t maximum, const char *driver, unsigned lacks)
{
	const json_t *device;
	size_t i, n = 0;

	json_array_foreach(devices, i, device)
	{
		json_int_t replicas = count_replicas(device, driver, lacks);

		if (n < maximum && replicas > 0 && has_valid_id(device))
			n += MIN_OF((size_t)replicas, maximum - n);
	}
	return n;
}

static int compare_counts(const void *a, const void *b)
{
	const size_t *x = a, *y = b;

	return COMPARE(*x, *y);
}

int slice_order_share(const json_t *resources, size_t total, const char *driver, unsigned lacks,
	size_t *ret_maximum)
{
	size_t i, n = json_array_size(resources), left = total;
	_cleanup_free_ size_t *counts = calloc(n + 1, sizeof(*counts));
	const json_t *resource;

	if (!counts)
		return -ENOMEM;
	json_array_foreach(resources, i, resource)
	{
		counts[i] =
			count_places(json_object_get(resource, "devices"), total, driver, lacks);
	}
	qsort(counts, n, sizeof(*counts), compare_counts);
	for (i = 0; i < n && counts[i] <= left / (n - i); i++)
		left -= counts[i];
	*ret_maximum = i < n ? left / (n - i) : total;
	return 0;
}

/* --- --- */

int slice_order(const json_t *devices, size_t maximum, const char *driver, unsigned lacks,
	struct slice_place **ret_places, size_t *ret_count)
{
	json_auto_t *cards = json_object(), *nodes = json_object();
	_cleanup_free_ struct slice_place *places = NULL;
	const json_t *device;
	size_t i, n = 0;
	int r = 0;

	json_array_foreach(devices, i, device)
	{
		struct slice_place first = { .device = device, .index = i };

		if (!has_valid_id(device) || r < 0)
			continue;
		first.numa = numa_of(device);
		compare_with_others(&first, cards, nodes);
		r = add_replicas(
			&first, maximum, count_replicas(device, driver, lacks), &places, &n);
	}
	if (r < 0)
		return r;
	sort(text_of(json_array_get(devices, 0), "prefer"), places, n);
	*ret_places = TAKE_PTR(places);
	*ret_count = n;
	return 0;
}
