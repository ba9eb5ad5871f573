/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in for the kubelet aligns devices by the rules of the kubelet's topology manager: the
 * hints of the device manager, the merged hints of several resources, the pods that a policy
 * refuses, and the devices that are then chosen.
 */
#include "kubelet-fixture.h"
#include "kubelet/choice.h"

#define NIC  "vendor.example/nic"
#define NONE INT64_MIN

/* A resource whose device dN is on nodes[N]: no node (NONE), or one. */
static void list_on(struct model *model, const char *resource, const int64_t *nodes, size_t n)
{
	struct plugin_options options = { .preferred_allocation = true };
	struct device_table *table;
	char id[32];

	assert_int_equal(device_table_new(n, &table), 0);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(id, sizeof(id), "d%zu", i);
		assert_int_equal(
			device_table_add(table, id, "Healthy", &nodes[i], nodes[i] == NONE ? 0 : 1),
			0);
	}
	assert_int_equal(model_plugin_connected(model, resource, "/p/a.sock", 1, &options), 0);
	assert_int_equal(model_replace_devices(model, resource, table), 0);
}
#define LIST_ON(model, resource, ...)                              \
	list_on(model, resource, (const int64_t[]){ __VA_ARGS__ }, \
		ARRAY_SIZE(((const int64_t[]){ __VA_ARGS__ })))

static struct model *make_node(enum topology_policy policy, unsigned n_nodes)
{
	struct model *model = make_model();

	model->topology = (struct topology_rules){ .policy = policy, .n_nodes = n_nodes };
	return model;
}

static struct pod *make_pod(struct model *model)
{
	struct pod *pod;

	assert_int_equal(model_add_pod(model, "uid", "default", "a", &pod), 0);
	return pod;
}

static struct pod_container *add_container(
	struct pod *pod, const char *name, enum container_kind kind, uint64_t gpus, uint64_t nics)
{
	struct pod_container *container;

	assert_int_equal(pod_add_container(pod, name, kind, &container), 0);
	if (gpus > 0)
		assert_int_equal(container_add_limit(container, GPU, gpus), 0);
	if (nics > 0)
		assert_int_equal(container_add_limit(container, NIC, nics), 0);
	return container;
}

/* Asks for one container; its hint has these nodes, 0: any. */
static void assert_admits(struct model *model, uint64_t gpus, uint64_t nics, bool admitted,
	uint64_t nodes, bool preferred)
{
	struct pod *pod = make_pod(model);
	const struct pod_container *container =
		add_container(pod, "main", CONTAINER_MAIN, gpus, nics);
	struct error error = {};

	assert_int_equal(topology_admit(model, pod, 0, &error), admitted);
	assert_int_equal(container->topology.aligned, nodes != 0);
	if (nodes != 0)
		assert_int_equal(container->topology.nodes, nodes);
	assert_int_equal(container->topology.preferred, preferred);
	model_remove_pod(model, pod);
}

static void occupy(struct model *model, const char *resource, const char *id)
{
	assert_int_equal(id_set_insert(&model_find_resource(model, resource)->allocated, id), 1);
}

static void test_names(void **state)
{
	enum topology_policy policy;
	enum topology_scope scope;

	for (unsigned i = TOPOLOGY_NONE; i <= TOPOLOGY_SINGLE_NUMA_NODE; i++) {
		const char *name = topology_policy_to_string((enum topology_policy)i);

		assert_int_equal(topology_policy_from_string(name, &policy), 0);
		assert_int_equal(policy, i);
	}
	assert_int_equal(topology_policy_from_string("strict", &policy), -EINVAL);
	assert_int_equal(topology_scope_from_string("pod", &scope), 0);
	assert_int_equal(scope, TOPOLOGY_SCOPE_POD);
	assert_int_equal(topology_scope_from_string("", &scope), -EINVAL);
}

static void test_policy_none_asks_no_provider(void **state)
{
	_cleanup_(model_freep) struct model *model = make_node(TOPOLOGY_NONE, 2);

	LIST_ON(model, GPU, 0, 1);
	assert_admits(model, 3, 0, true, 0, false);
}

static void test_smallest_set_is_preferred(void **state)
{
	_cleanup_(model_freep) struct model *model = make_node(TOPOLOGY_RESTRICTED, 2);

	LIST_ON(model, GPU, 0, 0, 1, 1);
	assert_admits(model, 1, 0, true, 1, true);
	assert_admits(model, 2, 0, true, 1, true);
	assert_admits(model, 3, 0, true, 3, true);
	/* If two nodes are equally good, the lower one is chosen; a full node does not count. */
	occupy(model, GPU, "d0");
	assert_admits(model, 1, 0, true, 1, true);
	assert_admits(model, 2, 0, true, 2, true);
	/* Across both nodes it would fit, but not as narrowly as it could be. */
	occupy(model, GPU, "d2");
	assert_admits(model, 2, 0, false, 3, false);
	assert_admits(model, 3, 0, false, 3, false);
	assert_admits(model, 0, 0, true, 3, true);
}

static void test_policies_differ(void **state)
{
	static const struct {
		enum topology_policy policy;
		bool two, three;
	} cases[] = {
		{ TOPOLOGY_BEST_EFFORT, true, true },
		{ TOPOLOGY_RESTRICTED, false, true },
		{ TOPOLOGY_SINGLE_NUMA_NODE, false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(model_freep) struct model *model = make_node(cases[i].policy, 2);
		bool single = cases[i].policy == TOPOLOGY_SINGLE_NUMA_NODE;

		LIST_ON(model, GPU, 0, 0, 1, 1);
		/* Three never fit on one node: two nodes are preferred, a single one impossible. */
		assert_admits(model, 3, 0, cases[i].three, single ? 0 : 3, !single);
		occupy(model, GPU, "d0");
		occupy(model, GPU, "d2");
		assert_admits(model, 2, 0, cases[i].two, single ? 0 : 3, false);
		assert_admits(model, 1, 0, true, 1, true);
	}
}

static void test_single_node_machine_has_no_alignment(void **state)
{
	_cleanup_(model_freep) struct model *model = make_node(TOPOLOGY_SINGLE_NUMA_NODE, 1);

	LIST_ON(model, GPU, 0, 0);
	assert_admits(model, 2, 0, true, 0, true);
	model->topology.policy = TOPOLOGY_RESTRICTED;
	assert_admits(model, 2, 0, true, 1, true);
}

static void test_resources_must_agree(void **state)
{
	_cleanup_(model_freep) struct model *model = make_node(TOPOLOGY_SINGLE_NUMA_NODE, 2);

	LIST_ON(model, GPU, 0, 1);
	LIST_ON(model, NIC, 1, 1);
	assert_admits(model, 1, 1, true, 2, true);
	occupy(model, GPU, "d1");
	assert_admits(model, 1, 1, false, 0, false);
	/* Best effort takes what is left of the wishes: the GPU would do with both nodes. */
	model->topology.policy = TOPOLOGY_BEST_EFFORT;
	assert_admits(model, 1, 1, true, 2, false);
	/* A resource without nodes has no wish. */
	LIST_ON(model, NIC, NONE, NONE);
	assert_admits(model, 1, 1, true, 1, true);
}

/* A wide and a narrow wish: 1.35 knows the narrow one's wider sets, too. */
static void test_versions_differ_in_nodes_considered(void **state)
{
	_cleanup_(model_freep) struct model *model = make_node(TOPOLOGY_BEST_EFFORT, 2);

	LIST_ON(model, GPU, 0);
	LIST_ON(model, NIC, 0, 1);
	assert_admits(model, 1, 2, true, 1, false);
	model->version = kubelet_version_find("1.35");
	assert_admits(model, 1, 2, true, 3, false);
}

static void test_node_minus_one_never_matches(void **state)
{
	_cleanup_(model_freep) struct model *model = make_node(TOPOLOGY_RESTRICTED, 2);

	LIST_ON(model, GPU, -1, -1);
	assert_admits(model, 1, 0, false, 3, false);
	/* Nor does a node that the machine does not have. */
	LIST_ON(model, GPU, 5, 5);
	assert_admits(model, 1, 0, false, 3, false);
	/* A device without nodes among others with some counts for no set. */
	LIST_ON(model, GPU, NONE, 1);
	assert_admits(model, 1, 0, true, 2, true);
	assert_admits(model, 2, 0, false, 3, false);
}

static void test_sick_devices_count_for_preference_only(void **state)
{
	_cleanup_(model_freep) struct model *model = make_node(TOPOLOGY_RESTRICTED, 2);
	const int64_t nodes[] = { 0, 1 };
	struct device_table *table;

	assert_int_equal(device_table_new(3, &table), 0);
	assert_int_equal(device_table_add(table, "d0", "Healthy", &nodes[0], 1), 0);
	assert_int_equal(device_table_add(table, "d1", "Unhealthy", &nodes[0], 1), 0);
	assert_int_equal(device_table_add(table, "d2", "Healthy", &nodes[1], 1), 0);
	LIST_ON(model, GPU, 0);
	assert_int_equal(model_replace_devices(model, GPU, table), 0);
	assert_admits(model, 2, 0, false, 3, false);
}

static void test_reused_devices_bind_the_set(void **state)
{
	_cleanup_(model_freep) struct model *model = make_node(TOPOLOGY_RESTRICTED, 2);
	char *ids[] = { (char[]){ "d2" } };
	struct pod *pod = make_pod(model);
	struct error error = {};

	LIST_ON(model, GPU, 0, 0, 1, 1);
	(void)add_container(pod, "init", CONTAINER_INIT, 1, 0);
	(void)add_container(pod, "main", CONTAINER_MAIN, 2, 0);
	assert_int_equal(
		model_record_allocation(model, "uid", "init", GPU, ids, 1, (const uint8_t *)"", 0),
		0);
	assert_int_equal(model_recount_allocated(model), 0);
	assert_int_equal(topology_admit(model, pod, 1, &error), 1);
	assert_int_equal(pod->containers[1].topology.nodes, 2);
	/* One that is not listed any more. */
	LIST_ON(model, GPU, 0, 0);
	assert_int_equal(topology_admit(model, pod, 1, &error), -EFAULT);
	model->version = kubelet_version_find("1.33");
	assert_int_equal(topology_admit(model, pod, 1, &error), 1);
}

static void test_scope_pod(void **state)
{
	_cleanup_(model_freep) struct model *model = make_node(TOPOLOGY_SINGLE_NUMA_NODE, 2);
	struct pod *pod = make_pod(model);
	struct error error = {};

	LIST_ON(model, GPU, 0, 0, 1, 1, 1);
	(void)add_container(pod, "sidecar", CONTAINER_SIDECAR, 1, 0);
	(void)add_container(pod, "init", CONTAINER_INIT, 1, 0);
	(void)add_container(pod, "a", CONTAINER_MAIN, 1, 0);
	(void)add_container(pod, "b", CONTAINER_MAIN, 1, 0);
	/* Each alone fits on node 0. */
	assert_int_equal(topology_admit(model, pod, 2, &error), 1);
	assert_int_equal(pod->containers[2].topology.nodes, 1);
	assert_false(pod->containers[3].topology.aligned);
	/* Together they are three, and the init container is over by then. */
	model->topology.scope = TOPOLOGY_SCOPE_POD;
	assert_int_equal(topology_admit(model, pod, 0, &error), 1);
	for (size_t i = 0; i < pod->n_containers; i++)
		assert_int_equal(pod->containers[i].topology.nodes, 2);
	occupy(model, GPU, "d4");
	assert_int_equal(topology_admit(model, pod, 0, &error), 0);
	/* For the containers behind the first one it was decided with it. */
	assert_int_equal(topology_admit(model, pod, 1, &error), 1);
}

/* What without a preferred outcome comes closest to the resource that needs most. */
static void test_merging_without_preference(void **state)
{
	static const struct topology_rules rules = { .policy = TOPOLOGY_BEST_EFFORT, .n_nodes = 4 };
	struct topology_hint first[] = { { true, false, 1 }, { true, false, 3 },
		{ true, false, 15 } };
	struct topology_hint second[] = { { true, true, 3 }, { true, false, 15 } };
	struct topology_hint *hints[] = { first, second };
	const size_t n_hints[] = { ARRAY_SIZE(first), ARRAY_SIZE(second) };
	struct topology_hint merged;

	assert_true(topology_merge(&rules, hints, n_hints, 2, &merged));
	assert_int_equal(merged.nodes, 3);
	assert_false(merged.preferred);
	/* Both may prefer and still not agree: then it is not preferred. */
	first[0].preferred = true;
	assert_true(topology_merge(&rules, hints, n_hints, 1, &merged));
	assert_true(merged.preferred);
	assert_true(topology_merge(&rules, hints, n_hints, 2, &merged));
	assert_false(merged.preferred);
}

/* Eight nodes and six resources: the kubelet would try 255^6 combinations. */
static void test_merging_is_bounded(void **state)
{
	static const struct topology_rules rules = { .policy = TOPOLOGY_RESTRICTED, .n_nodes = 8 };
	static struct topology_hint all[255];
	struct topology_hint *hints[] = { all, all, all, all, all, all };
	const size_t n_hints[] = { 255, 255, 255, 255, 255, 255 };
	struct topology_hint merged;

	for (size_t i = 0; i < 255; i++)
		all[i] = (struct topology_hint){ true, i + 1 == 0x30, i + 1 };
	assert_true(topology_merge(&rules, hints, n_hints, ARRAY_SIZE(hints), &merged));
	assert_int_equal(merged.nodes, 0x30);
}

static int begin(struct model *model, size_t n, uint64_t nodes, struct choice *choice)
{
	const struct topology_hint hint = { .aligned = true, .nodes = nodes };
	struct error error = {};

	return choice_begin(model, "uid", POD_CONTAINER, GPU, n, NULL, &hint, choice, &error);
}

static void test_choice_is_aligned(void **state)
{
	struct error error = {};

	/* With any arbitrary order. */
	for (uint64_t seed = 0; seed < 20; seed++) {
		_cleanup_(model_freep) struct model *model = make_node(TOPOLOGY_BEST_EFFORT, 2);
		char *preferred[] = { (char[]){ "d0" }, (char[]){ "d5" } };
		struct choice choice = {};

		model->random = seed;
		LIST_ON(model, GPU, 0, 0, 1, 1, 1, NONE);
		/* More than enough on node 1: the plugin chooses among them, and only them. */
		assert_int_equal(begin(model, 2, 2, &choice), CHOICE_PREFER);
		assert_int_equal(choice.n_offered, 3);
		assert_int_equal(choice.n_must, 0);
		assert_int_equal(choice_finish(model, GPU, &choice, preferred, 2, &error), 0);
		for (size_t i = 0; i < 2; i++)
			assert_non_null(strstr("d2 d3 d4", choice.taken[i]));
		choice_done(&choice);

		/* Exactly enough: the plugin is not asked. */
		assert_int_equal(model_recount_allocated(model), 0);
		assert_int_equal(begin(model, 3, 2, &choice), CHOICE_ALLOCATE);
		for (size_t i = 0; i < 3; i++)
			assert_non_null(strstr("d2 d3 d4", choice.taken[i]));
		choice_done(&choice);

		/* Too few: they are taken, and the plugin is asked for the rest with them. */
		assert_int_equal(model_recount_allocated(model), 0);
		assert_int_equal(begin(model, 4, 2, &choice), CHOICE_PREFER);
		assert_int_equal(choice.n_offered, 6);
		assert_int_equal(choice.n_must, 3);
		for (size_t i = 0; i < 3; i++)
			assert_non_null(strstr("d2 d3 d4", choice.available[i]));
		assert_int_equal(choice_finish(model, GPU, &choice, &preferred[1], 1, &error), 0);
		assert_string_equal(choice.taken[3], "d5");
		choice_done(&choice);

		/* Without a wish of the plugin the device without a node comes last. */
		assert_int_equal(model_recount_allocated(model), 0);
		assert_int_equal(begin(model, 5, 2, &choice), CHOICE_PREFER);
		assert_int_equal(choice_finish(model, GPU, &choice, NULL, 0, &error), 0);
		for (size_t i = 3; i < 5; i++)
			assert_non_null(strstr("d0 d1", choice.taken[i]));
		choice_done(&choice);
	}
}

static void test_choice_of_a_device_on_two_nodes(void **state)
{
	_cleanup_(model_freep) struct model *model = make_node(TOPOLOGY_BEST_EFFORT, 2);
	const int64_t both[] = { 0, 1 }, odd[] = { -1, 0 };
	struct device_table *table;
	struct choice choice = {};

	LIST_ON(model, GPU, 0);
	assert_int_equal(device_table_new(3, &table), 0);
	assert_int_equal(device_table_add(table, "both", "Healthy", both, 2), 0);
	assert_int_equal(device_table_add(table, "odd", "Healthy", odd, 2), 0);
	assert_int_equal(device_table_add(table, "none", "Healthy", odd, 1), 0);
	assert_int_equal(model_replace_devices(model, GPU, table), 0);
	assert_int_equal(begin(model, 2, 2, &choice), CHOICE_PREFER);
	assert_int_equal(choice.n_must, 1);
	assert_string_equal(choice.available[0], "both");
	assert_string_equal(choice.available[1], "odd");
	assert_string_equal(choice.available[2], "none");
	choice_done(&choice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_policy_none_asks_no_provider),
		cmocka_unit_test(test_smallest_set_is_preferred),
		cmocka_unit_test(test_policies_differ),
		cmocka_unit_test(test_single_node_machine_has_no_alignment),
		cmocka_unit_test(test_resources_must_agree),
		cmocka_unit_test(test_versions_differ_in_nodes_considered),
		cmocka_unit_test(test_node_minus_one_never_matches),
		cmocka_unit_test(test_sick_devices_count_for_preference_only),
		cmocka_unit_test(test_reused_devices_bind_the_set),
		cmocka_unit_test(test_scope_pod),
		cmocka_unit_test(test_merging_without_preference),
		cmocka_unit_test(test_merging_is_bounded),
		cmocka_unit_test(test_choice_is_aligned),
		cmocka_unit_test(test_choice_of_a_device_on_two_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
