/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods with several containers: which devices of init containers are used again, and what the
 * PodResources API reports of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kubelet/choice.h"
#include "kubelet/other-resources.h"
#include "kubelet/pod-resources-message.h"
#include "podresources.pb-c.h"
#include "proto/message.h"

#define GPU "vendor.example/gpu"

static struct model *make_model(const char *version)
{
	static const int64_t nodes[] = { 0, 1 };
	struct plugin_options options = { .preferred_allocation = true };
	struct device_table *table;
	struct model *model;
	char id[8];

	assert_int_equal(
		model_new(kubelet_version_find(version), true, KUBELET_GRACE, 1, &model), 0);
	assert_int_equal(device_table_new(4, &table), 0);
	for (int i = 0; i < 4; i++) {
		(void)snprintf(id, sizeof(id), "d%d", i);
		/* d1 is on two nodes, the last is not healthy. */
		assert_int_equal(device_table_add(table, id, i < 3 ? "Healthy" : "Unhealthy", nodes,
					 i == 1 ? 2 : 0),
			0);
	}
	assert_int_equal(model_plugin_connected(model, GPU, "/p/a.sock", 1, &options), 0);
	assert_int_equal(model_replace_devices(model, GPU, table), 0);
	return model;
}

static void add_container(struct pod *pod, const char *name, enum container_kind kind)
{
	struct pod_container *container;

	assert_int_equal(pod_add_container(pod, name, kind, &container), 0);
	assert_int_equal(container_add_limit(container, GPU, 1), 0);
}

static struct pod *make_pod(struct model *model)
{
	struct pod_container *container;
	struct pod *pod;

	assert_int_equal(model_add_pod(model, "uid", "default", "a", &pod), 0);
	add_container(pod, "first", CONTAINER_INIT);
	add_container(pod, "second", CONTAINER_INIT);
	add_container(pod, "helper", CONTAINER_SIDECAR);
	add_container(pod, "main", CONTAINER_MAIN);
	add_container(pod, "other", CONTAINER_MAIN);
	assert_int_equal(pod_add_container(pod, "main", CONTAINER_MAIN, &container), -EEXIST);
	assert_int_equal(pod_add_container(pod, "late", CONTAINER_INIT, &container), -EINVAL);
	return pod;
}

static void record(struct model *model, const char *container, const char *id)
{
	char copy[8];
	char *ids[] = { copy };

	(void)snprintf(copy, sizeof(copy), "%s", id);
	assert_int_equal(model_record_allocation(
				 model, "uid", container, GPU, ids, 1, (const uint8_t *)"", 0),
		0);
	assert_int_equal(model_recount_allocated(model), 0);
}

static void assert_reusable(
	const struct model *model, const struct pod *pod, size_t container, const char *id)
{
	_cleanup_id_set_ struct id_set ids = {};

	assert_int_equal(model_reusable_devices(model, pod, container, GPU, &ids), 0);
	assert_int_equal(ids.count, id ? 1 : 0);
	if (id)
		assert_true(id_set_contains(&ids, id));
}

static void test_reusable_devices(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model("1.36");
	const struct pod *pod = make_pod(model);

	assert_reusable(model, pod, 0, NULL);
	record(model, "first", "d0");
	assert_reusable(model, pod, 0, NULL);
	assert_reusable(model, pod, 1, "d0");
	record(model, "second", "d0");
	assert_reusable(model, pod, 2, "d0");
	/* A sidecar stays and keeps what it has. */
	record(model, "helper", "d0");
	assert_reusable(model, pod, 3, NULL);
	record(model, "helper", "d1");
	assert_reusable(model, pod, 3, "d0");
	/* So does a main container. */
	record(model, "main", "d0");
	assert_reusable(model, pod, 4, NULL);
}

static enum choice_step begin(
	struct model *model, size_t n, const struct id_set *reusable, struct choice *choice)
{
	struct error error = {};
	int r = choice_begin(model, "uid", "main", GPU, n, reusable, NULL, choice, &error);

	assert_true(r >= 0);
	return (enum choice_step)r;
}

static void test_reused_devices_come_first(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model("1.36");
	_cleanup_id_set_ struct id_set reusable = {};
	char other[] = "d2";
	char *preferred[] = { other };
	struct error error = {};
	struct choice choice = {};

	(void)make_pod(model);
	record(model, "first", "d0");
	assert_int_equal(id_set_insert(&reusable, "d0"), 1);

	/* Enough: the plugin is not asked for a preference. */
	assert_int_equal(begin(model, 1, &reusable, &choice), CHOICE_ALLOCATE);
	assert_int_equal(choice.n_taken, 1);
	assert_string_equal(choice.taken[0], "d0");
	choice_done(&choice);

	/* Not enough: what is reused must be included. */
	assert_int_equal(begin(model, 2, &reusable, &choice), CHOICE_PREFER);
	assert_int_equal(choice.n_available, 3);
	assert_int_equal(choice.n_must, 1);
	assert_string_equal(choice.available[0], "d0");
	assert_int_equal(choice_finish(model, GPU, &choice, preferred, 1, &error), 0);
	assert_int_equal(choice.n_taken, 2);
	assert_string_equal(choice.taken[0], "d0");
	assert_string_equal(choice.taken[1], "d2");
	choice_done(&choice);

	/* What is missing is counted without it. */
	assert_true(
		choice_begin(model, "uid", "main", GPU, 4, &reusable, NULL, &choice, &error) < 0);
	assert_string_equal(error.message,
		"requested number of devices unavailable for " GPU ". Requested: 3, Available: 1");
}

static const V1__PodResources *list_pods(const struct model *model, struct message *message)
{
	_cleanup_free_ uint8_t *data = NULL;
	const V1__ListPodResourcesResponse *list;
	size_t size;

	assert_int_equal(pod_resources_encode_list(model, &data, &size), 0);
	*message = message_unpack(&v1__list_pod_resources_response__descriptor, data, size);
	list = (const V1__ListPodResourcesResponse *)message->base;
	assert_non_null(list);
	return list->n_pod_resources > 0 ? list->pod_resources[0] : NULL;
}

static void test_list(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model("1.36");
	_cleanup_message_ struct message message = {};
	const V1__PodResources *pod;

	(void)make_pod(model);
	record(model, "first", "d0");
	record(model, "main", "d1");
	pod = list_pods(model, &message);
	assert_string_equal(pod->name, "a");
	assert_string_equal(pod->namespace_, "default");
	/* Plain init containers are not shown. */
	assert_int_equal(pod->n_containers, 3);
	assert_string_equal(pod->containers[0]->name, "helper");
	assert_int_equal(pod->containers[0]->n_devices, 0);
	/* A device on two nodes is there twice. */
	assert_string_equal(pod->containers[1]->name, "main");
	assert_int_equal(pod->containers[1]->n_devices, 2);
	for (size_t i = 0; i < 2; i++) {
		const V1__ContainerDevices *device = pod->containers[1]->devices[i];

		assert_string_equal(device->resource_name, GPU);
		assert_int_equal(device->n_device_ids, 1);
		assert_string_equal(device->device_ids[0], "d1");
		assert_int_equal(device->topology->n_nodes, 1);
		assert_int_equal(device->topology->nodes[0]->id, i);
	}
}

static void test_list_of_v1alpha1(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model("1.36");
	_cleanup_message_ struct message message = {};
	_cleanup_free_ uint8_t *data = NULL;
	const V1__ListPodResourcesResponse *list;
	const V1__PodResources *pod;
	size_t size;

	assert_int_equal(pod_set_status(make_pod(model), POD_FAILED, "x", "y"), 0);
	record(model, "main", "d1");
	assert_int_equal(pod_resources_encode_list_v1alpha1(model, &data, &size), 0);
	message = message_unpack(&v1__list_pod_resources_response__descriptor, data, size);
	list = (const V1__ListPodResourcesResponse *)message.base;
	assert_non_null(list);
	/* Pods that failed too, but no sidecars, and nothing of nodes. */
	assert_int_equal(list->n_pod_resources, 1);
	pod = list->pod_resources[0];
	assert_int_equal(pod->n_containers, 2);
	assert_string_equal(pod->containers[0]->name, "main");
	assert_int_equal(pod->containers[0]->n_devices, 2);
	assert_string_equal(pod->containers[0]->devices[0]->device_ids[0], "d1");
	assert_null(pod->containers[0]->devices[0]->topology);
}

static void test_rejected_pods(void **state)
{
	static const char *const versions[] = { "1.33", "1.34" };

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		_cleanup_(model_freep) struct model *model = make_model(versions[i]);
		_cleanup_message_ struct message message = {};
		_cleanup_free_ uint8_t *data = NULL;
		struct pod *pod = make_pod(model);
		size_t size;

		assert_int_equal(
			pod_resources_encode_pod(model, "default", "b", &data, &size), -ENOENT);
		assert_int_equal(pod_set_status(pod, POD_FAILED, "x", "y"), 0);
		assert_int_equal(
			pod_resources_encode_pod(model, "default", "a", &data, &size), -ENOENT);
		assert_int_equal(!list_pods(model, &message), i == 1);
	}
}

static void test_allocatable(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model("1.36");
	const V1__AllocatableResourcesResponse *response;

	(void)make_pod(model);
	record(model, "main", "d1");
	for (unsigned alive = 1; alive != UINT32_MAX; alive--) {
		_cleanup_free_ uint8_t *data = NULL;
		_cleanup_message_ struct message message = {};
		size_t size;

		assert_int_equal(pod_resources_encode_allocatable(model, &data, &size), 0);
		message =
			message_unpack(&v1__allocatable_resources_response__descriptor, data, size);
		response = (const V1__AllocatableResourcesResponse *)message.base;
		assert_non_null(response);
		/* Healthy ones, in use or not; d1 for each of its nodes; none of a dead plugin. */
		assert_int_equal(response->n_devices, alive ? 4 : 0);
		if (alive) {
			assert_null(response->devices[0]->topology);
			assert_string_equal(response->devices[2]->device_ids[0], "d1");
			assert_int_equal(response->devices[2]->topology->nodes[0]->id, 1);
		}
		assert_int_equal(model_plugin_disconnected(model, GPU, 1), true);
	}
}

static void test_other_resources(void **state)
{
	static const char text[] =
		"{\"cpu_ids\": [1, 3], \"memory\": [{\"memory_type\": \"hugepages-2Mi\", "
		"\"size\": 4194304, \"nodes\": [0, 1]}], \"dynamic_resources\": [{"
		"\"claim_name\": \"c\", \"claim_namespace\": \"n\", \"claim_resources\": [{"
		"\"driver_name\": \"d\", \"pool_name\": \"p\", \"device_name\": \"x\", "
		"\"share_id\": \"s\", \"cdi_devices\": [\"v.e/c=1\", \"v.e/c=2\"]}]}]}";
	static const char *const versions[] = { "1.33", "1.34" };

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		_cleanup_(model_freep) struct model *model = make_model(versions[i]);
		_cleanup_message_ struct message message = {};
		const V1__ContainerResources *main_container;
		const V1__DynamicResource *claim;
		struct pod *pod = make_pod(model);

		pod->containers[3].others = json_loads(text, 0, NULL);
		assert_int_equal(other_resources_check(pod->containers[3].others), 0);
		main_container = list_pods(model, &message)->containers[1];
		assert_string_equal(main_container->name, "main");
		assert_int_equal(main_container->n_cpu_ids, 2);
		assert_int_equal(main_container->cpu_ids[1], 3);
		assert_int_equal(main_container->n_memory, 1);
		assert_string_equal(main_container->memory[0]->memory_type, "hugepages-2Mi");
		assert_int_equal(main_container->memory[0]->size, 4194304);
		assert_int_equal(main_container->memory[0]->topology->n_nodes, 2);
		assert_int_equal(main_container->memory[0]->topology->nodes[1]->id, 1);
		assert_int_equal(main_container->n_dynamic_resources, i);
		if (i == 0)
			continue;
		claim = main_container->dynamic_resources[0];
		assert_string_equal(claim->claim_name, "c");
		assert_string_equal(claim->claim_namespace, "n");
		assert_string_equal(claim->claim_resources[0]->driver_name, "d");
		assert_string_equal(claim->claim_resources[0]->pool_name, "p");
		assert_string_equal(claim->claim_resources[0]->device_name, "x");
		assert_string_equal(claim->claim_resources[0]->share_id, "s");
		assert_string_equal(claim->claim_resources[0]->cdi_devices[1]->name, "v.e/c=2");
	}
}

static void test_other_resources_that_are_none(void **state)
{
	static const char *const texts[] = {
		"[]",
		"{\"cpu_ids\": 1}",
		"{\"cpu_ids\": [\"1\"]}",
		"{\"memory\": [{\"memory_type\": \"memory\"}]}",
		"{\"memory\": [{\"size\": -1}]}",
		"{\"memory\": [{\"size\": 1, \"nodes\": [true]}]}",
		"{\"dynamic_resources\": [{\"claim_name\": 1}]}",
		"{\"dynamic_resources\": [{\"claim_resources\": [{\"cdi_devices\": [1]}]}]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		json_t *json = json_loads(texts[i], 0, NULL);

		assert_non_null(json);
		assert_int_equal(other_resources_check(json), -EBADMSG);
		json_decref(json);
	}
	assert_int_equal(other_resources_check(NULL), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reusable_devices),
		cmocka_unit_test(test_reused_devices_come_first),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_list_of_v1alpha1),
		cmocka_unit_test(test_rejected_pods),
		cmocka_unit_test(test_allocatable),
		cmocka_unit_test(test_other_resources),
		cmocka_unit_test(test_other_resources_that_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
