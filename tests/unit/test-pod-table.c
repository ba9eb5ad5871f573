/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table that the reader of pod resources writes is read unchanged, and no other text is accepted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/pod-table.h"
#include "common/sealed.h"
#include "podresources.pb-c.h"
#include "proto/message.h"
#include "proto/plugin/pod-answer.h"

static int read_text(const char *text, size_t size, struct pod_table **ret)
{
	_cleanup_close_ int fd = sealed_new("test", text, size);

	assert_true(fd >= 0);
	return pod_table_read(fd, ret);
}

static void assert_refused(const char *text, int error)
{
	struct pod_table *table = NULL;

	assert_int_equal(read_text(text, strlen(text), &table), error);
	assert_null(table);
}

static struct pod_table *through(enum pod_question question, const ProtobufCMessage *message)
{
	_cleanup_free_ uint8_t *data = NULL;
	_cleanup_free_ char *text = NULL;
	struct pod_table *table;
	size_t size, length;
	FILE *stream = open_memstream(&text, &length);

	assert_non_null(stream);
	assert_int_equal(message_pack(message, &data, &size), 0);
	assert_int_equal(pod_answer_write(question, data, size, stream), 0);
	assert_int_equal(fclose(stream), 0);
	assert_int_equal(read_text(text, length, &table), 0);
	return table;
}

/* --- an answer with all that there is in one --- */

static char *ids_a[] = { (char *)"gpu-0", (char *)"gpu-1" };
static char *ids_b[] = { (char *)"gpu-2", (char *)"\xff" };
static V1__NUMANode node_0, node_1;
static V1__NUMANode *both_nodes[] = { &node_0, &node_1 }, *second_node[] = { &node_1 };
static V1__TopologyInfo on_both, on_second;
static V1__ContainerDevices devices_a, devices_b;
static V1__ContainerDevices *devices[] = { &devices_a, &devices_b };
static int64_t cpus[] = { 2, 3, 7 };
static V1__ContainerMemory memory;
static V1__ContainerMemory *memories[] = { &memory };
static V1__ClaimResource claim_resource;
static V1__ClaimResource *claim_resources[] = { &claim_resource };
static V1__DynamicResource claim, empty_claim;
static V1__DynamicResource *claims[] = { &claim, &empty_claim };
static V1__ContainerResources container;
static V1__ContainerResources *containers[] = { &container };
static V1__PodResources pod;
static V1__PodResources *pods[] = { &pod };

static int make_pod(void **state)
{
	v1__numanode__init(&node_0);
	v1__numanode__init(&node_1);
	node_1.id = 1;
	v1__topology_info__init(&on_both);
	v1__topology_info__init(&on_second);
	on_both = (V1__TopologyInfo){ on_both.base, 2, both_nodes };
	on_second = (V1__TopologyInfo){ on_second.base, 1, second_node };
	v1__container_devices__init(&devices_a);
	v1__container_devices__init(&devices_b);
	devices_a = (V1__ContainerDevices){ devices_a.base, (char *)"vendor.example/gpu", 2, ids_a,
		&on_both };
	devices_b = (V1__ContainerDevices){ devices_b.base, (char *)"vendor.example/gpu", 2, ids_b,
		NULL };
	v1__container_memory__init(&memory);
	memory = (V1__ContainerMemory){ memory.base, (char *)"hugepages-2Mi", UINT64_MAX,
		&on_second };
	v1__claim_resource__init(&claim_resource);
	claim_resource.driver_name = (char *)"driver.example";
	claim_resource.pool_name = (char *)"node-1";
	claim_resource.device_name = (char *)"nic-0";
	v1__dynamic_resource__init(&claim);
	v1__dynamic_resource__init(&empty_claim);
	claim.claim_name = empty_claim.claim_name = (char *)"my-claim";
	claim.claim_namespace = empty_claim.claim_namespace = (char *)"team";
	claim.claim_resources = claim_resources;
	claim.n_claim_resources = 1;
	v1__container_resources__init(&container);
	container.name = (char *)"main";
	container.devices = devices;
	container.n_devices = 2;
	container.cpu_ids = cpus;
	container.n_cpu_ids = 3;
	container.memory = memories;
	container.n_memory = 1;
	container.dynamic_resources = claims;
	container.n_dynamic_resources = 2;
	v1__pod_resources__init(&pod);
	pod.name = (char *)"train-0";
	pod.namespace_ = (char *)"team";
	pod.containers = containers;
	pod.n_containers = 1;
	return 0;
}

static void assert_container(const struct pod_container *row, const char *name, const char *cpu_ids)
{
	assert_string_equal(row->namespace, "team");
	assert_string_equal(row->pod, "train-0");
	assert_string_equal(row->name, name);
	assert_string_equal(row->cpus, cpu_ids);
}

static void assert_device(const struct pod_device *row, const char *id, const char *nodes)
{
	assert_string_equal(row->resource, "vendor.example/gpu");
	assert_string_equal(row->id, id);
	assert_string_equal(row->nodes, nodes);
	assert_string_equal(row->container->name, "main");
}

static void assert_pod(const struct pod_table *table, size_t main_row)
{
	assert_container(&table->containers[main_row], "main", "2,3,7");
	assert_int_equal(table->n_devices, 3);
	assert_device(&table->devices[0], "gpu-0", "0,1");
	assert_device(&table->devices[1], "gpu-1", "0,1");
	assert_device(&table->devices[2], "gpu-2", "");
	assert_int_equal(table->n_claims, 2);
	assert_string_equal(table->claims[0].namespace, "team");
	assert_string_equal(table->claims[0].name, "my-claim");
	assert_string_equal(table->claims[0].driver, "driver.example");
	assert_string_equal(table->claims[0].pool, "node-1");
	assert_string_equal(table->claims[0].device, "nic-0");
	assert_string_equal(table->claims[1].name, "my-claim");
	assert_string_equal(table->claims[1].device, "");
}

static void test_list(void **state)
{
	V1__ListPodResourcesResponse response = V1__LIST_POD_RESOURCES_RESPONSE__INIT;
	_cleanup_(pod_table_freep) struct pod_table *table = NULL;

	response.pod_resources = pods;
	response.n_pod_resources = 1;
	table = through(POD_LIST, &response.base);
	assert_int_equal(table->n_containers, 1);
	assert_pod(table, 0);
	assert_int_equal(table->n_memory, 1);
	assert_string_equal(table->memory[0].type, "hugepages-2Mi");
	assert_string_equal(table->memory[0].nodes, "1");
	assert_true(table->memory[0].bytes == UINT64_MAX);
}

/* As kubelets from 1.37 on send it. */
static void test_pod_level(void **state)
{
	V1__ListPodResourcesResponse response = V1__LIST_POD_RESOURCES_RESPONSE__INIT;
	_cleanup_(pod_table_freep) struct pod_table *table = NULL;

	pod.cpu_ids = cpus;
	pod.n_cpu_ids = 2;
	pod.memory = memories;
	pod.n_memory = 1;
	response.pod_resources = pods;
	response.n_pod_resources = 1;
	table = through(POD_LIST, &response.base);
	pod.n_cpu_ids = pod.n_memory = 0;
	assert_int_equal(table->n_containers, 2);
	assert_container(&table->containers[0], "", "2,3");
	assert_pod(table, 1);
	assert_int_equal(table->n_memory, 2);
	assert_ptr_equal(table->memory[0].container, &table->containers[0]);
	assert_ptr_equal(table->memory[1].container, &table->containers[1]);
}

static void test_allocatable(void **state)
{
	V1__AllocatableResourcesResponse response = V1__ALLOCATABLE_RESOURCES_RESPONSE__INIT;
	_cleanup_(pod_table_freep) struct pod_table *table = NULL;

	response.devices = devices;
	response.n_devices = 2;
	response.cpu_ids = cpus;
	response.n_cpu_ids = 3;
	table = through(POD_ALLOCATABLE, &response.base);
	assert_int_equal(table->n_containers, 1);
	assert_string_equal(table->containers[0].pod, "");
	assert_string_equal(table->containers[0].cpus, "2,3,7");
	assert_int_equal(table->n_devices, 3);
}

/* Fields of a later kubelet: of the pod (7, text) and of the answer (15, number). */
static void test_unknown_fields(void **state)
{
	static const uint8_t answer[] = { 0x0a, 0x14, 0x0a, 0x01, 'p', 0x12, 0x01, 'n', 0x3a, 0x03,
		'n', 'e', 'w', 0x1a, 0x07, 0x0a, 0x01, 'c', 0x7a, 0x02, 0x08, 0x05, 0x78, 0x2a };
	_cleanup_(pod_table_freep) struct pod_table *table = NULL;
	_cleanup_free_ char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	assert_int_equal(pod_answer_write(POD_LIST, answer, sizeof(answer), stream), 0);
	assert_int_equal(fclose(stream), 0);
	assert_int_equal(read_text(text, length, &table), 0);
	assert_int_equal(table->n_containers, 1);
	assert_string_equal(table->containers[0].pod, "p");
	assert_string_equal(table->containers[0].name, "c");
}

static void test_malformed(void **state)
{
#define BEGIN "container\tn\tp\tc\t\n"
	static const char *const malformed[] = {
		"\n",
		"container\tn\tp\tc\t",
		"container\tn\tp\tc\n",
		"container\tn\tp\tc\t1\t2\n",
		"container\tn\tp\tc\t1;2\n",
		"device\tr\t\n",
		"id\tx\n",
		BEGIN "id\tx\n",
		BEGIN "device\tr\t\n" BEGIN "id\tx\n",
		BEGIN "device\tr\tnode\n",
		BEGIN "device\tr\t0\nid\tx\x1b[2J\n",
		BEGIN "device\tr\t0\nid\t\xff\n",
		BEGIN "memory\tm\t-1\t0\n",
		BEGIN "memory\tm\t18446744073709551616\t0\n",
		BEGIN "memory\tm\t1k\t0\n",
		BEGIN "claim\tn\tc\td\tp\n",
		BEGIN "unknown\tx\n",
	};
	struct pod_table *table = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(malformed); i++)
		assert_refused(malformed[i], -EBADMSG);
	assert_int_equal(read_text(BEGIN "\0", sizeof(BEGIN), &table), -EBADMSG);
	/* Not a sealed memfd. */
	assert_int_equal(pod_table_read(STDERR_FILENO, &table), -EBADMSG);
}

static void test_bounds(void **state)
{
	static const char line[] = BEGIN;
	size_t rows = POD_TABLE_ROWS_MAX + 1, size = rows * (sizeof(line) - 1);
	_cleanup_free_ char *text = malloc(size + 1), *word = malloc(2 * POD_TABLE_WORD_MAX);
	struct pod_table *table = NULL;

	for (size_t i = 0; i < rows; i++)
		memcpy(text + i * (sizeof(line) - 1), line, sizeof(line));
	assert_int_equal(read_text(text, size, &table), -EFBIG);
	assert_int_equal(read_text(text, size - (sizeof(line) - 1), &table), 0);
	assert_int_equal(table->n_containers, POD_TABLE_ROWS_MAX);
	table = pod_table_free(table);

	memset(word, 'x', 2 * POD_TABLE_WORD_MAX);
	(void)snprintf(text, size, BEGIN "device\tr\t\nid\t%.*s\n", (int)POD_TABLE_WORD_MAX, word);
	assert_int_equal(read_text(text, strlen(text), &table), 0);
	table = pod_table_free(table);
	(void)snprintf(
		text, size, BEGIN "device\tr\t\nid\t%.*s\n", (int)POD_TABLE_WORD_MAX + 1, word);
	assert_refused(text, -EBADMSG);
}

static void test_empty(void **state)
{
	_cleanup_(pod_table_freep) struct pod_table *table = NULL;

	assert_int_equal(read_text("", 0, &table), 0);
	assert_int_equal(table->n_containers + table->n_devices, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_pod_level),
		cmocka_unit_test(test_allocatable),
		cmocka_unit_test(test_unknown_fields),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, make_pod, NULL);
}
