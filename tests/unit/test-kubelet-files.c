/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stand-in for the kubelet leaves on disk and finds there again: checkpoint and pods.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "common/json-read.h"
#include "kubelet/checkpoint-checksum.h"
#include "kubelet/checkpoint.h"
#include "kubelet/claim-checkpoint.h"
#include "kubelet/claim-table.h"
#include "kubelet/file.h"
#include "kubelet/plugin-text.h"
#include "kubelet/pod-file.h"
#include "tests/unit/directory-fixture.h"

#define GPU "vendor.example/gpu"

static struct model *make_model(void)
{
	struct model *model;

	assert_int_equal(
		model_new(kubelet_version_find("1.36"), true, KUBELET_GRACE, 1, &model), 0);
	return model;
}

static void fill(struct model *model)
{
	const struct plugin_options options = {};
	const int64_t nodes[] = { 0, 1 };
	char *ids[] = { (char[]){ "a" }, (char[]){ "b" } };
	struct device_table *table;

	assert_int_equal(device_table_new(3, &table), 0);
	assert_int_equal(device_table_add(table, "a", "Healthy", nodes, 2), 0);
	assert_int_equal(device_table_add(table, "b", "Healthy", NULL, 0), 0);
	assert_int_equal(device_table_add(table, "c", "Unhealthy", NULL, 0), 0);
	assert_int_equal(model_plugin_connected(model, GPU, "/p/x", 1, &options), 0);
	assert_int_equal(model_replace_devices(model, GPU, table), 0);
	assert_int_equal(model_record_allocation(model, "uid-1", POD_CONTAINER, GPU, ids, 2,
				 (const uint8_t *)"\x00\xff\x01", 3),
		0);
}

static void test_checkpoint(void **state)
{
	_cleanup_(model_freep) struct model *written = make_model(), *model = make_model();
	const struct allocation *allocation;
	struct error error = {};
	struct resource *resource;
	struct stat st;

	assert_int_equal(checkpoint_read(model, dir, &error), 0);
	fill(written);
	assert_int_equal(checkpoint_write(written, dir, &error), 0);
	assert_int_equal(stat(in_dir(CHECKPOINT_NAME), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);

	assert_int_equal(checkpoint_read(model, dir, &error), 0);
	allocation = model_find_allocation(model, "uid-1", POD_CONTAINER, GPU);
	assert_non_null(allocation);
	assert_int_equal(allocation->response_size, 3);
	assert_memory_equal(allocation->response, "\x00\xff\x01", 3);
	/* "a" is on two nodes, "b" on none. */
	assert_int_equal(allocation->n_devices, 3);
	resource = model_find_resource(model, GPU);
	assert_int_equal(resource->allocated.count, 2);
	/* Known, but without devices until its plugin registers. */
	assert_true(resource->known && resource->endpoint.present && resource->endpoint.stopped);
	assert_int_equal(resource_capacity(resource), 0);
}

/* A kubelet lists a device on two nodes in two rows, one after the other, also if it has the device
 * from its checkpoint, where devices are sorted by node. */
static void test_rows_of_a_device_are_together(void **state)
{
	_cleanup_(model_freep) struct model *written = make_model(), *model = make_model();
	static const char *const expected[] = { "a", "a", "b", "b" };
	char *ids[] = { (char[]){ "a" }, (char[]){ "b" } };
	const struct allocation *allocation;
	const int64_t nodes[] = { 1, 0 };
	struct device_table *table;
	struct error error = {};

	fill(written);
	assert_int_equal(device_table_new(2, &table), 0);
	assert_int_equal(device_table_add(table, "a", "Healthy", nodes, 2), 0);
	assert_int_equal(device_table_add(table, "b", "Healthy", nodes, 2), 0);
	assert_int_equal(model_replace_devices(written, GPU, table), 0);
	assert_int_equal(model_record_allocation(written, "uid-1", POD_CONTAINER, GPU, ids, 2,
				 (const uint8_t *)"", 0),
		0);
	assert_int_equal(checkpoint_write(written, dir, &error), 0);
	assert_int_equal(checkpoint_read(model, dir, &error), 0);
	allocation = model_find_allocation(model, "uid-1", POD_CONTAINER, GPU);
	assert_int_equal(allocation->n_devices, ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		assert_string_equal(allocation->devices[i].id, expected[i]);
		assert_int_equal(allocation->devices[i].node, i % 2);
	}
}

static void test_checkpoint_text(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model();
	_cleanup_free_ char *text = NULL;
	struct error error = {};
	size_t size;

	fill(model);
	assert_int_equal(checkpoint_write(model, dir, &error), 0);
	assert_int_equal(file_read(in_dir(CHECKPOINT_NAME), 4096, &text, &size), 0);
	assert_string_equal(text,
		"{\"Data\":{\"PodDeviceEntries\":[{\"PodUID\":\"uid-1\","
		"\"ContainerName\":\"main\",\"ResourceName\":\"" GPU "\","
		"\"DeviceIDs\":{\"-1\":[\"b\"],\"0\":[\"a\"],\"1\":[\"a\"]},"
		"\"AllocResp\":\"AP8B\"}],\"RegisteredDevices\":{\"" GPU "\":[\"a\",\"b\"]}},"
		"\"Checksum\":2278209908,\"WrittenBy\":\"devplug-kubelet\"}");
}

/* The sums are those of kubelets, and of go-spew for values that no kubelet writes. */
static void test_checksum(void **state)
{
	static const struct {
		const char *data;
		uint32_t sum;
	} checkpoints[] = {
		{ "{\"PodDeviceEntries\":null,\"RegisteredDevices\":{\"nvidia.com/gpu\":["
		  "\"GPU-0650a168-e770-3ea8-8ac3-8a1d419763e0\"]}}",
			3952659280 },
		{ "{\"PodDeviceEntries\":[{\"PodUID\":\"bf52b2cd-b611-4e79-86b1-280b283185c3\","
		  "\"ContainerName\":\"check\",\"ResourceName\":\"nvidia.com/gpu\","
		  "\"DeviceIDs\":{\"-1\":[\"tegra\"]},"
		  "\"AllocResp\":\"Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh\"}],"
		  "\"RegisteredDevices\":{\"nvidia.com/gpu\":[\"tegra\"]}}",
			3660592824 },
		{ "{\"PodDeviceEntries\":null,\"RegisteredDevices\":null}", 1944006890 },
		{ "{\"PodDeviceEntries\":[],\"RegisteredDevices\":{}}", 2932075448 },
		{ "{\"PodDeviceEntries\":[{\"PodUID\":\"u\",\"ContainerName\":\"c\","
		  "\"ResourceName\":\"r\",\"DeviceIDs\":null,\"AllocResp\":null},"
		  "{\"PodUID\":\"u2\",\"ContainerName\":\"c2\",\"ResourceName\":\"r2\","
		  "\"DeviceIDs\":{\"10\":[\"a \\\"b\\\" \\n \\u00e9\",\"\"],\"2\":null,\"-1\":[]},"
		  "\"AllocResp\":\"\"}],\"RegisteredDevices\":{\"b\":null,\"a\":[],"
		  "\"c\":[\"x\",\"y\"],\"B\":[\"q\"]}}",
			2386254810 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(checkpoints); i++) {
		json_t *data = json_loads(checkpoints[i].data, 0, NULL);
		uint32_t sum;

		assert_non_null(data);
		assert_int_equal(checkpoint_checksum(data, &sum), 0);
		assert_int_equal(sum, checkpoints[i].sum);
		json_decref(data);
	}
}

static void test_checkpoint_of_a_kubelet(void **state)
{
	static const char text[] =
		"{\"Data\":{\"PodDeviceEntries\":null,\"RegisteredDevices\":{\"nvidia.com/gpu\":["
		"\"GPU-0650a168-e770-3ea8-8ac3-8a1d419763e0\"]}},\"Checksum\":3952659280}";
	_cleanup_(model_freep) struct model *model = make_model();
	struct error error = {};

	assert_int_equal(file_replace(dir, CHECKPOINT_NAME, text, strlen(text), 0600, false), 0);
	assert_int_equal(checkpoint_read(model, dir, &error), 1);
	assert_true(model_find_resource(model, "nvidia.com/gpu")->known);
}

/* As Go writes what has no elements and no bytes. */
static void test_checkpoint_of_little(void **state)
{
	_cleanup_(model_freep) struct model *written = make_model(), *model = make_model();
	static const char little[] =
		"{\"Data\":{\"PodDeviceEntries\":[{\"PodUID\":\"u\",\"ContainerName\":\"c\","
		"\"ResourceName\":\"a.b/c\",\"DeviceIDs\":{\"0\":[\"x\"]},\"AllocResp\":null}],"
		"\"RegisteredDevices\":{}},\"Checksum\":3876764794}";
	_cleanup_free_ char *text = NULL;
	struct error error = {};
	size_t size;

	assert_int_equal(checkpoint_write(written, dir, &error), 0);
	assert_int_equal(file_read(in_dir(CHECKPOINT_NAME), 4096, &text, &size), 0);
	assert_non_null(strstr(text, "{\"PodDeviceEntries\":null,\"RegisteredDevices\":{}}"));
	assert_int_equal(
		file_replace(dir, CHECKPOINT_NAME, little, strlen(little), 0600, false), 0);
	assert_int_equal(checkpoint_read(model, dir, &error), 1);
	assert_int_equal(model_find_allocation(model, "u", "c", "a.b/c")->response_size, 0);
}

static void test_corrupt_checkpoint(void **state)
{
	static const char *const texts[] = {
		"",
		"{",
		"[]",
		"{\"Data\":{},\"Checksum\":1}",
		"{\"Data\":{\"PodDeviceEntries\":null,\"RegisteredDevices\":{}},\"Checksum\":1}",
	};
	struct error error = {};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_(model_freep) struct model *model = make_model();

		assert_int_equal(
			file_replace(dir, CHECKPOINT_NAME, texts[i], strlen(texts[i]), 0600, false),
			0);
		assert_int_equal(checkpoint_read(model, dir, &error), -EBADMSG);
	}
}

static void test_changed_checkpoint(void **state)
{
	_cleanup_(model_freep) struct model *written = make_model(), *model = make_model();
	_cleanup_free_ char *text = NULL;
	struct error error = {};
	size_t size;

	fill(written);
	assert_int_equal(checkpoint_write(written, dir, &error), 0);
	assert_int_equal(file_read(in_dir(CHECKPOINT_NAME), 4096, &text, &size), 0);
	*strstr(text, "uid-1") = 'U';
	assert_int_equal(file_replace(dir, CHECKPOINT_NAME, text, size, 0600, false), 0);
	assert_int_equal(checkpoint_read(model, dir, &error), -EBADMSG);
}

static void test_pods(void **state)
{
	_cleanup_(model_freep) struct model *written = make_model(), *model = make_model();
	struct pod_container *container;
	struct error error = {};
	struct pod *pod;

	assert_int_equal(model_add_pod(written, "uid-1", "default", "a", &pod), 0);
	assert_int_equal(pod_add_container(pod, "main", CONTAINER_MAIN, &container), 0);
	assert_int_equal(container_add_limit(container, GPU, 2), 0);
	assert_int_equal(pod_set_status(pod, POD_RUNNING, NULL, NULL), 0);
	assert_int_equal(model_add_pod(written, "uid-2", "other", "a", &pod), 0);
	assert_int_equal(pod_set_status(pod, POD_FAILED, "Why", "because"), 0);
	/* A pod in the middle of its admission is not there after a crash. */
	assert_int_equal(model_add_pod(written, "uid-3", "default", "b", &pod), 0);
	assert_int_equal(pod_file_write(written, dir, &error), 0);

	assert_int_equal(pod_file_read(model, dir, &error), 0);
	assert_int_equal(model->n_pods, 2);
	pod = model_find_pod(model, "default", "a");
	assert_int_equal(pod->phase, POD_RUNNING);
	assert_string_equal(pod->uid, "uid-1");
	assert_int_equal(pod->n_containers, 1);
	assert_string_equal(pod->containers[0].name, "main");
	assert_int_equal(pod->containers[0].kind, CONTAINER_MAIN);
	assert_int_equal(pod->containers[0].n_limits, 1);
	assert_int_equal(pod->containers[0].limits[0].count, 2);
	pod = model_find_pod(model, "other", "a");
	assert_int_equal(pod->phase, POD_FAILED);
	assert_string_equal(pod->message, "because");
}

/* --- claims --- */

#define CLAIMS                                                                                             \
	"{\\\"kind\\\":\\\"DRACheckpoint\\\",\\\"apiVersion\\\":\\\"checkpoint.dra.kubelet.k8s.io/v1\\\"," \
	"\\\"ClaimInfoStateList\\\":"

static void write_claims(const char *text)
{
	assert_int_equal(
		file_replace(dir, CLAIM_CHECKPOINT_NAME, text, strlen(text), 0600, false), 0);
}

static json_t *read_claims(void)
{
	struct error error = {};
	json_t *table;

	return claim_table_read(dir, &table, &error) < 0 ? NULL : table;
}

static void assert_claims(const char *expected)
{
	_cleanup_free_ char *text = NULL;
	char path[128];
	size_t size;

	(void)snprintf(path, sizeof(path), "%s/" CLAIM_CHECKPOINT_NAME, dir);
	assert_int_equal(file_read(path, 1 << 20, &text, &size), 0);
	assert_string_equal(text, expected);
}

/* The text is that of a kubelet: the order of members, null for empty lists, sorted maps. */
static void test_claims(void **state)
{
	_cleanup_json_ json_t *table = read_claims(), *claim = NULL, *read = NULL;
	struct error error = {};

	/* A kubelet that finds no file writes one. */
	assert_int_equal(json_object_size(table), 0);
	assert_claims("{\"Data\":\"" CLAIMS "null}\",\"Checksum\":4010664294}");
	claim = json_pack("{s:s, s:s, s:s, s:b, s:[s, s], s:{s:[{s:[s], s:s, s:s, s:[s]}], "
			  "s:[{s:[], s:s, s:s, s:[], s:s}]}}",
		"namespace", "default", "name", "c", "uid", "u-1", "prepared", 0, "pods", "p-2",
		"p-1", "drivers", "z.example", "requests", "r", "pool", "node-a", "device", "gpu-0",
		"cdi", "devplugd/claim=u-1-gpu-0", "a.example", "requests", "pool", "node-a",
		"device", "d", "cdi", "share", "s-1");
	assert_int_equal(json_object_set(table, "default/c", claim), 0);
	assert_int_equal(claim_table_write(table, dir, &error), 0);
	assert_claims(
		"{\"Data\":\"" CLAIMS "[{\\\"ClaimUID\\\":\\\"u-1\\\",\\\"ClaimName\\\":\\\"c\\\","
		"\\\"Namespace\\\":\\\"default\\\",\\\"PodUIDs\\\":{\\\"p-1\\\":{},"
		"\\\"p-2\\\":{}},\\\"DriverState\\\":{\\\"a.example\\\":{\\\"Devices\\\":["
		"{\\\"PoolName\\\":\\\"node-a\\\",\\\"DeviceName\\\":\\\"d\\\",\\\"ShareID\\\":\\\"s-1\\\","
		"\\\"RequestNames\\\":null,\\\"CDIDeviceIDs\\\":null}]},"
		"\\\"z.example\\\":{\\\"Devices\\\":[{\\\"PoolName\\\":\\\"node-a\\\","
		"\\\"DeviceName\\\":\\\"gpu-0\\\",\\\"ShareID\\\":null,"
		"\\\"RequestNames\\\":[\\\"r\\\"],"
		"\\\"CDIDeviceIDs\\\":[\\\"devplugd/claim=u-1-gpu-0\\\"]}]}}}]}\","
		"\"Checksum\":4064478477}");
	/* The order of pods is not kept. */
	(void)json_object_set_new(claim, "pods", json_pack("[s, s]", "p-1", "p-2"));
	read = read_claims();
	assert_true(json_equal(read, table));
}

/* Written without ShareID, which kubelets have from 1.34 on, and with an empty list as null. */
static void test_claims_of_a_kubelet(void **state)
{
	_cleanup_json_ json_t *table = NULL;

	write_claims(
		"{\"Data\":\"" CLAIMS "[{\\\"ClaimUID\\\":\\\"u-1\\\",\\\"ClaimName\\\":\\\"c\\\","
		"\\\"Namespace\\\":\\\"default\\\",\\\"PodUIDs\\\":{\\\"p-1\\\":{}},"
		"\\\"DriverState\\\":{\\\"a.example\\\":{\\\"Devices\\\":[{\\\"PoolName\\\":\\\"n\\\","
		"\\\"DeviceName\\\":\\\"d\\\",\\\"RequestNames\\\":null,"
		"\\\"CDIDeviceIDs\\\":null}]}}}]}\",\"Checksum\":3607827488}");
	table = read_claims();
	assert_string_equal(text_of(json_object_get(table, "default/c"), "uid"), "u-1");
	json_decref(table);
	write_claims("{\"Data\":\"" CLAIMS "null}\",\"Checksum\":4010664294}");
	table = read_claims();
	assert_int_equal(json_object_size(table), 0);
}

static void test_corrupt_claims(void **state)
{
	static const char *const texts[] = {
		"",
		"{}",
		"{\"Data\":\"" CLAIMS "[]}\",\"Checksum\":1}",
		"{\"Data\":\"{}\",\"Checksum\":2745614147}",
		"{\"Data\":\"" CLAIMS "{}}\",\"Checksum\":553668042}",
		"{\"Data\":\"" CLAIMS "[{}]}\",\"Checksum\":3182063446}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_json_ json_t *table = NULL;

		write_claims(texts[i]);
		table = read_claims();
		assert_null(table);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_checkpoint),
		TEST(test_rows_of_a_device_are_together),
		TEST(test_checkpoint_text),
		TEST(test_checksum),
		TEST(test_checkpoint_of_a_kubelet),
		TEST(test_checkpoint_of_little),
		TEST(test_corrupt_checkpoint),
		TEST(test_changed_checkpoint),
		TEST(test_pods),
		TEST(test_claims),
		TEST(test_claims_of_a_kubelet),
		TEST(test_corrupt_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
