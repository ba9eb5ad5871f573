/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is published of devices: names, attributes, taints, and which slice a device is in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/json-read.h"
#include "dra/dra-allocation.h"
#include "dra/model/dra-names.h"
#include "dra/model/dra-slices.h"
#include "dra/model/slice-lacks.h"
#include "dra/model/slice-taints.h"
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

static const struct dra_inventory_options all = { .driver = DRIVER };
static const struct dra_inventory_options few = { .driver = DRIVER,
	.lacks = 1U << LACK_MANY_TAINTS };

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
		"\"attributes\": {\"resource.kubernetes.io/pciBusID\": {\"string\": "
		"\"0000:3b:00.0\"}, \"model\": {\"string\": \"X100\"}, \"lanes\": {\"int\": 16}, "
		"\"ecc\": {\"bool\": true}, \"fw.example/rev\": {\"version\": \"2.1.0\"}, "
		"\"resource.kubernetes.io/pcieRoot\": {\"string\": \"pci0000:3a\"}}}]}]");
	json_auto_t *wanted =
		parse("{\"resource\": {\"string\": \"vendor.example/gpu\"}, \"id\": {\"string\": "
		      "\"gpu-0\"}, \"model\": {\"string\": \"X100\"}, \"lanes\": {\"int\": 16}, "
		      "\"ecc\": {\"bool\": true}, \"fw.example/rev\": {\"version\": \"2.1.0\"}, "
		      "\"k8s.cni.cncf.io/deviceID\": {\"string\": \"0000:3b:00.0\"}, "
		      "\"k8s.cni.cncf.io/resourceName\": {\"string\": \"vendor.example/gpu\"}, "
		      "\"resource.kubernetes.io/pciBusID\": {\"string\": \"0000:3b:00.0\"}, "
		      "\"resource.kubernetes.io/pcieRoot\": {\"string\": \"pci0000:3a\"}, "
		      "\"resource.kubernetes.io/numaNode\": {\"int\": 1}}");
	struct dra_inventory inventory;
	const json_t *device;

	assert_int_equal(dra_inventory_build(resources, &all, &inventory), 0);
	device = json_array_get(json_array_get(inventory.slices, 0), 0);
	assert_true(json_equal(json_object_get(device, "attributes"), wanted));
	dra_inventory_done(&inventory);
}

#define NODES(list) "\"resource.kubernetes.io/numaNode\": {\"ints\": " list "}"

/* The list that a process reports, and one number for metadata and for a server without lists. */
static void test_list_of_nodes(void **state)
{
	static const struct {
		const char *numa;
		unsigned lacks;
		const char *published, *metadata;
	} cases[] = {
		{ "[1]", 0, "{\"ints\": [1, 0]}", "{\"int\": 1}" },
		{ "[1]", 1U << LACK_LISTS, "{\"int\": 1}", "{\"int\": 1}" },
		{ "[0, 1]", 0, "{\"ints\": [1, 0]}", NULL },
		{ "[0, 1]", 1U << LACK_LISTS, NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct dra_inventory_options options = { .driver = DRIVER,
			.lacks = cases[i].lacks };
		json_auto_t *resources =
			parse("[{\"name\": \"v.e/gpu\", \"devices\": [{\"id\": \"gpu-0\", "
			      "\"health\": \"Healthy\", \"attributes\": {" NODES("[1, 0]") "}}]}]");
		json_auto_t *numa = parse(cases[i].numa);
		json_auto_t *published = cases[i].published ? parse(cases[i].published) : NULL;
		json_auto_t *metadata = cases[i].metadata ? parse(cases[i].metadata) : NULL;
		const char *const name = "resource.kubernetes.io/numaNode";
		struct dra_inventory inventory;
		const json_t *device, *known;

		(void)json_object_set(
			json_array_get(json_object_get(json_array_get(resources, 0), "devices"), 0),
			"numa", numa);
		assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
		device = json_array_get(json_array_get(inventory.slices, 0), 0);
		known = json_object_get(inventory.names, text_of(device, "name"));
		device = json_object_get(json_object_get(device, "attributes"), name);
		known = json_object_get(json_object_get(known, "attributes"), name);
		assert_true(published ? json_equal(device, published) : !device);
		assert_true(metadata ? json_equal(known, metadata) : !known);
		dra_inventory_done(&inventory);
	}
}

/* A faulty process may report any, and the API server refuses the whole slice for one of them. */
static void test_hostile_attributes(void **state)
{
	static const char *const reported[] = {
		"\"a-b\": {\"string\": \"x\"}",
		"\"" DRIVER "/id\": {\"string\": \"x\"}",
		"\"resource.kubernetes.io/numaNode\": {\"int\": 7}",
		"\"resource.kubernetes.io/pciBusID\": {\"string\": \"x\"}",
		"\"resource.kubernetes.io/pciBusID\": {\"int\": 1}",
		"\"resource.kubernetes.io/pcieRoot\": {\"string\": \"x\"}",
		"\"a\": {\"string\": \"01234567890123456789012345678901234567890123456789012345678901234\"}",
		"\"a\": {\"string\": \"\"}",
		"\"a\": {\"string\": 1}",
		"\"a\": {\"int\": \"1\"}",
		"\"a\": {\"int\": 1.5}",
		"\"a\": {\"bool\": 1}",
		"\"a\": {\"version\": \"1.02.3\"}",
		"\"a\": {\"ints\": [1]}",
		NODES("[]"),
		NODES("[1,0,1]"),
		NODES("[-1]"),
		NODES("[0.5]"),
		NODES("[\"0\"]"),
		NODES("[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]"),
		NODES("[0], \"int\": 0"),
		"\"a\": {\"int\": 1, \"bool\": true}",
		"\"a\": {}",
		"\"a\": \"x\"",
	};
	json_auto_t *wanted =
		parse("{\"resource\": {\"string\": \"v.e/gpu\"}, \"id\": {\"string\": \"gpu-0\"}, "
		      "\"k8s.cni.cncf.io/deviceID\": {\"string\": \"gpu-0\"}, "
		      "\"k8s.cni.cncf.io/resourceName\": {\"string\": \"v.e/gpu\"}}");

	for (size_t i = 0; i < ARRAY_SIZE(reported); i++) {
		struct dra_inventory inventory;
		json_auto_t *resources = NULL;
		const json_t *device;
		char text[400];

		(void)snprintf(text, sizeof(text),
			"[{\"name\": \"v.e/gpu\", \"devices\": [{\"id\": \"gpu-0\", \"health\": "
			"\"Healthy\", \"attributes\": {%s}}]}]",
			reported[i]);
		resources = parse(text);
		assert_int_equal(dra_inventory_build(resources, &all, &inventory), 0);
		device = json_array_get(json_array_get(inventory.slices, 0), 0);
		if (!json_equal(json_object_get(device, "attributes"), wanted))
			fail_msg("%s", reported[i]);
		dra_inventory_done(&inventory);
	}
}

#define TAINT(name) "[{\"key\": \"" DRIVER "/" name "\", \"effect\": \"NoSchedule\"}]"
#define UNHEALTHY(value)                                                              \
	"[{\"key\": \"" DRIVER "/unhealthy\", \"value\": \"" value "\", \"effect\": " \
	"\"NoSchedule\"}]"

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

	assert_int_equal(dra_inventory_build(before, &all, &a), 0);
	assert_int_equal(dra_inventory_build(after, &all, &b), 0);
	assert_int_equal(json_array_size(a.slices), 17);
	assert_int_equal(json_array_size(b.slices), 17);
	assert_int_equal(json_object_size(a.names), 1025);
	assert_int_equal(json_array_size(json_array_get(b.slices, 0)), DRA_SLICE_DEVICES_MAX);
	assert_int_equal(b.left_out, 0);
	for (size_t i = 0; i < 17; i++)
		different += !json_equal(json_array_get(a.slices, i), json_array_get(b.slices, i));
	assert_int_equal(different, 1);
	dra_inventory_done(&a);
	dra_inventory_done(&b);
}

static void check_taint(const char *cause, unsigned lacks, const char *wanted)
{
	json_auto_t *resources = many(2, 1, cause), *taints = wanted ? parse(wanted) : NULL;
	const struct dra_inventory_options options = { .driver = DRIVER, .lacks = lacks };
	struct dra_inventory inventory;
	const json_t *devices;

	assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
	devices = json_array_get(inventory.slices, 0);
	assert_int_equal(json_array_size(devices), wanted ? 2 : 1);
	assert_null(json_object_get(json_array_get(devices, 0), "taints"));
	if (wanted)
		assert_true(
			json_equal(json_object_get(json_array_get(devices, 1), "taints"), taints));
	assert_int_equal(inventory.left_out, !wanted);
	dra_inventory_done(&inventory);
}

static void test_taints(void **state)
{
	check_taint("probe", 0, UNHEALTHY("probe"));
	check_taint("device", 0, UNHEALTHY("device"));
	check_taint("stale", 0, UNHEALTHY("stale"));
	check_taint("cordoned", 0, TAINT("cordoned"));
	/* A value that is no label would make the server refuse the slice. */
	check_taint("No label", 0, TAINT("unhealthy"));
	check_taint("probe", 1U << LACK_TAINTS, NULL);
	check_taint("cordoned", 1U << LACK_TAINTS, NULL);
	check_taint("gone", 0, NULL);
	check_taint("claimed", 0, NULL);
}

#define EFFECT(name, effect) "{\"key\": \"" DRIVER "/" name "\", \"effect\": \"" effect "\"}"
#define FOUND(reason, severity) \
	"{\"reason\": \"" reason "\", \"severity\": \"" severity "\", \"text\": \"t\"}"
#define NO_REASON \
	"{\"key\": \"" DRIVER "/unhealthy\", \"value\": \"probe\", \"effect\": \"NoSchedule\"}"

/* A key for each reason that a probe has; the process that reports them may be faulty. */
static void test_findings(void **state)
{
	static const struct {
		const char *health, *cause, *findings;
		unsigned lacks;
		const char *taints; /* "[]": none */
	} cases[] = {
		{ "Unhealthy", "probe", "[" FOUND("hot", "no-new-pods") "]", 0,
			"[" EFFECT("hot", "NoSchedule") "]" },
		{ "Healthy", "", "[" FOUND("hot", "notice") "]", 0, "[" EFFECT("hot", "None") "]" },
		{ "Healthy", "", "[" FOUND("hot", "notice") "]", 1U << LACK_NOTICES, "[]" },
		{ "Healthy", "", "[" FOUND("hot", "notice") "]", 1U << LACK_TAINTS, "[]" },
		{ "Unhealthy", "probe",
			"[" FOUND("hot", "notice") "," FOUND("dead", "no-new-pods") "," FOUND(
				"", "no-new-pods") "]",
			0,
			"[" EFFECT("dead", "NoSchedule") "," NO_REASON
							 "," EFFECT("hot", "None") "]" },
		{ "Unhealthy", "cordoned", "[" FOUND("dead", "no-new-pods") "]", 0,
			"[" EFFECT("cordoned", "NoSchedule") "," EFFECT("dead", "NoSchedule") "]" },
		/* One reason of two probes. */
		{ "Unhealthy", "probe",
			"[" FOUND("hot", "notice") "," FOUND("hot", "no-new-pods") "]", 0,
			"[" EFFECT("hot", "NoSchedule") "]" },
		/* It has not been probed yet. */
		{ "Unhealthy", "probe", "[" FOUND("hot", "notice") "]", 0,
			"[" NO_REASON "," EFFECT("hot", "None") "]" },
		/* Words of devplugd's, and what is no label. */
		{ "Unhealthy", "probe", "[" FOUND("missing", "no-new-pods") "]", 0,
			"[" NO_REASON "]" },
		{ "Unhealthy", "probe", "[" FOUND("cordoned", "no-new-pods") "]", 0,
			"[" NO_REASON "]" },
		{ "Unhealthy", "probe", "[" FOUND("a/b", "no-new-pods") "]", 0, "[" NO_REASON "]" },
		{ "Unhealthy", "probe", "[" FOUND("-a", "no-new-pods") "]", 0, "[" NO_REASON "]" },
		{ "Unhealthy", "probe",
			"[" FOUND(
				"a234567890123456789012345678901234567890123456789012345678901234",
				"no-new-pods") "]",
			0, "[" NO_REASON "]" },
		{ "Unhealthy", "probe", "[1, \"x\", {}]", 0, "[" NO_REASON "]" },
		{ "Unhealthy", "probe", "{\"hot\": 1}", 0, "[" NO_REASON "]" },
		/* An unknown severity keeps pods away. */
		{ "Unhealthy", "probe", "[" FOUND("hot", "other") "]", 0,
			"[" EFFECT("hot", "NoSchedule") "]" },
		{ "Unhealthy", "probe",
			"[" FOUND("dead", "no-new-pods") "," FOUND("hot", "evict") "]", 0,
			"[" EFFECT("hot", "NoSchedule") "," EFFECT("dead", "NoSchedule") "]" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct dra_inventory_options options = {
			.driver = DRIVER,
			.lacks = cases[i].lacks,
		};
		json_auto_t *resources = json_pack("[{s:s, s:[{s:s, s:s, s:s, s:o}]}]", "name",
			"v.e/gpu", "devices", "id", "a", "health", cases[i].health, "cause",
			cases[i].cause, "findings", parse(cases[i].findings));
		json_auto_t *wanted = parse(cases[i].taints);
		struct dra_inventory inventory;
		const json_t *taints;

		assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
		taints = json_object_get(
			json_array_get(json_array_get(inventory.slices, 0), 0), "taints");
		if (json_array_size(wanted) == 0)
			assert_null(taints);
		else
			assert_true(json_equal(taints, wanted));
		dra_inventory_done(&inventory);
	}
}

static json_t *taints_of(const json_t *devices)
{
	const struct dra_inventory_options options = { .driver = DRIVER };
	json_auto_t *resources = json_pack("[{s:s, s:O}]", "name", "v.e/gpu", "devices", devices);
	struct dra_inventory inventory;
	json_t *taints;

	assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
	taints = json_incref(
		json_object_get(json_array_get(json_array_get(inventory.slices, 0), 0), "taints"));
	dra_inventory_done(&inventory);
	return taints;
}

/* Only failures that evict get the effect, and only while their pods are evicted. */
static void test_taints_that_evict(void **state)
{
	json_auto_t *devices = parse(
		"[{\"id\": \"a\", \"health\": \"Unhealthy\", \"cause\": \"probe\","
		"\"findings\": [" FOUND("hot", "evict") "," FOUND("dead", "no-new-pods") "]}]");
	json_auto_t *before = json_deep_copy(devices);
	json_auto_t *this = parse("{\"a\": true}"), *other = parse("{\"b\": true}");
	json_auto_t *marked = slice_taints_mark(devices, this);
	json_auto_t *unmarked = slice_taints_mark(marked, other);
	json_auto_t *evicting =
		parse("[" EFFECT("hot", "NoExecute") "," EFFECT("dead", "NoSchedule") "]");
	json_auto_t *waiting =
		parse("[" EFFECT("hot", "NoSchedule") "," EFFECT("dead", "NoSchedule") "]");
	json_auto_t *taints = taints_of(marked), *later = taints_of(unmarked);

	assert_true(json_equal(devices, before));
	assert_true(json_equal(unmarked, before));
	assert_true(json_equal(taints, evicting));
	assert_true(json_equal(later, waiting));
}

/* The API's limit; what keeps pods away comes first. */
static void test_many_taints(void **state)
{
	json_t *findings = json_array();
	json_auto_t *resources =
		json_pack("[{s:s, s:[{s:s, s:s, s:s, s:o}]}]", "name", "v.e/gpu", "devices", "id",
			"a", "health", "Unhealthy", "cause", "cordoned", "findings", findings);
	struct dra_inventory inventory;
	const json_t *taints, *taint;
	size_t i;

	for (unsigned k = 0; k < 40; k++) {
		char reason[16];

		(void)snprintf(reason, sizeof(reason), "r%u", k);
		(void)json_array_append_new(findings,
			json_pack("{s:s, s:s}", "reason", reason, "severity",
				k % 4 ? "notice" : "no-new-pods"));
	}
	assert_int_equal(dra_inventory_build(resources, &all, &inventory), 0);
	taints = json_object_get(json_array_get(json_array_get(inventory.slices, 0), 0), "taints");
	assert_int_equal(json_array_size(taints), DRA_TAINTS_MAX);
	json_array_foreach(taints, i, taint)
	{
		assert_string_equal(json_string_value(json_object_get(taint, "effect")),
			i < 11 ? "NoSchedule" : "None");
	}
	assert_int_equal(inventory.missed, 0);
	dra_inventory_done(&inventory);
	/* Before Kubernetes 1.35. */
	assert_int_equal(dra_inventory_build(resources, &few, &inventory), 0);
	taints = json_object_get(json_array_get(json_array_get(inventory.slices, 0), 0), "taints");
	assert_int_equal(json_array_size(taints), DRA_TAINTS_FEW_MAX);
	assert_string_equal(text_of(json_array_get(taints, 0), "key"), DRIVER "/cordoned");
	assert_int_equal(inventory.missed, 1U << LACK_MANY_TAINTS);
	dra_inventory_done(&inventory);
}

/* A device that a claim holds stays, healthy or not. */
static void check_held(const char *cause, unsigned lacks, const char *wanted)
{
	json_auto_t *resources = many(2, 1, cause), *taints = parse(wanted), *held = json_object();
	const struct dra_inventory_options options = {
		.driver = DRIVER,
		.lacks = lacks,
		.held = held,
	};
	char name[DRA_DEVICE_NAME_MAX + 1];
	struct dra_inventory inventory;
	const json_t *device;

	dra_device_name("vendor.example/gpu", "gpu-0001", name);
	(void)json_object_set_new(held, name,
		json_pack("{s:s, s:s, s:s}", "driver", DRIVER, "resource", "vendor.example/gpu",
			"id", "gpu-0001"));
	assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
	device = json_array_get(json_array_get(inventory.slices, 0), 1);
	assert_string_equal(json_string_value(json_object_get(device, "name")), name);
	if (lacks)
		assert_null(json_object_get(device, "taints"));
	else
		assert_true(json_equal(json_object_get(device, "taints"), taints));
	assert_int_equal(inventory.left_out, 0);
	dra_inventory_done(&inventory);
}

static void test_held_devices(void **state)
{
	check_held("gone", 0, TAINT("missing"));
	check_held("claimed", 0, UNHEALTHY("claimed"));
	check_held("probe", 0, UNHEALTHY("probe"));
	check_held("gone", 1U << LACK_TAINTS, "[]");
	check_held("probe", 1U << LACK_TAINTS, "[]");
}

/* Which devices of claims make other slices: one that is not offered otherwise, or not listed. */
static void test_changes_of_held_devices(void **state)
{
	static const struct {
		const char *before, *now;
		unsigned lacks;
		bool follows;
	} cases[] = {
		{ "{}", "{}", 0, false },
		{ "{}", "{\"HEALTHY\": {}}", 0, false },
		{ "{\"HEALTHY\": {}}", "{}", 1U << LACK_TAINTS, false },
		{ "{}", "{\"UNHEALTHY\": {}}", 0, false },
		{ "{}", "{\"UNHEALTHY\": {}}", 1U << LACK_TAINTS, true },
		{ "{\"UNHEALTHY\": {}}", "{}", 1U << LACK_TAINTS, true },
		{ "{\"UNHEALTHY\": {}}", "{\"HEALTHY\": {}, \"UNHEALTHY\": {}}", 1U << LACK_TAINTS,
			false },
		{ "{}", "{\"unlisted\": {}}", 0, true },
		{ "{\"unlisted\": {}}", "{}", 0, true },
		{ "{\"unlisted\": {}}", "{\"unlisted\": {}, \"HEALTHY\": {}}", 0, false },
		/* A listed device is left out while a claim of another driver holds it. */
		{ "{}", "{\"HEALTHY\": {\"driver\": \"other.example\"}}", 0, true },
		{ "{\"HEALTHY\": {\"driver\": \"other.example\"}}", "{}", 0, true },
		{ "{\"HEALTHY\": {\"driver\": \"other.example\"}}", "{\"HEALTHY\": {}}", 0, true },
		{ "{}", "{\"unlisted\": {\"driver\": \"other.example\"}}", 0, false },
	};
	json_auto_t *resources = many(2, 1, "probe");
	char healthy[DRA_DEVICE_NAME_MAX + 1], unhealthy[DRA_DEVICE_NAME_MAX + 1];

	dra_device_name("vendor.example/gpu", "gpu-0000", healthy);
	dra_device_name("vendor.example/gpu", "gpu-0001", unhealthy);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct dra_inventory_options options = { .driver = DRIVER,
			.lacks = cases[i].lacks };
		const char *const texts[] = { cases[i].before, cases[i].now };
		json_t *held[2];
		struct dra_inventory inventory;

		for (size_t k = 0; k < 2; k++) {
			json_auto_t *named = parse(texts[k]);
			const char *name;
			json_t *device;

			held[k] = json_object();
			json_object_foreach(named, name, device)
			{
				if (!json_object_get(device, "driver"))
					(void)json_object_set_new(
						device, "driver", json_string(DRIVER));
				(void)json_object_set(held[k],
					streq(name, "HEALTHY")             ? healthy
						: streq(name, "UNHEALTHY") ? unhealthy
									   : name,
					device);
			}
		}
		assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
		if (dra_inventory_follows_held(&inventory, DRIVER, held[0], held[1]) !=
			cases[i].follows)
			fail_msg("%s to %s", cases[i].before, cases[i].now);
		dra_inventory_done(&inventory);
		json_decref(held[0]);
		json_decref(held[1]);
	}
}

/* Also one that no resource lists any more; it follows the others. */
static void test_unlisted_devices(void **state)
{
	json_auto_t *resources = many(DRA_SLICE_DEVICES_MAX, -1, "");
	json_auto_t *held = parse("{\"a-0\": {\"driver\": \"" DRIVER
				  "\", \"resource\": \"v.e/old\", \"id\": \"a\"}}");
	json_auto_t *wanted = parse("[{\"name\": \"a-0\", \"attributes\": {\"resource\": "
				    "{\"string\": \"v.e/old\"}, \"id\": {\"string\": \"a\"}, "
				    "\"k8s.cni.cncf.io/deviceID\": {\"string\": \"a\"}, "
				    "\"k8s.cni.cncf.io/resourceName\": {\"string\": \"v.e/old\"}}, "
				    "\"taints\": " TAINT("missing") "}]");
	const struct dra_inventory_options options = { .driver = DRIVER, .held = held };
	struct dra_inventory inventory;

	assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
	assert_int_equal(json_array_size(inventory.slices), 2);
	assert_true(json_equal(json_array_get(inventory.slices, 1), wanted));
	/* The kubelet gets no health of it, because none is known. */
	assert_null(json_object_get(inventory.names, "a-0"));
	dra_inventory_done(&inventory);
}

/* A device that a claim of another driver holds is in the slices of that driver. */
static void test_held_by_another_driver(void **state)
{
	json_auto_t *resources = many(3, -1, ""), *held = json_object();
	const struct dra_inventory_options options = { .driver = DRIVER, .held = held };
	char name[DRA_DEVICE_NAME_MAX + 1];
	struct dra_inventory inventory;
	const json_t *devices;

	dra_device_name("vendor.example/gpu", "gpu-0001", name);
	(void)json_object_set_new(held, name,
		json_pack("{s:s, s:s, s:s}", "driver", "other.example", "resource",
			"vendor.example/gpu", "id", "gpu-0001"));
	(void)json_object_set_new(held, "gone-0",
		json_pack("{s:s, s:s, s:s}", "driver", "other.example", "resource", "v.e/gone",
			"id", "gone-0"));
	assert_int_equal(dra_inventory_build(resources, &options, &inventory), 0);
	assert_int_equal(json_array_size(inventory.slices), 1);
	devices = json_array_get(inventory.slices, 0);
	assert_int_equal(json_array_size(devices), 2);
	for (size_t i = 0; i < 2; i++)
		assert_string_not_equal(
			json_string_value(json_object_get(json_array_get(devices, i), "name")),
			name);
	assert_int_equal(inventory.left_out, 1);
	dra_inventory_done(&inventory);
}

/* --- what the server makes of a slice --- */

static json_t *slice_of(const char *devices)
{
	json_t *slice = parse("{\"metadata\": {\"name\": \"s\"}, \"spec\": {\"driver\": \"d\", "
			      "\"nodeName\": \"n\", \"pool\": {\"generation\": 1}}}");

	(void)json_object_set_new(json_object_get(slice, "spec"), "devices", parse(devices));
	return slice;
}

#define A_TAINTED              "{\"name\": \"a\", \"taints\": " TAINT("cordoned") "}"
#define B_TAINTED              "{\"name\": \"b\", \"taints\": " TAINT("cordoned") "}"
#define CAPACITY(value)        "{\"name\": \"a\", \"capacity\": {\"memory\": {" value "}}}"
#define ATTRIBUTE(name, value) "{\"name\": \"a\", \"attributes\": {\"" name "\": {" value "}}}"

static void test_dropped_fields(void **state)
{
	static const struct {
		const char *sent, *stored;
		unsigned lacks;
		const char *other;
	} cases[] = {
		{ "[" A_TAINTED "]", "[" A_TAINTED "]", 0, "" },
		{ "[" A_TAINTED "]", "[{\"name\": \"a\"}]", 1U << LACK_TAINTS, "" },
		/* In one device only. */
		{ "[" A_TAINTED "," B_TAINTED "]", "[" A_TAINTED ", {\"name\": \"b\"}]",
			1U << LACK_TAINTS, "" },
		/* One of its members. */
		{ "[" A_TAINTED "]", "[{\"name\": \"a\", \"taints\": [{\"key\": \"k\"}]}]",
			1U << LACK_TAINTS, "" },
		/* The server adds fields, and sorts devices. */
		{ "[" A_TAINTED ", {\"name\": \"b\"}]",
			"[{\"name\": \"b\", \"allNodes\": false}, {\"name\": \"a\", \"taints\": "
			"[{\"key\": \"k\", \"effect\": \"NoSchedule\", \"timeAdded\": \"t\"}]}]",
			0, "" },
		/* It writes a quantity in another form. */
		{ "[" CAPACITY("\"value\": \"1024Mi\"") "]", "[" CAPACITY("\"value\": \"1Gi\"") "]",
			0, "" },
		{ "[" CAPACITY("\"value\": \"1Gi\"") "]", "[{\"name\": \"a\"}]", 1U << LACK_OTHER,
			"spec.devices[].capacity" },
		{ "[" CAPACITY("\"value\": \"1Gi\", \"requestPolicy\": {\"default\": \"1Gi\"}") "]",
			"[" CAPACITY("\"value\": \"1Gi\"") "]", 1U << LACK_AMOUNTS, "" },
		{ "[{\"name\": \"a\", \"allowMultipleAllocations\": true}]", "[{\"name\": \"a\"}]",
			1U << LACK_AMOUNTS, "" },
		{ "[" ATTRIBUTE("x.y/z", "\"strings\": [\"s\"]") "]",
			"[" ATTRIBUTE("x.y/z", "") "]", 1U << LACK_OTHER,
			"spec.devices[].attributes[].strings" },
		{ "[{\"name\": \"a\"}]", "[]", 1U << LACK_OTHER, "spec.devices[]" },
		/* What means the same as its absence. */
		{ "[{\"name\": \"a\", \"taints\": [], \"allNodes\": false}]", "[{\"name\": \"a\"}]",
			0, "" },
		{ "[]", "{}", 0, "" },
		/* Several at once; the first that is not known is named. */
		{ "[{\"name\": \"a\", \"x\": 1, \"y\": 2, \"taints\": " TAINT("cordoned") "}]",
			"[{\"name\": \"a\"}]", 1U << LACK_TAINTS | 1U << LACK_OTHER,
			"spec.devices[].x" },
		/* A field whose name only begins alike. */
		{ "[{\"name\": \"a\", \"taintsOfMine\": 1}]", "[{\"name\": \"a\"}]",
			1U << LACK_OTHER, "spec.devices[].taintsOfMine" },
		/* An answer with other types. */
		{ "[" A_TAINTED "]", "[{\"name\": \"a\", \"taints\": \"none\"}]", 1U << LACK_TAINTS,
			"" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_auto_t *sent = slice_of(cases[i].sent), *stored = slice_of(cases[i].stored);
		char other[SLICE_FIELD_MAX];

		assert_int_equal(slice_lacks_dropped(sent, stored, other), cases[i].lacks);
		assert_string_equal(other, cases[i].other);
	}
}

static void test_used_fields(void **state)
{
	json_auto_t *plain =
		slice_of("[" CAPACITY("\"value\": \"1Gi\"") ", {\"name\": \"b\", \"taints\": []}]");
	json_auto_t *tainted = slice_of("[{\"name\": \"b\"}, " A_TAINTED "]");

	assert_int_equal(slice_lacks_used(plain), 0);
	assert_int_equal(slice_lacks_used(tainted), 1U << LACK_TAINTS);
	assert_int_equal(slice_lacks_used(NULL), 0);
}

#define CAUSE(field) "{\"field\": \"" field "\", \"reason\": \"FieldValueNotSupported\"}"

static void test_refused_fields(void **state)
{
	json_auto_t *slice = slice_of("[" A_TAINTED "]");
	json_auto_t *listed = slice_of(
		"[{\"name\": \"a\", \"attributes\": {\"resource.kubernetes.io/numaNode\": {\"ints\": [0]}}}]");
	json_auto_t *refused = parse("{\"details\": {\"causes\": [" CAUSE(
		"spec.devices[3].attributes[resource.kubernetes.io/numaNode]") "]}}");
	static const struct {
		const char *causes;
		unsigned lacks;
	} cases[] = {
		{ "[" CAUSE("spec.devices[12].taints[0].effect") "]", 1U << LACK_NOTICES },
		{ "[" CAUSE("spec.devices[1].name") "," CAUSE(
			  "spec.devices[63].taints[15].effect") "]",
			1U << LACK_NOTICES },
		{ "[" CAUSE("spec.devices[12].taints[0].key") "]", 0 },
		{ "[" CAUSE("spec.devices[") "]", 0 },
		{ "[" CAUSE("") ", 1]", 0 },
		{ "{}", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_auto_t *status =
			json_pack("{s:{s:o}}", "details", "causes", parse(cases[i].causes));

		assert_int_equal(slice_lacks_refused(slice, status), cases[i].lacks);
	}
	assert_int_equal(slice_lacks_refused(slice, NULL), 0);
	/* Without a list in the slice, another attribute is wrong. */
	assert_int_equal(slice_lacks_refused(listed, refused), 1U << LACK_LISTS);
	assert_int_equal(slice_lacks_refused(slice, refused), 0);
	assert_int_equal(slice_lacks_refused(NULL, refused), 0);
}

/* What the server has made of a slice is not written again, until either changes. */
static void test_settled_slices(void **state)
{
	static const struct {
		const char *sent, *stored;
	} cases[] = {
		{ "[" CAPACITY("\"value\": \"1024Mi\"") "]",
			"[" CAPACITY("\"value\": \"1Gi\"") "]" },
		{ "[{\"name\": \"a\"}]", "[{\"name\": \"a\", \"added\": true}]" },
		{ "[{\"name\": \"a\", \"dropped\": true}]", "[{\"name\": \"a\"}]" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_auto_t *sent = slice_of(cases[i].sent), *stored = slice_of(cases[i].stored);
		json_auto_t *other = slice_of("[{\"name\": \"c\"}]"), *settled = json_object();

		assert_false(stored_slice_is(stored, sent));
		assert_false(stored_slice_is_settled(settled, stored, sent));
		assert_int_equal(stored_slice_settle(settled, sent, stored), 0);
		assert_true(stored_slice_is_settled(settled, stored, sent));
		assert_false(stored_slice_is_settled(settled, stored, other));
		assert_false(stored_slice_is_settled(settled, other, sent));
		/* The server has learnt it. */
		assert_int_equal(stored_slice_settle(settled, sent, sent), 0);
		assert_int_equal(json_object_size(settled), 0);
	}
}

static void test_nothing(void **state)
{
	const struct dra_pool pool = { .driver = DRIVER, .node = "n", .generation = 3 };
	json_auto_t *resources = json_array();
	struct dra_inventory inventory;
	json_auto_t *object = NULL;

	assert_int_equal(dra_inventory_build(resources, &all, &inventory), 0);
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

	assert_int_equal(dra_inventory_build(resources, &all, &inventory), 0);
	assert_int_equal(json_object_size(inventory.names), 1);
	dra_inventory_done(&inventory);
}

/* A process may report any number of replicas. */
static size_t count_devices(json_t *names, const char *resource)
{
	json_t *device;
	const char *name;
	size_t n = 0;

	json_object_foreach(names, name, device)
	{
		n += streq(text_of(device, "resource"), resource);
	}
	return n;
}

static void test_many_replicas(void **state)
{
	json_auto_t *resources =
		parse("[{\"name\": \"v.e/evil\", \"devices\": ["
		      "{\"id\": \"a\", \"shared\": true, \"replicas\": 9223372036854775807}, "
		      "{\"id\": \"b\", \"shared\": true, \"replicas\": 9223372036854775807}, "
		      "{\"id\": \"c\", \"shared\": true, \"replicas\": -9223372036854775807}]}, "
		      "{\"name\": \"v.e/gpu\", \"devices\": [{\"id\": \"good\"}]}]");
	struct dra_inventory inventory;

	assert_int_equal(dra_inventory_build(resources, &all, &inventory), 0);
	assert_int_equal(json_object_size(inventory.names), DRA_DRIVER_DEVICES_MAX);
	assert_int_equal(count_devices(inventory.names, "v.e/gpu"), 1);
	dra_inventory_done(&inventory);
}

/* Resources that need less than an equal share leave the rest to the others. */
static void test_shares_of_resources(void **state)
{
	static const struct {
		size_t needs[4], gets[4];
	} cases[] = {
		{ { 16384, 0, 0, 0 }, { 16384, 0, 0, 0 } },
		{ { 10000, 6000, 384, 0 }, { 10000, 6000, 384, 0 } },
		{ { 200000, 3, 200000, 381 }, { 8000, 3, 8000, 381 } },
		{ { 5000, 5000, 5000, 5000 }, { 4096, 4096, 4096, 4096 } },
		{ { 4095, 5000, 4097, 5000 }, { 4095, 4096, 4096, 4096 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_auto_t *resources = json_array();
		struct dra_inventory inventory;
		char name[] = "v.e/x";

		for (size_t k = 0; k < ARRAY_SIZE(cases[i].needs); k++) {
			name[4] = (char)('a' + k);
			assert_int_equal(
				json_array_append_new(resources,
					json_pack("{s:s, s:[{s:s, s:b, s:I}]}", "name", name,
						"devices", "id", "d", "shared", 1, "replicas",
						(json_int_t)cases[i].needs[k])),
				0);
		}
		assert_int_equal(dra_inventory_build(resources, &all, &inventory), 0);
		for (size_t k = 0; k < ARRAY_SIZE(cases[i].needs); k++) {
			name[4] = (char)('a' + k);
			assert_int_equal(count_devices(inventory.names, name), cases[i].gets[k]);
		}
		dra_inventory_done(&inventory);
	}
}

static void test_reports(void **state)
{
	static const char text[] =
		"{\"devices\": [{\"id\": \"a\", \"health\": \"Healthy\"}, {\"id\": "
		"\"b\", \"health\": \"Unhealthy\"}]}\n";
	json_auto_t *devices = dra_devices_read(text, strlen(text), NULL);

	assert_int_equal(json_array_size(devices), 2);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(devices, 1), "health")),
		"Unhealthy");
	assert_null(dra_devices_read(text, strlen(text) - 2, NULL));
	assert_null(dra_devices_read("", 0, NULL));
	assert_null(dra_devices_read("{", 1, NULL));
}

/* A device that is missing although the resource should have it stays, as an unhealthy one. Other
 * members that its process reports are dropped. */
static void test_missing(void **state)
{
	static const char text[] =
		"{\"devices\": [{\"id\": \"a\", \"health\": \"Healthy\"}, "
		"{\"id\": \"b\", \"health\": \"Unhealthy\", \"cause\": \"gone\"}, "
		"{\"id\": \"c\", \"health\": \"Unhealthy\", \"cause\": \"gone\"}], "
		"\"expect\": {\"missing\": [{\"id\": \"a\"}, {\"id\": \"b\"}, 7, "
		"{\"id\": \"d\", \"health\": \"Healthy\", \"replicas\": 2, \"shared\": true, "
		"\"attributes\": {\"x\": {\"string\": \"y\"}}}]}}";
	static const char *const wanted[][3] = { { "a", "Healthy", "" },
		{ "b", "Unhealthy", "missing" }, { "c", "Unhealthy", "gone" },
		{ "", "Unhealthy", "missing" }, { "d", "Unhealthy", "missing" } };
	json_auto_t *devices = dra_devices_read(text, strlen(text), NULL);

	assert_int_equal(json_array_size(devices), ARRAY_SIZE(wanted));
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		const json_t *device = json_array_get(devices, i);

		assert_string_equal(text_of(device, "id"), wanted[i][0]);
		assert_string_equal(text_of(device, "health"), wanted[i][1]);
		assert_string_equal(text_of(device, "cause"), wanted[i][2]);
		assert_null(json_object_get(device, "attributes"));
	}
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
	json_auto_t *names = parse("{\"gpu-a\": {\"resource\": \"v.e/gpu\", \"id\": \"gpu#1\", "
				   "\"attributes\": {\"lanes\": {\"int\": 4}}}}");
	json_auto_t *held = parse("{\"gpu-h\": {\"driver\": \"" DRIVER
				  "\", \"resource\": \"v.e/moved\", \"id\": \"h\"}, "
				  "\"gpu-o\": {\"driver\": \"other.example\", \"resource\": "
				  "\"v.e/gpu\", \"id\": \"o\"}}");
	const struct dra_known known = {
		.driver = DRIVER, .pool = "n", .names = names, .held = held, .published = true
	};

	return dra_allocation_read(claim, "u-1", &known, ret, error);
}

static void test_allocation(void **state)
{
	json_auto_t *read = NULL;
	json_auto_t *wanted =
		parse("{\"uid\": \"u-1\", \"namespace\": \"ns\", \"name\": \"c\", \"devices\": "
		      "[{\"request\": \"r\", \"pool\": \"n\", \"name\": \"gpu-a\", \"resource\": "
		      "\"v.e/gpu\", \"id\": \"gpu#1\", \"admin\": false}], \"metadata\": "
		      "{\"attributes\": {\"gpu-a\": {\"lanes\": {\"int\": 4}}}, "
		      "\"alternatives\": {\"r\": \"r/sub\"}}}");
	struct error error = { 0 };
	json_t *none, *held;

	assert_int_equal(read_claim(CLAIM("u-1",
					    RESULT("r/sub", DRIVER, "n", "gpu-a") "," RESULT(
						    "r", "other.example", "n", "x")),
				 &read, &error),
		0);
	assert_true(json_equal(read, wanted));
	assert_int_equal(
		read_claim(CLAIM("u-1", RESULT("r/../x", DRIVER, "n", "gpu-a")), &none, &error),
		-EBADMSG);
	assert_int_equal(read_claim(CLAIM("u-2", RESULT("r", DRIVER, "n", "gpu-a")), &none, &error),
		-ESTALE);
	assert_int_equal(
		read_claim(CLAIM("u-1", RESULT("r", DRIVER, "m", "gpu-a")), &none, &error), -EXDEV);
	assert_int_equal(read_claim(CLAIM("u-1", RESULT("r", DRIVER, "n", "gpu-b")), &none, &error),
		-ENODEV);
	/* A share of a device that is exclusive now, or still: it may be shared again soon. */
	assert_int_equal(read_claim(CLAIM("u-1",
					    "{\"request\": \"r\", \"driver\": \"" DRIVER
					    "\", \"pool\": \"n\", \"device\": \"gpu-a\", "
					    "\"shareID\": "
					    "\"01234567-89ab-4def-8123-456789abcdef\"}"),
				 &none, &error),
		-ENODEV);
	assert_int_equal(read_claim("{\"metadata\": {\"uid\": \"u-1\"}}", &none, &error), -ENODATA);
	/* Held by a claim of this driver, which may no longer have the resource, and of another. */
	assert_int_equal(
		read_claim(CLAIM("u-1", RESULT("r", DRIVER, "n", "gpu-h")), &held, &error), 0);
	json_decref(held);
	assert_int_equal(read_claim(CLAIM("u-1", RESULT("r", DRIVER, "n", "gpu-o")), &none, &error),
		-ENODEV);
}

#define CONFIG(source, driver, parameters, requests)            \
	"{\"source\": \"" source "\", \"requests\": [" requests \
	"], \"opaque\": {\"driver\": \"" driver "\", \"parameters\": " parameters "}}"

/* Parameters of the claim replace those of the class. Entries for other drivers are ignored. */
static void test_parameters(void **state)
{
	json_auto_t *claim = parse(CLAIM("u-1", RESULT("r", DRIVER, "n", "gpu-a")));
	json_auto_t *names = parse("{\"gpu-a\": {\"resource\": \"v.e/gpu\", \"id\": \"gpu#1\"}}");
	json_t *devices = json_object_get(
		json_object_get(json_object_get(claim, "status"), "allocation"), "devices");
	const struct dra_known known = { .driver = DRIVER, .pool = "n", .names = names };
	static const struct {
		const char *config, *parameters; /* NULL: refused */
	} cases[] = {
		{ "[]", "" },
		{ "[" CONFIG("FromClaim", "other.example", "{\"x\": 1}", "") "]", "" },
		{ "[" CONFIG("FromClaim", DRIVER, "{\"x\": 1}", "") "," CONFIG("FromClass", DRIVER,
			  "{\"x\": 2, \"y\": true}",
			  "") "," CONFIG("FromClass", DRIVER, "{\"y\": \"z\"}", "\"r\"") "]",
			"{\"x\":1,\"y\":\"z\"}" },
		{ "[" CONFIG("FromClaim", DRIVER, "{\"x\": 1}", "\"r/one\", \"s\"") "]", "" },
		{ "[" CONFIG("FromClaim", DRIVER, "{\"x\": {}}", "") "]", NULL },
		{ "[" CONFIG("FromPod", DRIVER, "{}", "") "]", NULL },
		{ "[{\"source\": \"FromClaim\"}]", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *parameters = cases[i].parameters;
		_cleanup_free_ char *text = NULL;
		json_auto_t *read = NULL;
		struct error error = { 0 };

		(void)json_object_set_new(devices, "config", parse(cases[i].config));
		assert_int_equal(dra_allocation_read(claim, "u-1", &known, &read, &error),
			parameters ? 0 : -EINVAL);
		text = json_dumps(
			json_object_get(
				json_array_get(json_object_get(read, "devices"), 0), "parameters"),
			JSON_COMPACT | JSON_SORT_KEYS);
		assert_string_equal(text ?: "", parameters ?: "");
	}
}

#define TAINTED(value, effect, time)                                                              \
	"[{\"name\": \"a\"}, {\"name\": \"b\", \"taints\": [{\"key\": \"k\", \"value\": \"" value \
	"\", \"effect\": \"" effect "\"" time "}]}]"
#define SINCE(time) ", \"timeAdded\": \"" time "\""

/* The time of a taint is the server's. It stays while the taint does, also in another slice. */
static void test_times_of_taints(void **state)
{
	json_auto_t *stored = slice_of(TAINTED("hot", "NoSchedule", SINCE("t1")));
	json_auto_t *same = slice_of(TAINTED("hot", "NoSchedule", ""));
	json_auto_t *colder = slice_of(TAINTED("cold", "NoSchedule", ""));
	json_auto_t *harder = slice_of(TAINTED("hot", "NoExecute", ""));
	json_auto_t *healthy = slice_of("[{\"name\": \"b\"}]");
	json_auto_t *times = json_object(), *names = parse("{\"b\": {}}"), *none = json_object();
	json_auto_t *kept = NULL;

	assert_true(stored_slice_is(stored, same));
	assert_false(stored_slice_is(stored, colder));
	assert_int_equal(taint_times_take(times, stored), 0);
	kept = stored_slice_update(stored, same);
	taint_times_set(times, kept);
	assert_true(json_equal(kept, stored));
	taint_times_set(times, colder);
	taint_times_set(times, harder);
	for (size_t i = 0; i < 2; i++) {
		json_auto_t *other = slice_of(
			i ? TAINTED("hot", "NoExecute", "") : TAINTED("cold", "NoSchedule", ""));

		assert_true(json_equal(i ? harder : colder, other));
	}
	/* Slices that are deleted leave the times, devices that are healthy or removed do not. */
	taint_times_forget(times, names);
	assert_int_equal(json_object_size(times), 1);
	taint_times_forget(times, none);
	assert_int_equal(json_object_size(times), 0);
	assert_int_equal(taint_times_take(times, stored), 0);
	assert_int_equal(taint_times_take(times, healthy), 0);
	assert_int_equal(json_object_size(times), 0);
}

/* What is stored takes no memory for devices that are as wanted. */
static void test_shared_devices(void **state)
{
	json_auto_t *stored = slice_of(TAINTED("hot", "NoSchedule", SINCE("t1")));
	json_auto_t *wanted = slice_of(TAINTED("hot", "NoSchedule", ""));
	json_auto_t *untainted = slice_of("[{\"name\": \"a\"}, {\"name\": \"b\"}]");
	json_auto_t *fewer = slice_of("[{\"name\": \"a\"}]");
	json_t *devices = json_object_get(json_object_get(wanted, "spec"), "devices");

	assert_false(stored_slice_is(stored, untainted));
	assert_false(stored_slice_is(untainted, stored));
	assert_false(stored_slice_is(untainted, fewer));
	stored_slice_share(stored, wanted);
	assert_ptr_equal(json_object_get(json_object_get(stored, "spec"), "devices"), devices);
	assert_true(stored_slice_is(stored, wanted));
}

/* The driver has just started: the device may be there. */
static void test_unknown_devices(void **state)
{
	json_auto_t *claim = parse(CLAIM("u-1", RESULT("r", DRIVER, "n", "gpu-a")));
	struct dra_known known = { .driver = DRIVER, .pool = "n" };
	json_auto_t *names = json_object();
	struct error error = { 0 };
	json_t *none;

	assert_int_equal(dra_allocation_read(claim, "u-1", &known, &none, &error), -EAGAIN);
	/* It may offer the device by that name once it knows the server. */
	known.names = names;
	assert_int_equal(dra_allocation_read(claim, "u-1", &known, &none, &error), -EAGAIN);
	known.published = true;
	assert_int_equal(dra_allocation_read(claim, "u-1", &known, &none, &error), -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_device_names),
		cmocka_unit_test(test_class_names),
		cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_list_of_nodes),
		cmocka_unit_test(test_hostile_attributes),
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_taints),
		cmocka_unit_test(test_findings),
		cmocka_unit_test(test_taints_that_evict),
		cmocka_unit_test(test_many_taints),
		cmocka_unit_test(test_held_devices),
		cmocka_unit_test(test_changes_of_held_devices),
		cmocka_unit_test(test_unlisted_devices),
		cmocka_unit_test(test_held_by_another_driver),
		cmocka_unit_test(test_dropped_fields),
		cmocka_unit_test(test_used_fields),
		cmocka_unit_test(test_refused_fields),
		cmocka_unit_test(test_settled_slices),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_odd_ids),
		cmocka_unit_test(test_many_replicas),
		cmocka_unit_test(test_shares_of_resources),
		cmocka_unit_test(test_reports),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_allocation),
		cmocka_unit_test(test_unknown_devices),
		cmocka_unit_test(test_parameters),
		cmocka_unit_test(test_times_of_taints),
		cmocka_unit_test(test_shared_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
