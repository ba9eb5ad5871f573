/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions of entries of `match`: which one refuses a candidate, and what is reported of it. Each
 * driver's tables name every key that is a condition.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drivers/model/condition.h"
#include "drivers/model/driver.h"

struct entry {
	struct integers vendors;
	struct strings drivers, serials;
	bool any_size;
};

struct candidate {
	int64_t vendor;
	char driver[16];
	char *serial;
	bool gone, read, large;
};

static int read_driver(const struct condition *condition, void *userdata)
{
	struct candidate *candidate = userdata;

	assert_string_equal(condition->key, "driver");
	candidate->read = true;
	return !candidate->gone;
}

static int test_size(const void *entry, void *candidate)
{
	if (((struct candidate *)candidate)->vendor == 0xbad)
		return -ENOMEM;
	if (((struct candidate *)candidate)->vendor == 0xdead)
		return CONDITION_UNKNOWN;
	return ((const struct entry *)entry)->any_size || !((struct candidate *)candidate)->large;
}

static bool refuses_large(const void *entry)
{
	return !((const struct entry *)entry)->any_size;
}

static const struct condition table[] = {
	{ CONDITION_OF_INTEGERS("vendor", struct entry, vendors, struct candidate, vendor) },
	{ CONDITION_OF_TEXT("driver", struct entry, drivers, struct candidate, driver),
		.read = read_driver },
	{ CONDITION_OF_STRING("serial", struct entry, serials, struct candidate, serial) },
	{ .key = "size", .test = test_size, .phrase = "is large", .is_default = refuses_large },
};
static const struct conditions conditions = CONDITIONS("card", table);

static int64_t amd[] = { 1002 }, intel[] = { 0x8086 };
static char *nvidia[] = { (char *)"nvidia*" }, *number[] = { (char *)"Ab1" };

static void expect(const struct tally *tally, const char *expected)
{
	char text[640];

	tally_describe(tally, text, sizeof(text));
	assert_string_equal(text, expected);
}

static void test_counting(void **state)
{
	struct entry entry = { .vendors = { .items = intel, .count = 1 },
		.drivers = { nvidia, 1 } };
	struct candidate cards[] = { { .vendor = 0x1002 }, { .vendor = 0x8086, .driver = "xe" },
		{ .vendor = -1 }, { .vendor = 0x8086, .driver = "xe", .gone = true } };
	struct tally tally = { .conditions = &conditions };

	for (size_t i = 0; i < ARRAY_SIZE(cards); i++)
		assert_int_equal(conditions_hold(&conditions, &entry, &cards[i],
					 (const char *[]){ "a", "b", "c", "d" }[i], &tally),
			0);
	assert_int_equal(tally.candidates, 3);
	assert_false(cards[0].read);
	assert_true(cards[1].read);
	expect(&tally, "vendor refused 2 (a has 0x1002), driver refused 1 (b has \"xe\")");
	(void)strcpy(cards[1].driver, "nvidia");
	assert_int_equal(conditions_hold(&conditions, &entry, &cards[1], "b", &tally), 1);
	assert_int_equal(tally.matched, 1);
	/* The result does not depend on counting. */
	assert_int_equal(conditions_hold(&conditions, &entry, &cards[0], "a", NULL), 0);
	assert_int_equal(conditions_hold(&conditions, &entry, &cards[1], "b", NULL), 1);
	cards[0].vendor = 0xbad;
	entry.vendors.count = 0;
	assert_int_equal(conditions_hold(&conditions, &entry, &cards[0], "a", &tally), 0);
	entry.drivers.count = 0;
	assert_int_equal(conditions_hold(&conditions, &entry, &cards[0], "a", &tally), -ENOMEM);
}

/* What is not known is neither selected by `match` nor left in by `exclude`; nor is what is
 * disappearing. */
static void test_unknown(void **state)
{
	struct entry entry = { .any_size = true };
	struct candidate card = { .vendor = 0xdead }, large = { .large = true },
			 gone = { .gone = true };
	struct tally tally = { .conditions = &conditions };

	assert_int_equal(conditions_answer(&conditions, &entry, &card), CONDITION_UNKNOWN);
	assert_int_equal(conditions_hold(&conditions, &entry, &card, "a", &tally), 0);
	expect(&tally, "size refused 1 (a is large)");
	assert_int_equal(conditions_exclude(&conditions, &entry, &card, "a", &tally), 1);
	assert_int_equal(tally.matched, 1);
	/* What another condition refuses is known. */
	entry.serials = (struct strings){ number, 1 };
	assert_int_equal(conditions_answer(&conditions, &entry, &card), CONDITION_FAILS);
	assert_int_equal(conditions_exclude(&conditions, &entry, &card, "a", NULL), 0);
	/* A default refuses candidates of `match` only. */
	entry = (struct entry){ 0 };
	assert_int_equal(conditions_hold(&conditions, &entry, &large, "b", NULL), 0);
	assert_int_equal(conditions_answer(&conditions, &entry, &large), CONDITION_FAILS);
	assert_int_equal(conditions_exclude(&conditions, &entry, &large, "b", NULL), 1);
	entry.drivers = (struct strings){ nvidia, 1 };
	assert_int_equal(conditions_hold(&conditions, &entry, &gone, "c", NULL), 0);
	assert_int_equal(conditions_exclude(&conditions, &entry, &gone, "c", NULL), 1);
	large.vendor = 0xbad;
	entry = (struct entry){ .any_size = true };
	assert_int_equal(conditions_exclude(&conditions, &entry, &large, "b", NULL), -ENOMEM);
}

/* A pattern that any text meets selects nothing that has none. */
static void test_nothing(void **state)
{
	static char *any[] = { (char *)"*" };
	struct entry by_driver = { .drivers = { any, 1 } }, by_serial = { .serials = { any, 1 } };
	struct candidate none = { .vendor = 1 };
	struct candidate bound = { .vendor = 1, .driver = "vfio-pci", .serial = (char *)"7" };
	struct tally tally = { .conditions = &conditions };

	assert_int_equal(conditions_hold(&conditions, &by_driver, &none, "a", &tally), 0);
	assert_int_equal(conditions_hold(&conditions, &by_serial, &none, "b", &tally), 0);
	expect(&tally, "driver refused 1 (a has none), serial refused 1 (b has none)");
	assert_int_equal(conditions_exclude(&conditions, &by_driver, &none, "a", NULL), 0);
	assert_int_equal(conditions_hold(&conditions, &by_driver, &bound, "c", NULL), 1);
	assert_int_equal(conditions_hold(&conditions, &by_serial, &bound, "c", NULL), 1);
}

/* The example is the candidate that was most likely meant. */
static void test_near_misses(void **state)
{
	struct entry entry = { .vendors = { .items = amd, .count = 1 } };
	struct candidate cards[] = { { .vendor = 0x8086 }, { .vendor = 0x1002 },
		{ .vendor = 0x8086, .serial = (char *)"xyz", .large = true },
		{ .vendor = 0x8086, .serial = (char *)"GPU-aB12" } };
	struct tally tally = { .conditions = &conditions };

	for (size_t i = 0; i < 2; i++)
		(void)conditions_hold(&conditions, &entry, &cards[i], i ? "b" : "a", &tally);
	expect(&tally, "vendor refused 2 (b has 0x1002: write 0x)");

	tally = (struct tally){ .conditions = &conditions };
	entry = (struct entry){ .serials = { number, 1 } };
	for (size_t i = 1; i < 4; i++)
		(void)conditions_hold(&conditions, &entry, &cards[i], i < 3 ? "c" : "d", &tally);
	expect(&tally, "serial refused 3 (d has \"GPU-aB12\": write that)");

	tally = (struct tally){ .conditions = &conditions };
	(void)conditions_hold(&conditions, &entry, &cards[0], "a", &tally);
	expect(&tally, "serial refused 1 (a has none)");

	tally = (struct tally){ .conditions = &conditions };
	entry = (struct entry){ 0 };
	(void)conditions_hold(&conditions, &entry, &cards[2], "c", &tally);
	expect(&tally, "size refused 1 (c is large)");
}

static void test_nearness(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool near;
	} cases[] = { { "A30", "NVIDIA A30", true }, { "nvidia a30", "NVIDIA A30", true },
		{ "GPU-AB*", "GPU-ab12", true }, { "b1", "GPU-ab12", false },
		{ "xe", "i915", false } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *pattern = (char *)cases[i].pattern;

		assert_int_equal(
			patterns_nearly_match(&(struct strings){ &pattern, 1 }, cases[i].text),
			cases[i].near);
	}
	assert_int_equal(digits_as_hexadecimal(1002), 0x1002);
	assert_int_equal(digits_as_hexadecimal(300), 0x300);
	assert_int_equal(digits_as_hexadecimal(-1), 0);
}

/* The text ends where its room does. */
static void test_room(void **state)
{
	struct tally tally = { .conditions = &conditions, .candidates = 7 };
	char text[32];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		tally.refusals[i].count = 1;
		memset(tally.refusals[i].example, 'x', sizeof(tally.refusals[i].example) - 1);
	}
	for (size_t size = 1; size <= sizeof(text); size++) {
		tally_describe(&tally, text, size);
		assert_true(strlen(text) < size);
	}
}

/* --- the drivers --- */

static bool has_condition(const struct driver *driver, const char *key)
{
	for (const struct conditions *const *p = driver->conditions; p && *p; p++)
		for (size_t i = 0; i < (*p)->count; i++)
			if ((*p)->items[i].key && streq((*p)->items[i].key, key))
				return true;
	return false;
}

/* Lists of patterns that choose among the parts of a device, not among devices. */
static bool chooses_parts(const char *key)
{
	return streq(key, "nodes");
}

/* A list of patterns or numbers is a condition, see option.h. */
static void test_drivers(void **state)
{
	for (const struct driver *const *p = drivers; *p; p++) {
		for (size_t i = 0; (*p)->conditions && i < (*p)->match->count; i++) {
			const struct option *option = &(*p)->match->options[i];

			if ((option->type == OPTION_INTEGERS ||
				    (option->type == OPTION_STRINGS && !option->template)) &&
				!chooses_parts(option->key) && !has_condition(*p, option->key))
				fail_msg("%s: no table has the condition %s", (*p)->name,
					option->key);
		}
		for (const struct conditions *const *q = (*p)->conditions; q && *q; q++) {
			assert_in_range((*q)->count, 1, CONDITIONS_MAX);
			assert_non_null((*p)->noun);
			for (size_t i = 0; i < (*q)->count; i++)
				if ((*q)->items[i].key &&
					!option_table_find((*p)->match, (*q)->items[i].key))
					fail_msg("%s: no key %s", (*p)->name, (*q)->items[i].key);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counting),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_near_misses),
		cmocka_unit_test(test_nearness),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_drivers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
