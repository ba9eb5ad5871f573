/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is published of devices: names, attributes, taints, and which slice a device is in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dra/dra-allocation.h"
#include "dra/model/dra-names.h"
#include "dra/model/dra-slices.h"
#include "dra/model/stored-slice.h"

#define DRIVER "devices.vendor.example"

static json_t *parse(const char *text)
{
	json_error_t error;
	json_t *value = json_loads(text, 0, &error);

	if (!value)
		fail_msg("%s: %s", error.text, text);
	return value;
}

static void check_label(const char *name)
{
	size_t length = strlen(name);

	assert_true(length > 0 && length <= DRA_DEVICE_NAME_MAX);
	assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-"), length);
	assert_int_not_equal(name[0], '-');
	assert_int_not_equal(name[length - 1], '-');
}

static void test_device_names(void **state)
{
	static const char *const ids[] = { "0000:03:00.0", "0000-03-00.0", "GPU-1", "gpu-1",
		"gpu#1", "___",
		"GPU-5f0c6a1e-0000-0000-0000-111122223333@port.with:many=letters+more" };
	char names[ARRAY_SIZE(ids)][DRA_DEVICE_NAME_MAX + 1], other[DRA_DEVICE_NAME_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		dra_device_name("vendor.example/gpu", ids[i], names[i]);
		check_label(names[i]);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(names[i], names[k]);
		dra_device_name("vendor.example/gp", ids[i], other);
		assert_string_not_equal(names[i], other);
	}
	/* Pods and people have them: they must never change. */
	assert_string_equal(names[0], "0000-03-00-0-c0ddf96230");
}

static void test_class_names(void **state)
{
	char name[DRA_CLASS_NAME_MAX + 1];

	dra_class_name("vendor.example/gpu", name);
	assert_string_equal(name, "gpu.vendor.example");
	dra_class_name("vendor.example/GPU_a", name);
	assert_true(startswith(name, "gpu-a-") && strstr(name, ".vendor.example"));
}

static void test_attributes(void **state)
{
	json_auto_t *resources = parse(
		"[{\"name\": \"vendor.example/gpu\", \"devices\": [{\"id\": \"gpu-0\", \"health\": "
		"\"Healthy\", \"cause\": \"\", \"numa\": [1], \"replicas\": 1, \"shared\": false, "
		"\"attributes\": {\"bdf\": \"0000:3b:00.0\", \"model\": \"X100\", \"kernel_name\": "
		"\"card0\", \"sysfs\": \"/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0\", "
		"\"a-b\": \"no name\", \"serial\": "
		"\"0123456789012345678901234567890123456789012345678901234567890123456789\"}}]}]");
	json_auto_t *wanted =
		parse("{\"resource\": {\"string\": \"vendor.example/gpu\"}, \"id\": {\"string\": "
		      "\"gpu-0\"}, \"model\": {\"string\": \"X100\"}, "
		      "\"resource.kubernetes.io/pciBusID\": {\"string\": \"0000:3b:00.0\"}, "
		      "\"resource.kubernetes.io/pcieRoot\": {\"string\": \"pci0000:3a\"}, "
		      "\"resource.kubernetes.io/numaNode\": {\"int\": 1}}");
	struct dra_inventory inventory;
	const json_t *device;

	assert_int_equal(dra_inventory_build(resources, DRIVER, true, &inventory), 0);
	device = json_array_get(json_array_get(inventory.slices, 0), 0);
	assert_true(json_equal(json_object_get(device, "attributes"), wanted));
	dra_inventory_done(&inventory);
}

/* A quantity has one form only, in which the API server stores it. */
static void test_capacity(void **state)
{
	static const struct {
		const char *memory, *capacity; /* NULL: none; then it is an attribute */
	} cases[] = { { "80Gi", "80Gi" }, { "85899345920", "80Gi" }, { "1536", "1536" },
		{ "2048", "2Ki" }, { "1536Mi", "1536Mi" }, { "5000", "5k" }, { "2M", "2M" },
		{ "1000Ki", "1000Ki" }, { "7Ei", "7Ei" }, { "8Ei", NULL }, { "0", NULL },
		{ "", NULL }, { "80GiB", NULL }, { "Gi", NULL }, { "-1", NULL }, { "2K", NULL },
		{ "2ki", NULL }, { "99999999999999999999", NULL }, { "DDR4", NULL } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_auto_t *resources = json_pack(
			"[{s:s, s:[{s:s, s:s, s:s, s:[], s:i, s:b, s:{s:s}}]}]", "name", "v.e/gpu",
			"devices", "id", "gpu-0", "health", "Healthy", "cause", "", "numa",
			"replicas", 1, "shared", 0, "attributes", "memory", cases[i].memory);
		struct dra_inventory inventory;
		const json_t *device, *capacity, *attribute;

		assert_int_equal(dra_inventory_build(resources, DRIVER, true, &inventory), 0);
		device = json_array_get(json_array_get(inventory.slices, 0), 0);
		capacity = json_object_get(
			json_object_get(json_object_get(device, "capacity"), "memory"), "value");
		attribute = json_object_get(json_object_get(device, "attributes"), "memory");
		assert_string_equal(json_string_value(capacity) ?: "", cases[i].capacity ?: "");
		assert_int_equal(attribute != NULL, !cases[i].capacity && *cases[i].memory);
		dra_inventory_done(&inventory);
	}
}

/* `unhealthy`: the device that is, or -1. */
static json_t *many(size_t count, long unhealthy, const char *cause)
{
	json_t *devices = json_array();

	for (size_t i = 0; i < count; i++) {
		char id[32];
		bool bad = (long)i == unhealthy;

		(void)snprintf(id, sizeof(id), "gpu-%04zu", i);
		(void)json_array_append_new(devices,
			json_pack("{s:s, s:s, s:s, s:[], s:i, s:b, s:{}}", "id", id, "health",
				bad ? "Unhealthy" : "Healthy", "cause", bad ? cause : "", "numa",
				"replicas", 1, "shared", 0, "attributes"));
	}
	return json_pack("[{s:s, s:o}]", "name", "vendor.example/gpu", "devices", devices);
}

/* One change concerns one slice, however many there are. */
static void test_slices(void **state)
{
	json_auto_t *before = many(1025, -1, ""), *after = many(1025, 500, "probe");
	struct dra_inventory a, b;
	size_t different = 0;

	assert_int_equal(dra_inventory_build(before, DRIVER, true, &a), 0);
	assert_int_equal(dra_inventory_build(after, DRIVER, true, &b), 0);
	assert_int_equal(json_array_size(a.slices), 9);
	assert_int_equal(json_array_size(b.slices), 9);
	assert_int_equal(json_object_size(a.names), 1025);
	assert_int_equal(b.left_out, 1);
	for (size_t i = 0; i < 9; i++)
		different += !json_equal(json_array_get(a.slices, i), json_array_get(b.slices, i));
	assert_int_equal(different, 1);
	dra_inventory_done(&a);
	dra_inventory_done(&b);
}

static void check_taint(const char *cause, bool taints, size_t listed, const char *value)
{
	json_auto_t *resources = many(2, 1, cause);
	struct dra_inventory inventory;
	const json_t *devices, *taint;

	assert_int_equal(dra_inventory_build(resources, DRIVER, taints, &inventory), 0);
	devices = json_array_get(inventory.slices, 0);
	assert_int_equal(json_array_size(devices), listed);
	taint = json_array_get(json_object_get(json_array_get(devices, 1), "taints"), 0);
	assert_int_equal(taint != NULL, value != NULL);
	if (value) {
		assert_string_equal(
			json_string_value(json_object_get(taint, "key")), DRIVER "/unhealthy");
		assert_string_equal(json_string_value(json_object_get(taint, "value")), value);
	}
	dra_inventory_done(&inventory);
}

static void test_taints(void **state)
{
	check_taint("probe", true, 2, "probe");
	check_taint("cordoned", true, 2, "cordoned");
	check_taint("probe", false, 1, NULL);
	check_taint("gone", true, 1, NULL);
	check_taint("claimed", true, 1, NULL);
}

/* With one device more than a slice with taints may have, a device that is not healthy is left out.
 */
static void test_many_taints(void **state)
{
	for (size_t more = 0; more < 2; more++) {
		json_auto_t *resources = many(DRA_SLICE_TAINTED_DEVICES_MAX + more, 1, "probe");
		struct dra_inventory inventory;
		const json_t *devices;

		assert_int_equal(dra_inventory_build(resources, DRIVER, true, &inventory), 0);
		devices = json_array_get(inventory.slices, 0);
		assert_int_equal(json_array_size(devices), DRA_SLICE_TAINTED_DEVICES_MAX);
		assert_int_equal(inventory.left_out, more);
		assert_int_equal(
			json_object_get(json_array_get(devices, 1), "taints") == NULL, more);
		dra_inventory_done(&inventory);
	}
}

static void test_nothing(void **state)
{
	const struct dra_pool pool = { .driver = DRIVER, .node = "n", .generation = 3 };
	json_auto_t *resources = json_array();
	struct dra_inventory inventory;
	json_auto_t *object = NULL;

	assert_int_equal(dra_inventory_build(resources, DRIVER, true, &inventory), 0);
	assert_int_equal(json_array_size(inventory.slices), 1);
	object = dra_slice_object(&pool, &inventory, 0);
	assert_non_null(object);
	assert_null(json_object_get(json_object_get(object, "metadata"), "ownerReferences"));
	dra_inventory_done(&inventory);
}

/* devplugd ends devplugd-cluster for a claim with such a device. */
static void test_odd_ids(void **state)
{
	json_auto_t *resources =
		parse("[{\"name\": \"v.e/gpu\", \"devices\": ["
		      "{\"id\": \"good\"}, {\"id\": \"\"}, {\"id\": \"a\\nb\"}, {}, {\"id\": 1}, "
		      "{\"id\": \"a/b\"}, {\"id\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}]}]");
	struct dra_inventory inventory;

	assert_int_equal(dra_inventory_build(resources, DRIVER, true, &inventory), 0);
	assert_int_equal(json_object_size(inventory.names), 1);
	dra_inventory_done(&inventory);
}

/* A process may report any number of replicas. */
static void test_many_replicas(void **state)
{
	json_auto_t *resources =
		parse("[{\"name\": \"v.e/evil\", \"devices\": ["
		      "{\"id\": \"a\", \"shared\": true, \"replicas\": 9223372036854775807}, "
		      "{\"id\": \"b\", \"shared\": true, \"replicas\": 9223372036854775807}, "
		      "{\"id\": \"c\", \"shared\": true, \"replicas\": -9223372036854775807}]}, "
		      "{\"name\": \"v.e/gpu\", \"devices\": [{\"id\": \"good\"}]}]");
	struct dra_inventory inventory;

	assert_int_equal(dra_inventory_build(resources, DRIVER, true, &inventory), 0);
	assert_int_equal(json_object_size(inventory.names), DRA_RESOURCE_DEVICES_MAX + 1);
	dra_inventory_done(&inventory);
}

static void test_reports(void **state)
{
	static const char text[] =
		"{\"devices\": [{\"id\": \"a\", \"health\": \"Healthy\"}, {\"id\": "
		"\"b\", \"health\": \"Unhealthy\"}]}\n";
	json_auto_t *devices = dra_devices_read(text, strlen(text));

	assert_int_equal(json_array_size(devices), 2);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(devices, 1), "health")),
		"Unhealthy");
	assert_null(dra_devices_read(text, strlen(text) - 2));
	assert_null(dra_devices_read("", 0));
	assert_null(dra_devices_read("{", 1));
}

#define CLAIM(uid, results)                                                               \
	"{\"metadata\": {\"uid\": \"" uid "\", \"namespace\": \"ns\", \"name\": \"c\"}, " \
	"\"status\": {\"allocation\": {\"devices\": {\"results\": [" results "]}}}}"
#define RESULT(request, driver, pool, device)                                          \
	"{\"request\": \"" request "\", \"driver\": \"" driver "\", \"pool\": \"" pool \
	"\", \"device\": \"" device "\"}"

static int read_claim(const char *text, json_t **ret, struct error *error)
{
	json_auto_t *claim = parse(text);
	json_auto_t *names = parse("{\"gpu-a\": {\"resource\": \"v.e/gpu\", \"id\": \"gpu#1\"}}");

	return dra_allocation_read(claim, "u-1", DRIVER, "n", names, ret, error);
}

static void test_allocation(void **state)
{
	json_auto_t *read = NULL;
	json_auto_t *wanted =
		parse("{\"uid\": \"u-1\", \"namespace\": \"ns\", \"name\": \"c\", \"devices\": "
		      "[{\"request\": \"r\", \"pool\": \"n\", \"name\": \"gpu-a\", \"resource\": "
		      "\"v.e/gpu\", \"id\": \"gpu#1\", \"admin\": false}]}");
	struct error error = { 0 };
	json_t *none;

	assert_int_equal(read_claim(CLAIM("u-1",
					    RESULT("r/sub", DRIVER, "n", "gpu-a") "," RESULT(
						    "r", "other.example", "n", "x")),
				 &read, &error),
		0);
	assert_true(json_equal(read, wanted));
	assert_int_equal(read_claim(CLAIM("u-2", RESULT("r", DRIVER, "n", "gpu-a")), &none, &error),
		-ESTALE);
	assert_int_equal(
		read_claim(CLAIM("u-1", RESULT("r", DRIVER, "m", "gpu-a")), &none, &error), -EXDEV);
	assert_int_equal(read_claim(CLAIM("u-1", RESULT("r", DRIVER, "n", "gpu-b")), &none, &error),
		-ENODEV);
	assert_int_equal(read_claim("{\"metadata\": {\"uid\": \"u-1\"}}", &none, &error), -ENODATA);
}

#define CONFIG(driver)                                                   \
	"{\"source\": \"FromClass\", \"opaque\": {\"driver\": \"" driver \
	"\", \"parameters\": {\"kind\": \"Any\"}}}"

/* Parameters for this driver are refused, those for others are not its matter. */
static void test_parameters(void **state)
{
	json_auto_t *claim = parse(CLAIM("u-1", RESULT("r", DRIVER, "n", "gpu-a")));
	json_auto_t *names = parse("{\"gpu-a\": {\"resource\": \"v.e/gpu\", \"id\": \"gpu#1\"}}");
	json_t *devices = json_object_get(
		json_object_get(json_object_get(claim, "status"), "allocation"), "devices");
	struct error error = { 0 };
	json_t *read;

	(void)json_object_set_new(devices, "config", parse("[" CONFIG("other.example") "]"));
	assert_int_equal(dra_allocation_read(claim, "u-1", DRIVER, "n", names, &read, &error), 0);
	json_decref(read);
	(void)json_object_set_new(
		devices, "config", parse("[" CONFIG("other.example") "," CONFIG(DRIVER) "]"));
	assert_int_equal(
		dra_allocation_read(claim, "u-1", DRIVER, "n", names, &read, &error), -EINVAL);
	assert_non_null(strstr(error.message, "which takes none"));
}

#define TAINTED(value, time)                                                                                                                \
	"{\"spec\": {\"driver\": \"d\", \"nodeName\": \"n\", \"pool\": {}, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\", \"taints\": " \
	"[{\"key\": \"k\", \"value\": \"" value "\", \"effect\": \"NoSchedule\"" time "}]}]}}"

/* The time of a taint is the server's. It stays while the taint does. */
static void test_times_of_taints(void **state)
{
	json_auto_t *stored = parse(TAINTED("hot", ", \"timeAdded\": \"2026-01-01T00:00:00Z\""));
	json_auto_t *same = parse(TAINTED("hot", "")), *other = parse(TAINTED("cold", ""));
	json_auto_t *kept = stored_slice_update(stored, same);
	json_auto_t *changed = stored_slice_update(stored, other);

	assert_true(stored_slice_is(stored, same));
	assert_false(stored_slice_is(stored, other));
	assert_true(json_equal(kept, stored));
	assert_true(json_equal(changed, other));
	/* The wanted object is not changed. */
	assert_false(json_equal(same, stored));
}

/* The driver has just started: the device may be there. */
static void test_unknown_devices(void **state)
{
	json_auto_t *claim = parse(CLAIM("u-1", RESULT("r", DRIVER, "n", "gpu-a")));
	struct error error = { 0 };
	json_t *none;

	assert_int_equal(
		dra_allocation_read(claim, "u-1", DRIVER, "n", NULL, &none, &error), -EAGAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_device_names),
		cmocka_unit_test(test_class_names),
		cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_capacity),
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_taints),
		cmocka_unit_test(test_many_taints),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_odd_ids),
		cmocka_unit_test(test_many_replicas),
		cmocka_unit_test(test_reports),
		cmocka_unit_test(test_allocation),
		cmocka_unit_test(test_unknown_devices),
		cmocka_unit_test(test_parameters),
		cmocka_unit_test(test_times_of_taints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
