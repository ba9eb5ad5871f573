/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of running pods when the stand-in for the kubelet is restarted: it depends on how
 * the devices that they hold are listed then, and on the kubelet's release.
 */
#include "kubelet-fixture.h"
#include "kubelet/readmission.h"

#define NONE INT64_MIN

/* How a device is listed after the restart. */
struct listed {
	const char *id;
	const char *health;
	int64_t node; /* NONE: without topology */
};

static void list_all(struct model *model, const struct listed *listed, size_t n)
{
	struct device_table *table;

	assert_int_equal(device_table_new(n, &table), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(device_table_add(table, listed[i].id, listed[i].health,
					 &listed[i].node, listed[i].node == NONE ? 0 : 1),
			0);
	assert_int_equal(model_replace_devices(model, GPU, table), 0);
}
#define LIST(model, ...)                                        \
	list_all(model, (const struct listed[]){ __VA_ARGS__ }, \
		sizeof((const struct listed[]){ __VA_ARGS__ }) / sizeof(struct listed))

/* A restarted kubelet of that release on a machine with two nodes: nothing is listed yet. */
static struct model *make_restarted(const char *version, enum topology_policy policy)
{
	struct model *model = make_model();

	model->version = kubelet_version_find(version);
	model->topology = (struct topology_rules){ .policy = policy, .n_nodes = 2 };
	return model;
}

/* A running pod whose container of that kind holds these devices, which were on node 0. */
static struct pod *add_holder(
	struct model *model, enum container_kind kind, const char *const *ids, size_t n)
{
	struct allocation *allocation = calloc(1, sizeof(*allocation));
	struct pod_container *container;
	struct pod *pod;

	assert_int_equal(model_add_pod(model, "uid", "default", "a", &pod), 0);
	assert_int_equal(pod_add_container(pod, "c", kind, &container), 0);
	assert_int_equal(container_add_limit(container, GPU, n), 0);
	pod->phase = POD_RUNNING;
	allocation->pod_uid = strdup("uid");
	allocation->container = strdup("c");
	allocation->resource = strdup(GPU);
	allocation->response = malloc(1);
	allocation->devices = calloc(n, sizeof(*allocation->devices));
	allocation->n_devices = n;
	for (size_t i = 0; i < n; i++)
		allocation->devices[i].id = strdup(ids[i]);
	assert_int_equal(model_insert_allocation(model, allocation), 0);
	assert_int_equal(model_recount_allocated(model), 0);
	return pod;
}
#define ADD_HOLDER(model, kind, ...)                                  \
	add_holder(model, kind, (const char *const[]){ __VA_ARGS__ }, \
		ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))

#define GOES_ON NULL

/* `reason`: of the pod's failure. */
static void assert_readmitted(struct model *model, const char *reason)
{
	struct error error = {};
	const char *got = NULL;
	int r = readmission_try(model, model->pods[0], &got, &error);

	assert_int_equal(r, reason == GOES_ON);
	if (reason)
		assert_string_equal(got, reason);
}

static void test_missing_device(void **state)
{
	for (const struct kubelet_version *v = kubelet_versions; v->name; v++) {
		_cleanup_(model_freep) struct model *model =
			make_restarted(v->name, TOPOLOGY_RESTRICTED);
		struct error error = {};
		char text[64];

		(void)ADD_HOLDER(model, CONTAINER_MAIN, "d0");
		LIST(model, { "d1", "Healthy", 0 });
		if (strcmp(v->name, "1.34") < 0) {
			assert_readmitted(model, TOPOLOGY_REASON);
			continue;
		}
		assert_int_equal(
			readmission_try(model, model->pods[0], &(const char *){ NULL }, &error),
			-EFAULT);
		(void)snprintf(text, sizeof(text), "kubelet %s panics here", v->name);
		assert_non_null(strstr(error.message, text));
		assert_non_null(strstr(error.message, "device \"d0\" of " GPU));
	}
}

/* With what a kubelet does not search for the devices. */
static void test_missing_device_that_is_not_needed(void **state)
{
	struct model *model = make_restarted("1.36", TOPOLOGY_NONE);

	(void)ADD_HOLDER(model, CONTAINER_MAIN, "d0");
	LIST(model, { "d1", "Healthy", 0 });
	assert_readmitted(model, GOES_ON);
	/* Without a node in the whole list no hints are asked for. */
	model->topology.policy = TOPOLOGY_RESTRICTED;
	LIST(model, { "d1", "Healthy", NONE });
	assert_readmitted(model, GOES_ON);
	model = model_free(model);

	/* A count that differs from the record does not start a search, but a refusal. */
	model = make_restarted("1.36", TOPOLOGY_RESTRICTED);
	ADD_HOLDER(model, CONTAINER_MAIN, "d0")->containers[0].limits[0].count = 2;
	LIST(model, { "d1", "Healthy", 0 });
	assert_readmitted(model, TOPOLOGY_REASON);
	(void)model_free(model);
}

static void test_unhealthy_device_with_its_node(void **state)
{
	for (const struct kubelet_version *v = kubelet_versions; v->name; v++) {
		_cleanup_(model_freep) struct model *model =
			make_restarted(v->name, TOPOLOGY_RESTRICTED);
		const struct pod *pod = ADD_HOLDER(model, CONTAINER_MAIN, "d0");

		LIST(model, { "d0", "Unhealthy", 0 }, { "d1", "Unhealthy", 1 });
		assert_readmitted(model, GOES_ON);
		assert_int_equal(pod->containers[0].topology.nodes, 1);
	}
}

static void test_device_without_its_node(void **state)
{
	_cleanup_(model_freep) struct model *model = make_restarted("1.36", TOPOLOGY_RESTRICTED);

	(void)ADD_HOLDER(model, CONTAINER_MAIN, "d0", "d1");
	LIST(model, { "d0", "Unhealthy", NONE }, { "d1", "Healthy", 0 }, { "d2", "Healthy", 0 });
	assert_readmitted(model, TOPOLOGY_REASON);
	/* On another node the pair is not where a pair could be. */
	LIST(model, { "d0", "Unhealthy", 1 }, { "d1", "Healthy", 0 }, { "d2", "Healthy", 0 });
	assert_readmitted(model, TOPOLOGY_REASON);
	model->topology.policy = TOPOLOGY_BEST_EFFORT;
	assert_readmitted(model, GOES_ON);
}

static void test_pod_as_a_whole(void **state)
{
	_cleanup_(model_freep) struct model *model = make_restarted("1.36", TOPOLOGY_RESTRICTED);
	struct error error = {};

	model->topology.scope = TOPOLOGY_SCOPE_POD;
	(void)ADD_HOLDER(model, CONTAINER_MAIN, "d0", "d1");
	LIST(model, { "d0", "Healthy", 0 }, { "d1", "Unhealthy", 0 });
	assert_readmitted(model, GOES_ON);
	LIST(model, { "d0", "Healthy", 0 });
	assert_int_equal(
		readmission_try(model, model->pods[0], &(const char *){ NULL }, &error), -EFAULT);
}

static void test_static_pods(void **state)
{
	for (const struct kubelet_version *v = kubelet_versions; v->name; v++) {
		_cleanup_(model_freep) struct model *model = make_restarted(v->name, TOPOLOGY_NONE);

		ADD_HOLDER(model, CONTAINER_MAIN, "d0")->is_static = true;
		LIST(model, { "d0", "Unhealthy", 0 }, { "d1", "Healthy", 0 });
		assert_readmitted(
			model, v->static_pods_need_health ? "UnexpectedAdmissionError" : GOES_ON);
	}
}

/* It has done its work, and does not run. */
static void test_init_container(void **state)
{
	_cleanup_(model_freep) struct model *model = make_restarted("1.36", TOPOLOGY_NONE);
	const char *reason;
	struct error error = {};

	(void)ADD_HOLDER(model, CONTAINER_INIT, "d0");
	LIST(model, { "d0", "Healthy", 0 });
	assert_readmitted(model, GOES_ON);
	LIST(model, { "d0", "Unhealthy", 0 }, { "d1", "Healthy", 0 });
	assert_int_equal(readmission_try(model, model->pods[0], &reason, &error), 0);
	assert_string_equal(reason, "UnexpectedAdmissionError");
	assert_string_equal(error.message,
		"Allocate failed due to previously allocated devices are no longer healthy; cannot allocate unhealthy devices " GPU
		", which is unexpected");
}

static void test_due_when_listed(void **state)
{
	_cleanup_(model_freep) struct model *model = make_restarted("1.36", TOPOLOGY_RESTRICTED);
	const struct pod *pod = ADD_HOLDER(model, CONTAINER_MAIN, "d0");

	assert_false(readmission_is_due(model, pod));
	LIST(model, { "d0", "Healthy", 0 });
	assert_true(readmission_is_due(model, pod));
}

static void test_stopped_containers(void **state)
{
	_cleanup_(model_freep) struct model *model = make_restarted("1.36", TOPOLOGY_NONE);
	struct pod *pod = ADD_HOLDER(model, CONTAINER_MAIN, "d0");

	LIST(model, { "d0", "Unhealthy", 0 }, { "d1", "Healthy", 0 });
	assert_readmitted(model, GOES_ON);
	pod->is_stopped = true;
	assert_readmitted(model, "UnexpectedAdmissionError");
	LIST(model, { "d0", "Healthy", 0 });
	assert_readmitted(model, GOES_ON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_device),
		cmocka_unit_test(test_missing_device_that_is_not_needed),
		cmocka_unit_test(test_unhealthy_device_with_its_node),
		cmocka_unit_test(test_device_without_its_node),
		cmocka_unit_test(test_pod_as_a_whole),
		cmocka_unit_test(test_static_pods),
		cmocka_unit_test(test_init_container),
		cmocka_unit_test(test_due_when_listed),
		cmocka_unit_test(test_stopped_containers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
