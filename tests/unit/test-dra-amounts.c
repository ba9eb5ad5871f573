/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that claims share by amount: how they are published, also if a faulty process reports
 * them, and how they wait for claims that hold them in another way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dra/model/dra-names.h"
#include "dra/model/dra-slices.h"
#include "dra/model/slice-amounts.h"
#include "dra/model/slice-lacks.h"
#include "supervisor/books/dra-amounts.h"

#define DRIVER   "devices.vendor.example"
#define RESOURCE "v.e/gpu"

static json_t *parse(const char *text)
{
	json_error_t error;
	json_t *value = json_loads(text, 0, &error);

	if (!value)
		fail_msg("%s: %s", error.text, text);
	return value;
}

static json_t *report(const char *capacity, const char *more)
{
	_cleanup_free_ char *text = NULL;

	assert_true(
		asprintf(&text,
			"[{\"name\": \"" RESOURCE "\", \"devices\": [{\"id\": \"a\", \"health\": "
			"\"Healthy\", \"capacity\": %s %s}]}]",
			capacity, more) > 0);
	return parse(text);
}

/* The devices of the first slice, a new reference. */
static json_t *build(const char *capacity, const char *more, const char *held, unsigned lacks)
{
	json_auto_t *resources = report(capacity, more), *holders = parse(held);
	const struct dra_inventory_options options = {
		.driver = DRIVER, .lacks = lacks, .held = holders
	};
	struct dra_inventory inventory;
	json_t *devices;

	assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
	devices = json_incref(json_array_get(inventory.slices, 0));
	dra_inventory_done(&inventory);
	return devices;
}

#define SHARED ", \"by_amount\": true"
#define RANGE \
	"{\"memory\": {\"value\": 85899345920, \"default\": 10737418240, \"min\": 1073741824, \"step\": 1073741824, \"max\": 42949672960}}"

static void expect_device(json_t *devices, const char *capacity, bool shared)
{
	const json_t *device = json_array_get(devices, 0);
	json_auto_t *wanted = parse(capacity);

	assert_int_equal(json_array_size(devices), 1);
	if (json_object_size(wanted) > 0)
		assert_true(json_equal(json_object_get(device, "capacity"), wanted));
	else
		assert_null(json_object_get(device, "capacity"));
	assert_int_equal(json_is_true(json_object_get(device, "allowMultipleAllocations")), shared);
}

static void test_shared(void **state)
{
	json_auto_t *devices = build(RANGE, SHARED, "{}", 0);

	expect_device(devices,
		"{\"memory\": {\"value\": \"80Gi\", \"requestPolicy\": {\"default\": \"10Gi\", "
		"\"validRange\": {\"min\": \"1Gi\", \"step\": \"1Gi\", \"max\": \"40Gi\"}}}}",
		true);
}

/* One rule that is broken makes the server refuse a slice, or panic, and without a capacity a
 * device would be allocated without limit. */
static void test_hostile_reports(void **state)
{
	static const struct {
		const char *capacity, *published;
	} cases[] = {
		{ "{}", "{}" },
		{ "[]", "{}" },
		{ "7", "{}" },
		{ "{\"a\": 7}", "{}" },
		{ "{\"a\": {}}", "{}" },
		{ "{\"a\": {\"value\": 0, \"default\": 0}}", "{}" },
		{ "{\"a\": {\"value\": -1, \"default\": 1}}", "{}" },
		{ "{\"a\": {\"value\": 1.5, \"default\": 1}}", "{}" },
		{ "{\"a\": {\"value\": \"8\", \"default\": 1}}", "{}" },
		{ "{\"a\": {\"value\": 8}}", "{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 9}}", "{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 1, \"min\": 1, \"step\": 0}}", "{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 1, \"min\": -2, \"step\": -2}}", "{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 1, \"min\": 1, \"step\": -9223372036854775808}}",
			"{}" },
		{ "{\"a\": {\"value\": 1, \"default\": 1, \"min\": 1, \"step\": 1}}", "{}" },
		{ "{\"a\": {\"value\": 9223372036854775807, \"default\": 9223372036854775807, \"min\": 9223372036854775807, \"step\": 9223372036854775807}}",
			"{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 3, \"min\": 2, \"step\": 2}}", "{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 2, \"min\": 2, \"step\": 2, \"max\": 10}}",
			"{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 2, \"min\": 2, \"step\": 2, \"max\": 5}}",
			"{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 1, \"values\": [2, 1]}}", "{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 1, \"values\": [1, 1]}}", "{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 1, \"values\": [1, 9]}}", "{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 1, \"values\": [-1, 1]}}", "{}" },
		{ "{\"a\": {\"value\": 8, \"default\": 3, \"values\": [1, 2]}}", "{}" },
		{ "{\"a\": {\"value\": 99, \"default\": 1, \"values\": [1,2,3,4,5,6,7,8,9,10,11]}}",
			"{}" },
		{ "{\"a-b\": {\"value\": 8, \"default\": 8}}", "{}" },
		{ "{\"id\": {\"value\": 8, \"default\": 8}}", "{}" },
		{ "{\"" DRIVER "/a\": {\"value\": 8, \"default\": 8}}", "{}" },
		/* The good one remains, as of a whole device. */
		{ "{\"a\": {\"value\": 8, \"default\": 8}, \"b\": {\"value\": 0}}",
			"{\"a\": {\"value\": \"8\"}}" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_auto_t *devices = build(cases[i].capacity, SHARED, "{}", 0);

		expect_device(devices, cases[i].published, false);
	}
}

static void test_number_of_capacities(void **state)
{
	json_auto_t *capacity = json_object(), *devices = NULL;
	_cleanup_free_ char *text = NULL;

	for (int i = 0; i < 9; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "n%d", i);
		(void)json_object_set_new(
			capacity, name, json_pack("{s:i, s:i}", "value", 8, "default", 8));
	}
	text = json_dumps(capacity, 0);
	devices = build(text, SHARED, "{}", 0);
	assert_int_equal(
		json_object_size(json_object_get(json_array_get(devices, 0), "capacity")), 8);
	assert_null(json_object_get(json_array_get(devices, 0), "allowMultipleAllocations"));
}

static size_t count_parts(const char *capacity)
{
	json_auto_t *resources = report(capacity, SHARED);
	const struct dra_inventory_options options = { .driver = DRIVER,
		.lacks = 1U << LACK_AMOUNTS };
	struct dra_inventory inventory;
	size_t n = 0;

	assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
	for (size_t i = 0; i < json_array_size(inventory.slices); i++)
		n += json_array_size(json_array_get(inventory.slices, i));
	assert_int_equal(n, json_object_size(inventory.names));
	dra_inventory_done(&inventory);
	return n;
}

static void test_parts(void **state)
{
	assert_int_equal(count_parts(RANGE), 8);
	assert_int_equal(count_parts("{\"a\": {\"value\": 7, \"default\": 2}}"), 3);
	assert_int_equal(count_parts("{\"a\": {\"value\": 7, \"default\": 7}}"), 1);
	assert_int_equal(count_parts("{\"a\": {\"value\": 7, \"default\": 4}}"), 1);
	/* The scarcest of several. */
	assert_int_equal(
		count_parts("{\"a\": {\"value\": 9, \"default\": 1}, \"b\": {\"value\": 9, "
			    "\"default\": 4}}"),
		2);
	assert_int_equal(count_parts("{\"a\": {\"value\": 9223372036854775807, \"default\": 1}}"),
		SLICE_PARTS_MAX);
}

/* --- devices that are held --- */

static char whole[DRA_DEVICE_NAME_MAX + 1], part[DRA_DEVICE_NAME_MAX + 1];

/* `text` with NAME for the device and PART for its second part or replica. */
static char *with_names(const char *text)
{
	static char made[1024];
	char *at = made;

	while (*text) {
		const char *rest;

		if ((rest = startswith(text, "NAME")))
			at = stpcpy(at, whole);
		else if ((rest = startswith(text, "PART")))
			at = stpcpy(at, part);
		else
			*at++ = *text;
		text = rest ?: text + 1;
	}
	*at = '\0';
	return made;
}

#define HELD(more) "\"driver\": \"" DRIVER "\", \"resource\": \"" RESOURCE "\", \"id\": \"a" more
#define WHOLE      "{\"NAME\": {" HELD("\"") "}}"
#define SHARES     "{\"NAME\": {" HELD("\"") ", \"share\": true, \"amounts\": {\"memory\": 30}}}"
#define HELD_PART  "{\"PART\": {" HELD("\"") ", \"amounts\": {\"memory\": 10}}}"
#define REPLICA    "{\"PART\": {" HELD("#1\"") "}}"

static void test_waiting(void **state)
{
	static const struct {
		const char *capacity, *more, *held;
		unsigned lacks;
		const char *published; /* the only device; NULL: as if nothing was held */
		const char *name;
		bool shared;
	} cases[] = {
		/* The same way. */
		{ RANGE, SHARED, SHARES, 0, NULL, whole, true },
		{ "{}", "", WHOLE, 0, NULL, whole, false },
		/* Another one. */
		{ RANGE, SHARED, WHOLE, 0, "{}", whole, false },
		{ "{}", "", SHARES, 0, "{\"memory\": {\"value\": \"30\"}}", whole, true },
		{ RANGE, SHARED, HELD_PART, 0, "{\"memory\": {\"value\": \"10\"}}", part, false },
		{ RANGE, SHARED, SHARES, 1U << LACK_AMOUNTS, "{\"memory\": {\"value\": \"30\"}}",
			whole, false },
		{ RANGE, SHARED, REPLICA, 0, "{}", part, false },
		{ "{}", "", REPLICA, 0, "{}", part, false },
		{ "{}", ", \"shared\": true, \"replicas\": 2", WHOLE, 0, "{}", whole, false },
		{ "{}", ", \"shared\": true, \"replicas\": 2", SHARES, 0,
			"{\"memory\": {\"value\": \"30\"}}", whole, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_auto_t *devices = build(cases[i].capacity, cases[i].more,
			with_names(cases[i].held), cases[i].lacks);
		json_auto_t *unheld = build(cases[i].capacity, cases[i].more, "{}", cases[i].lacks);

		if (!cases[i].published) {
			assert_true(json_equal(devices, unheld));
			continue;
		}
		expect_device(devices, cases[i].published, cases[i].shared);
		assert_string_equal(
			json_string_value(json_object_get(json_array_get(devices, 0), "name")),
			cases[i].name);
	}
}

/* What another driver's claim holds is in the slices of that driver. */
static void test_waiting_for_another_driver(void **state)
{
	json_auto_t *devices = build(RANGE, SHARED,
		with_names("{\"PART\": {\"driver\": \"other.example\", \"resource\": \"" RESOURCE
			   "\", \"id\": \"a\", \"amounts\": {\"memory\": 10}}}"),
		0);

	assert_int_equal(json_array_size(devices), 0);
}

static void test_end_of_waiting_for_another_driver(void **state)
{
	json_auto_t *resources = report(RANGE, SHARED), *now = json_object();
	json_auto_t *before = parse(
		with_names("{\"PART\": {\"driver\": \"other.example\", \"resource\": \"" RESOURCE
			   "\", \"id\": \"a#1\"}}"));
	const struct dra_inventory_options options = { .driver = DRIVER, .held = before };
	struct dra_inventory inventory;

	assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
	assert_true(dra_inventory_follows_held(&inventory, DRIVER, before, now));
	dra_inventory_done(&inventory);
}

static void test_changes_of_held(void **state)
{
	static const struct {
		const char *capacity, *more, *before, *now;
		bool follows;
	} cases[] = {
		{ RANGE, SHARED, "{}", SHARES, false },
		{ RANGE, SHARED, SHARES, "{}", false },
		{ RANGE, SHARED, "{}", WHOLE, true },
		{ RANGE, SHARED, WHOLE, "{}", true },
		{ RANGE, SHARED, HELD_PART, "{}", true },
		{ "{}", "", "{}", WHOLE, false },
		{ "{}", "", "{}", SHARES, true },
		{ "{}", "", SHARES,
			"{\"NAME\": {" HELD(
				"\"") ", \"share\": true, \"amounts\": {\"memory\": 20}}}",
			true },
		{ "{}", "", REPLICA, "{}", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_auto_t *resources = report(cases[i].capacity, cases[i].more);
		json_auto_t *before = parse(with_names(cases[i].before));
		json_auto_t *now = parse(with_names(cases[i].now));
		const struct dra_inventory_options options = { .driver = DRIVER, .held = before };
		struct dra_inventory inventory;

		assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
		assert_int_equal(dra_inventory_follows_held(&inventory, DRIVER, before, now),
			cases[i].follows);
		dra_inventory_done(&inventory);
	}
}

/* --- whether all claims fit --- */

#define DEVICE(id, amount)                                                                     \
	"{\"resource\": \"" RESOURCE "\", \"id\": \"" id "\", \"admin\": false, \"amounts\": " \
	"{\"m\": " amount "}, \"of\": {\"m\": 10}}"
#define CLAIM(name, devices) \
	"{\"namespace\": \"n\", \"name\": \"" name "\", \"devices\": [" devices "]}"

static void test_sums(void **state)
{
	static const struct {
		const char *claim, *others;
		int result;
	} cases[] = {
		{ DEVICE("a", "10"), "", 0 },
		{ DEVICE("a", "11"), "", -EINVAL },
		{ DEVICE("a", "5") "," DEVICE("a", "5"), "", 0 },
		{ DEVICE("a", "5") "," DEVICE("a", "6"), "", -EINVAL },
		{ DEVICE("a", "5"), CLAIM("x", DEVICE("a", "5")), 0 },
		{ DEVICE("a", "5"), CLAIM("x", DEVICE("a", "6")), -EBUSY },
		{ DEVICE("a", "5"), CLAIM("x", DEVICE("b", "6")), 0 },
		{ DEVICE("a", "4"), CLAIM("x", DEVICE("a", "3")) "," CLAIM("y", DEVICE("a", "3")),
			0 },
		{ DEVICE("a", "5"), CLAIM("x", DEVICE("a", "3")) "," CLAIM("y", DEVICE("a", "3")),
			-EBUSY },
		/* Sums that overflow. */
		{ DEVICE("a", "9223372036854775807") "," DEVICE("a", "9223372036854775807"), "",
			-EINVAL },
		{ DEVICE("a", "1"),
			CLAIM("x", DEVICE("a", "9223372036854775807")) "," CLAIM(
				"y", DEVICE("a", "9223372036854775807")),
			-EBUSY },
		/* As a whole, too. */
		{ DEVICE("a", "1") ",{\"resource\": \"" RESOURCE "\", \"id\": \"a\"}", "",
			-EBADMSG },
		{ DEVICE("a", "1") ",{\"resource\": \"" RESOURCE
				   "\", \"id\": \"a\", \"admin\": true}",
			"", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL, *list = NULL;
		json_auto_t *claim = NULL, *others = NULL;
		struct error error;

		assert_true(asprintf(&text, CLAIM("c", "%s"), cases[i].claim) > 0);
		assert_true(asprintf(&list, "[%s]", cases[i].others) > 0);
		claim = parse(text);
		others = parse(list);
		assert_int_equal(dra_amounts_check(claim, others, &error), cases[i].result);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_hostile_reports),
		cmocka_unit_test(test_number_of_capacities),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_waiting_for_another_driver),
		cmocka_unit_test(test_end_of_waiting_for_another_driver),
		cmocka_unit_test(test_changes_of_held),
		cmocka_unit_test(test_sums),
	};

	dra_device_name(RESOURCE, "a", whole);
	dra_device_name(RESOURCE, "a#1", part);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
