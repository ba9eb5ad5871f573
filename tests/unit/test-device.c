/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids, devices, the map of names, and the size of a list on the wire.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/map.h"
#include "drivers/inventory/list-size.h"
#include "drivers/model/device.h"

static void test_id_kept(void **state)
{
	static const char *const texts[] = { "ttyUSB0", "net:tun", "0000:03:00.0", "a+b=c@d_e-f.g",
		"123456789012345678901234567890123456789012345678901234567890123" };
	char id[DEVICE_ID_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		device_id_make(texts[i], id);
		assert_string_equal(id, texts[i]);
	}
}

static void test_id_changed(void **state)
{
	char a[DEVICE_ID_MAX + 1], b[DEVICE_ID_MAX + 1], text[301];

	device_id_make("my disk", a);
	device_id_make("my\tdisk", b);
	assert_true(strncmp(a, "my-disk-", 8) == 0);
	assert_true(strncmp(b, "my-disk-", 8) == 0);
	assert_string_not_equal(a, b);
	device_id_make("my disk", b);
	assert_string_equal(a, b);

	device_id_make("", a);
	assert_true(strlen(a) > 1);
	device_id_make("\xff\xfe#\n", a);
	for (const char *p = a; *p; p++)
		assert_true(*p > 0x20 && *p < 0x7f && *p != '#');

	memset(text, 'x', 300);
	text[300] = '\0';
	device_id_make(text, a);
	text[299] = 'y';
	device_id_make(text, b);
	assert_int_equal(strlen(a), DEVICE_ID_MAX);
	assert_string_not_equal(a, b);
}

static struct device *make(void)
{
	struct device *device;

	assert_int_equal(device_new("a", &device), 0);
	assert_int_equal(device_add_node(device, "/dev/a", NULL, "rw"), 0);
	assert_int_equal(device_add_mount(device, "/run/a", "/a", true), 0);
	assert_int_equal(device_add_numa(device, 1), 0);
	assert_int_equal(device_add_variable(device, "serial", "7"), 0);
	return device;
}

static void test_device(void **state)
{
	_cleanup_device_ struct device *device = make(), *other = make();

	assert_string_equal(device->nodes[0].path, "/dev/a");
	assert_string_equal(device->nodes[1].path, "/a");
	assert_true(device->nodes[1].mount && device->nodes[1].read_only);
	assert_string_equal(device_variable(device, "serial"), "7");
	assert_null(device_variable(device, "bdf"));
	assert_int_equal(device_add_node(device, "/dev/b", NULL, "rwmr"), -EINVAL);
	assert_int_equal(device->n_nodes, 2);

	assert_int_equal(device_add_numa(device, -1), 0);
	assert_int_equal(device_add_numa(device, 1), 0);
	assert_true(device_equal(device, other));
	assert_int_equal(device_add_numa(device, 3), 0);
	assert_int_equal(device_add_numa(device, 0), 0);
	assert_int_equal(device->n_numa, 3);
	assert_int_equal(device->numa[0], 0);
	assert_int_equal(device->numa[1], 1);
	assert_int_equal(device->numa[2], 3);
	assert_false(device_equal(device, other));
}

static void test_device_differs(void **state)
{
	_cleanup_device_ struct device *a = make(), *b = make();

	strcpy(b->nodes[0].permissions, "r");
	assert_false(device_equal(a, b));
	strcpy(b->nodes[0].permissions, "rw");
	assert_true(device_equal(a, b));
	b->host_paths = 1;
	assert_false(device_equal(a, b));
	b->host_paths = 0;
	b->lacks_node = true;
	assert_false(device_equal(a, b));
	b->lacks_node = false;
	b->variables[0].value[0] = '8';
	assert_false(device_equal(a, b));
}

/* The first one counts; a long one is cut between characters. */
static void test_problem(void **state)
{
	_cleanup_device_ struct device *a = make(), *b = make();
	char text[2 * DEVICE_PROBLEM_MAX] = "";

	assert_int_equal(device_set_problem(a, "bound to %s", "nouveau"), 0);
	assert_int_equal(device_set_problem(a, "too late"), 0);
	assert_string_equal(a->problem, "bound to nouveau");
	assert_false(device_equal(a, b));
	while (strlen(text) + 2 < sizeof(text))
		(void)strcat(text, "\xc3\xa4");
	assert_int_equal(device_set_problem(b, "%s", text), 0);
	assert_int_equal(strlen(b->problem), DEVICE_PROBLEM_MAX - 2);
	assert_false(b->lacks_node);
	assert_int_equal(device_set_lack(b, "no node"), 0);
	assert_true(b->lacks_node);
	assert_int_equal(strlen(b->problem), DEVICE_PROBLEM_MAX - 2);
}

/* Against a plain array, with few enough keys that runs of slots grow and wrap. */
static void test_map(void **state)
{
	static char keys[200][8];
	bool present[200] = { false };
	struct map map = { 0 };
	unsigned random = 1;
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		(void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
	for (unsigned step = 0; step < 20000; step++) {
		size_t i;

		random = random * 1103515245 + 12345;
		i = (random >> 16) % ARRAY_SIZE(keys);
		if (random & 0x8000) {
			assert_int_equal(map_put(&map, keys[i], keys[i]), present[i] ? -EEXIST : 0);
			count += !present[i];
			present[i] = true;
		} else {
			assert_ptr_equal(map_remove(&map, keys[i]), present[i] ? keys[i] : NULL);
			count -= present[i];
			present[i] = false;
		}
		assert_int_equal(map.count, count);
		if (step % 100 == 0)
			for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
				assert_ptr_equal(
					map_get(&map, keys[k]), present[k] ? keys[k] : NULL);
	}
	map_done(&map);
}

static void test_list_size(void **state)
{
	static const int numa[] = { 0, 1, 300 };
	uint64_t sum = 0;

	/* 0a LL { 0a 03 x x x 12 09 "Unhealthy" } */
	assert_int_equal(device_list_entry_size(3, NULL, 0), 2 + 5 + 11);
	/* ... 1a 02 0a 00 */
	assert_int_equal(device_list_entry_size(3, numa, 1), 2 + 5 + 11 + 4);
	/* ... 1a 0b 0a 00 0a 02 08 01 0a 03 08 ac 02 */
	assert_int_equal(device_list_entry_size(3, numa, 3), 2 + 5 + 11 + 2 + 2 + 4 + 5);
	/* Lengths of two bytes. */
	assert_int_equal(device_list_entry_size(128, NULL, 0), 3 + 131 + 11);

	for (unsigned i = 0; i < 1234; i++)
		sum += device_list_entry_size((size_t)snprintf(NULL, 0, "abc#%u", i), numa, 1);
	assert_int_equal(device_list_unit_size(3, true, 1234, numa, 1), sum);
	assert_int_equal(
		device_list_unit_size(3, false, 1, numa, 1), device_list_entry_size(3, numa, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_id_kept),
		cmocka_unit_test(test_id_changed),
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_device_differs),
		cmocka_unit_test(test_problem),
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_list_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
