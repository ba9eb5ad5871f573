/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of devices that share hardware: which devices consume what, in which slices, and what is
 * left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/json-read.h"
#include "dra/model/dra-counters.h"
#include "dra/model/dra-names.h"
#include "dra/model/dra-slices.h"
#include "dra/model/slice-lacks.h"

static json_t *parse(const char *text)
{
	json_t *json = json_loads(text, 0, NULL);

	assert_non_null(json);
	return json;
}

/* What a device takes of each counter, added up; 0: it has none. */
static long taken(const struct dra_counters *counters, const char *resource, const char *id)
{
	_cleanup_free_ char *key = dra_counters_key(resource, id);
	json_t *uses = json_object_get(counters->uses, key), *counter;
	const char *name;
	long sum = 0;

	assert_true(json_array_size(uses) <= 1);
	json_object_foreach(json_object_get(json_array_get(uses, 0), "counters"), name, counter)
	{
		sum += strtol(text_of(counter, "value"), NULL, 10);
	}
	return sum;
}

static bool is_left_out(const struct dra_counters *counters, const char *resource, const char *id)
{
	_cleanup_free_ char *key = dra_counters_key(resource, id);

	return json_object_get(counters->left_out, key);
}

static void build(const char *text, unsigned lacks, struct dra_counters *ret)
{
	json_auto_t *resources = parse(text);

	assert_int_equal(dra_counters_build(resources, "d.example", lacks, ret), 0);
}

#define FUNCTIONS                                                                             \
	"[{\"name\": \"v.e/pf\", \"devices\": [{\"id\": \"pf\", \"hardware\": [\"pci:0\"]}, " \
	"{\"id\": \"other\", \"hardware\": [\"pci:9\"]}]}, "                                  \
	"{\"name\": \"v.e/vf\", \"devices\": ["                                               \
	"{\"id\": \"a\", \"hardware\": [\"pci:0.1\", \"<pci:0\"]}, "                          \
	"{\"id\": \"b\", \"hardware\": [\"pci:0.2\", \"<pci:0\"]}, "                          \
	"{\"id\": \"c\", \"hardware\": [\"pci:0.3\", \"<pci:0\"]}]}, "                        \
	"{\"name\": \"v.e/again\", \"devices\": [{\"id\": \"a\", \"hardware\": [\"pci:0.1\"]}]}]"

/* The parent has one counter of the number of its parts, and what two parts offer has its own. */
static void test_parts(void **state)
{
	struct dra_counters counters;

	build(FUNCTIONS, 0, &counters);
	assert_int_equal(json_array_size(counters.sets), 1);
	assert_int_equal(taken(&counters, "v.e/pf", "pf"), 3);
	assert_int_equal(taken(&counters, "v.e/vf", "a"), 2);
	assert_int_equal(taken(&counters, "v.e/vf", "b"), 1);
	assert_int_equal(taken(&counters, "v.e/again", "a"), 1);
	assert_int_equal(taken(&counters, "v.e/pf", "other"), 0);
	assert_int_equal(json_object_size(counters.wholes), 1);
	assert_int_equal(json_object_size(counters.left_out), 0);
	dra_counters_done(&counters);
}

/* Without counters, the first of the file is offered, and what it does not meet. */
static void test_lacking(void **state)
{
	struct dra_counters counters;

	build(FUNCTIONS, 1U << LACK_COUNTERS, &counters);
	assert_int_equal(json_array_size(counters.sets), 0);
	assert_int_equal(json_object_size(counters.uses), 0);
	assert_false(is_left_out(&counters, "v.e/pf", "pf"));
	assert_false(is_left_out(&counters, "v.e/pf", "other"));
	assert_true(is_left_out(&counters, "v.e/vf", "a"));
	assert_true(is_left_out(&counters, "v.e/vf", "c"));
	/* It meets no device that is offered. */
	assert_false(is_left_out(&counters, "v.e/again", "a"));
	dra_counters_done(&counters);
}

/* Counters would exclude the replicas of a shared device. */
static void test_shared(void **state)
{
	struct dra_counters counters;

	build("[{\"name\": \"v.e/a\", \"devices\": [{\"id\": \"x\", \"shared\": true, \"hardware\": "
	      "[\"n\"]}]}, {\"name\": \"v.e/b\", \"devices\": [{\"id\": \"y\", \"hardware\": "
	      "[\"n\"]}]}]",
		0, &counters);
	assert_int_equal(json_object_size(counters.uses), 0);
	assert_true(is_left_out(&counters, "v.e/b", "y"));
	dra_counters_done(&counters);
}

#define BY_AMOUNT                                                                                     \
	"[{\"name\": \"v.e/card\", \"devices\": [{\"id\": \"c\", \"by_amount\": true, \"capacity\": " \
	"{\"memory\": {\"value\": 8, \"default\": 2, \"min\": 1, \"step\": 1}}, \"hardware\": "       \
	"[\"a\", \"b\"]}]}, {\"name\": \"v.e/part\", \"devices\": [{\"id\": \"a\", \"hardware\": "    \
	"[\"a\"]}, {\"id\": \"b\", \"hardware\": [\"b\"]}]}]"

/* A device that claims share by amount has counters where the server can use both. Its parts of
 * default amounts would exclude each other. */
static void test_by_amount(void **state)
{
	static const struct {
		unsigned lacks, missed;
		bool counted;
	} cases[] = {
		{ 0, 0, true },
		{ 1U << LACK_SHARED_COUNTERS, 1U << LACK_SHARED_COUNTERS, false },
		{ 1U << LACK_AMOUNTS, 0, false },
		{ 1U << LACK_COUNTERS, 1U << LACK_COUNTERS, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dra_counters counters;

		build(BY_AMOUNT, cases[i].lacks, &counters);
		assert_int_equal(taken(&counters, "v.e/card", "c"), cases[i].counted ? 2 : 0);
		assert_int_equal(taken(&counters, "v.e/part", "a"), cases[i].counted);
		assert_int_equal(is_left_out(&counters, "v.e/part", "b"), !cases[i].counted);
		assert_false(is_left_out(&counters, "v.e/card", "c"));
		assert_int_equal(counters.missed, cases[i].missed);
		dra_counters_done(&counters);
	}
}

/* Processes of resources may report anything. */
static void test_hostile(void **state)
{
	static const char *const texts[] = {
		"[{\"name\": \"v.e/a\", \"devices\": [{\"id\": \"x\", \"hardware\": [1, null, \"\", "
		"\"<\", {}, \"n\", \"n\", \"<n\"]}, {\"hardware\": \"n\"}, {\"id\": \"z\", "
		"\"hardware\": [\"n\", 2]}]}, {}, 5]",
		"{}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		for (unsigned lacks = 0; lacks <= 1U << LACK_COUNTERS;
			lacks += 1U << LACK_COUNTERS) {
			struct dra_counters counters;

			build(texts[i], lacks, &counters);
			dra_counters_done(&counters);
		}
}

static json_t *make_functions(int n)
{
	json_auto_t *parts = json_array();

	for (int i = 0; i < n; i++)
		assert_int_equal(
			json_array_append_new(parts,
				json_pack("{s:o, s:s, s:[o, s]}", "id", json_sprintf("vf-%d", i),
					"health", "Healthy", "hardware",
					json_sprintf("pci:0.%d", i), "<pci:0")),
			0);
	return json_pack("[{s:s, s:[{s:s, s:s, s:[s]}]}, {s:s, s:O}]", "name", "v.e/pf", "devices",
		"id", "pf", "health", "Healthy", "hardware", "pci:0", "name", "v.e/vf", "devices",
		parts);
}

/* A function with 128 virtual ones needs three slices of devices, and one counter. The whole comes
 * last. */
static void test_many_functions(void **state)
{
	json_auto_t *resources = make_functions(128);
	const struct dra_inventory_options options = { .driver = "d.example" };
	const struct dra_pool pool = { .driver = "d.example", .node = "n", .generation = 1 };
	struct dra_inventory inventory;
	json_auto_t *first = NULL, *last = NULL;
	const json_t *devices, *sets;

	assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
	assert_int_equal(json_array_size(inventory.slices), 5);
	assert_int_equal(json_array_size(json_array_get(inventory.slices, 0)), 0);
	devices = json_object_get(json_array_get(inventory.slices, 3), "devices");
	assert_int_equal(json_array_size(devices), 1);
	assert_non_null(strstr(text_of(json_array_get(devices, 0), "name"), "pf"));
	sets = json_object_get(json_array_get(inventory.slices, 4), "sharedCounters");
	assert_int_equal(json_array_size(sets), 1);
	assert_int_equal(json_object_size(json_object_get(json_array_get(sets, 0), "counters")), 1);
	first = dra_slice_object(&pool, &inventory, 0);
	last = dra_slice_object(&pool, &inventory, 4);
	assert_int_equal(json_integer_value(json_object_get(
				 json_object_get(json_object_get(first, "spec"), "pool"),
				 "resourceSliceCount")),
		1);
	assert_string_equal(text_of(json_object_get(json_object_get(last, "spec"), "pool"), "name"),
		"n/d.example");
	assert_null(json_object_get(json_object_get(last, "spec"), "devices"));
	dra_inventory_done(&inventory);
}

/* Cards of so many nodes each, and a part for each node. */
static json_t *make_cards(int n_cards, int n_nodes)
{
	json_auto_t *cards = json_array(), *parts = json_array();

	for (int i = 0; i < n_cards * n_nodes; i++) {
		json_auto_t *node = json_sprintf("/dev/p%d", i);

		if (i % n_nodes == 0)
			(void)json_array_append_new(cards,
				json_pack("{s:o, s:[]}", "id", json_sprintf("c%d", i / n_nodes),
					"hardware"));
		(void)json_array_append(
			json_object_get(json_array_get(cards, (size_t)(i / n_nodes)), "hardware"),
			node);
		(void)json_array_append_new(parts,
			json_pack("{s:o, s:[O]}", "id", json_sprintf("p%d", i), "hardware", node));
	}
	return json_pack("[{s:s, s:O}, {s:s, s:O}]", "name", "v.e/card", "devices", cards, "name",
		"v.e/part", "devices", parts);
}

/* The slices of counters have at most as many sets as the API allows. */
static void expect_slices(const json_t *resources, size_t n_sets)
{
	const struct dra_inventory_options options = { .driver = "d.example" };
	size_t i, n = 0, n_slices = 0;
	struct dra_inventory inventory;
	const json_t *slice;

	assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
	json_array_foreach(inventory.slices, i, slice)
	{
		size_t sets = json_array_size(json_object_get(slice, "sharedCounters"));

		assert_true(sets <= DRA_SETS_MAX);
		assert_true(json_array_size(json_object_get(slice, "devices")) <=
			DRA_SLICE_DEVICES_MAX);
		n += sets;
		n_slices += sets > 0;
	}
	assert_int_equal(n, n_sets);
	assert_int_equal(n_slices, (n_sets + DRA_SETS_MAX - 1) / DRA_SETS_MAX);
	dra_inventory_done(&inventory);
}

/* Each card has a set of its own; one of more nodes than a set has counters has none. */
static void test_many_cards(void **state)
{
	static const struct {
		int n_cards, n_nodes;
		size_t sets, left_out;
	} cases[] = {
		{ 125, 7, 125, 0 },
		{ 2, DRA_COUNTERS_MAX, 2, 0 },
		{ 2, DRA_COUNTERS_MAX + 1, 0, 2 * (DRA_COUNTERS_MAX + 1) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_auto_t *resources = make_cards(cases[i].n_cards, cases[i].n_nodes);
		struct dra_counters counters;

		assert_int_equal(dra_counters_build(resources, "d.example", 0, &counters), 0);
		assert_int_equal(json_array_size(counters.sets), cases[i].sets);
		expect_slices(resources, cases[i].sets);
		assert_int_equal(json_object_size(counters.left_out), cases[i].left_out);
		if (cases[i].sets > 0) {
			assert_int_equal(taken(&counters, "v.e/card", "c1"), cases[i].n_nodes);
			assert_int_equal(taken(&counters, "v.e/part", "p0"), 1);
		}
		dra_counters_done(&counters);
	}
}

/* The slice in which the only device of that resource is; NULL: none, or it has several. */
static const json_t *find_slice(
	const struct dra_inventory *inventory, const char *resource, const json_t **ret_device)
{
	const json_t *slice, *device, *found = NULL;
	size_t i, k, n = 0;

	json_array_foreach(inventory->slices, i, slice)
	{
		json_array_foreach(
			json_is_array(slice) ? slice : json_object_get(slice, "devices"), k, device)
		{
			const json_t *attributes = json_object_get(device, "attributes");

			if (!streq(text_of(json_object_get(attributes, "resource"), "string"),
				    resource))
				continue;
			n++;
			found = slice;
			*ret_device = device;
		}
	}
	return n == 1 ? found : NULL;
}

#define CARD "{\"name\": \"v.e/card\", \"devices\": [{\"id\": \"c\", \"health\": \"Healthy\", "
#define BESIDE                                                                               \
	", {\"name\": \"v.e/part\", \"devices\": [{\"id\": \"p\", \"health\": \"Claimed\", " \
	"\"cause\": \"claimed\", \"hardware\": [\"n\"]}]}"
#define COUNTED "\"hardware\": [\"n\", \"m\"]}]}"

/* A device stays in the pool from which a claim has it, also while it gains or loses counters, and
 * also when its resource does not list it any more. */
static void test_pool_of_held_devices(void **state)
{
	static const struct {
		const char *resources;
		unsigned lacks;
		bool held, from_parts, in_parts, counted, follows;
	} cases[] = {
		{ "[" CARD COUNTED BESIDE "]", 0, false, false, true, true, false },
		{ "[" CARD COUNTED BESIDE "]", 0, true, false, false, false, true },
		{ "[" CARD COUNTED BESIDE "]", 0, true, true, true, true, false },
		{ "[" CARD COUNTED BESIDE "]", 1U << LACK_COUNTERS, false, false, false, false,
			false },
		{ "[" CARD COUNTED BESIDE "]", 1U << LACK_COUNTERS, true, true, true, false, true },
		{ "[" CARD "\"hardware\": [\"n\"]}]}]", 0, true, true, true, false, true },
		{ "[" CARD "\"hardware\": [\"n\"]}]}]", 0, true, false, false, false, false },
		{ "[]", 0, true, true, true, false, true },
		{ "[]", 0, true, false, false, false, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_auto_t *resources = parse(cases[i].resources), *held = json_object();
		const struct dra_inventory_options options = {
			.driver = "d.example", .lacks = cases[i].lacks, .held = held
		};
		char name[DRA_DEVICE_NAME_MAX + 1];
		const json_t *device = NULL, *slice, *known;
		struct dra_inventory inventory;

		dra_device_name("v.e/card", "c", name);
		if (cases[i].held)
			(void)json_object_set_new(held, name,
				json_pack("{s:s, s:s, s:s, s:o*}", "driver", "d.example",
					"resource", "v.e/card", "id", "c", "part",
					cases[i].from_parts ? json_true() : NULL));
		assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
		slice = find_slice(&inventory, "v.e/card", &device);
		if (!slice || json_is_object(slice) != cases[i].in_parts ||
			!json_object_get(device, "consumesCounters") == cases[i].counted)
			fail_msg("case %zu", i);
		known = json_object_get(inventory.names, name);
		if (known)
			assert_int_equal(json_object_get(known, "part") != NULL, cases[i].in_parts);
		/* The end of the claim changes the slices. */
		assert_int_equal(dra_inventory_follows_held(&inventory, "d.example", held, NULL),
			cases[i].follows);
		dra_inventory_done(&inventory);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_lacking),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_by_amount),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_many_functions),
		cmocka_unit_test(test_many_cards),
		cmocka_unit_test(test_pool_of_held_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
