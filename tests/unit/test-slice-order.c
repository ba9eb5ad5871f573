/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of devices in slices, by the key `prefer`. The scheduler takes the first that fit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/json-read.h"
#include "dra/model/slice-order.h"

/* Two cards of two parts each on NUMA node 0, a device on node 1, and one on both nodes. */
static json_t *machine(const char *prefer, json_int_t replicas)
{
	static const struct {
		const char *id, *card;
		int numa; /* -1: several */
	} devices[] = { { "a0", "0000:03:00.0", 0 }, { "a1", "0000:03:00.0", 0 },
		{ "b0", "0000:04:00.0", 0 }, { "b1", "0000:04:00.0", 0 }, { "m", "", -1 },
		{ "n", "0000:83:00.0", 1 } };
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		json_t *device = json_pack("{s:s, s:s, s:I, s:s, s:[i]}", "id", devices[i].id,
			"prefer", prefer, "replicas", replicas, "pci_address", devices[i].card,
			"numa", MAX_OF(devices[i].numa, 0));

		if (devices[i].numa < 0)
			(void)json_array_append_new(
				json_object_get(device, "numa"), json_integer(1));
		(void)json_array_append_new(list, device);
	}
	return list;
}

static void expect(const char *prefer, json_int_t replicas, const char *order)
{
	json_auto_t *devices = machine(prefer, replicas);
	_cleanup_free_ struct slice_place *places = NULL;
	char text[256] = "";
	size_t n;

	assert_int_equal(slice_order(devices, 100, "", 0, &places, &n), 0);
	assert_int_equal(n, 6 * (size_t)replicas);
	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(text);

		(void)snprintf(text + length, sizeof(text) - length, "%s%s", i > 0 ? " " : "",
			text_of(places[i].device, "id"));
		if (replicas > 1)
			(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "#%lld",
				(long long)places[i].replica);
	}
	assert_string_equal(text, order);
}

static void test_order(void **state)
{
	static const char *const kept[] = { "none", "packed", "links", "", "other" };

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		expect(kept[i], 1, "a0 a1 b0 b1 m n");
		expect(kept[i], 2, "a0#0 a0#1 a1#0 a1#1 b0#0 b0#1 b1#0 b1#1 m#0 m#1 n#0 n#1");
	}
	/* What is on no node, or on several, comes last. */
	expect("numa", 1, "a0 a1 b0 b1 n m");
	expect("numa", 2, "a0#0 a0#1 a1#0 a1#1 b0#0 b0#1 b1#0 b1#1 n#0 n#1 m#0 m#1");
	expect("distinct", 2, "a0#0 a1#0 b0#0 b1#0 m#0 n#0 a0#1 a1#1 b0#1 b1#1 m#1 n#1");
	/* Another node before another card, another card before another part of one. */
	expect("spread", 1, "a0 n m b0 a1 b1");
	expect("spread", 2, "a0#0 n#0 m#0 b0#0 a1#0 b1#0 a0#1 n#1 m#1 b0#1 a1#1 b1#1");
}

static void test_limits(void **state)
{
	json_auto_t *devices = json_loads(
		"[{\"id\": \"a\", \"prefer\": \"spread\", \"replicas\": 9223372036854775807, "
		"\"withheld\": [1, 3]}, {\"id\": \"a b\"}, {}, 1, {\"id\": \"b\", \"replicas\": -1}]",
		0, NULL);
	_cleanup_free_ struct slice_place *places = NULL;
	size_t n;

	assert_int_equal(slice_order(devices, 5, "", 0, &places, &n), 0);
	assert_int_equal(n, 5);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(places[i].replica, i);
		assert_int_equal(places[i].withheld, i == 1 || i == 3);
	}
	free(places);
	places = NULL;
	assert_int_equal(slice_order(NULL, 5, "", 0, &places, &n), 0);
	assert_int_equal(n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
