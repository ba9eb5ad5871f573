/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods with several containers: which devices of init containers are used again, and what the
 * PodResources API says of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "podresources.pb-c.h"
#include "proto/message.h"
#include "tests/kubelet/choice.h"
#include "tests/kubelet/pod-resources-message.h"

#define GPU "vendor.example/gpu"

static struct model *make_model(enum behaviour behaviour)
{
	static const int64_t nodes[] = { 0, 1 };
	struct plugin_options options = { .preferred_allocation = true };
	struct device_table *table;
	struct model *model;
	char id[8];

	assert_int_equal(model_new(behaviour, true, KUBELET_GRACE, 1, &model), 0);
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
	_cleanup_(model_freep) struct model *model = make_model(BEHAVIOUR_1_36);
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
	_cleanup_(model_freep) struct model *model = make_model(BEHAVIOUR_1_36);
	_cleanup_id_set_ struct id_set reusable = {};
	char other[] = "d2";
	char *preferred[] = { other };
	struct error error = {};
	struct choice choice = {};

	(void)make_pod(model);
	record(model, "first", "d0");
	assert_int_equal(id_set_insert(&reusable, "d0"), 1);

	/* Enough: nobody is asked what is preferred. */
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
	_cleanup_(model_freep) struct model *model = make_model(BEHAVIOUR_1_36);
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
	_cleanup_(model_freep) struct model *model = make_model(BEHAVIOUR_1_36);
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
	static const enum behaviour behaviours[] = { BEHAVIOUR_1_32, BEHAVIOUR_1_36 };

	for (size_t i = 0; i < ARRAY_SIZE(behaviours); i++) {
		_cleanup_(model_freep) struct model *model = make_model(behaviours[i]);
		_cleanup_message_ struct message message = {};
		_cleanup_free_ uint8_t *data = NULL;
		struct pod *pod = make_pod(model);
		size_t size;

		assert_int_equal(
			pod_resources_encode_pod(model, "default", "b", &data, &size), -ENOENT);
		assert_int_equal(pod_set_status(pod, POD_FAILED, "x", "y"), 0);
		assert_int_equal(
			pod_resources_encode_pod(model, "default", "a", &data, &size), -ENOENT);
		assert_int_equal(!list_pods(model, &message), behaviours[i] == BEHAVIOUR_1_36);
	}
}

static void test_allocatable(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model(BEHAVIOUR_1_36);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reusable_devices),
		cmocka_unit_test(test_reused_devices_come_first),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_list_of_v1alpha1),
		cmocka_unit_test(test_rejected_pods),
		cmocka_unit_test(test_allocatable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
