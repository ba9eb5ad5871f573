/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in for the kubelet decides as a kubelet does: whom it registers, whom it disconnects
 * when a stream ends, what counts as capacity, and in which words it refuses.
 */
#include "kubelet-fixture.h"
#include "kubelet/registration-check.h"

static void test_resource_names(void **state)
{
	static const char *const bad[] = {
		"a",
		"",
		"a/",
		"/a",
		"kubernetes.io/x",
		"x.kubernetes.io/y",
		"mykubernetes.io/x",
		"requests.a/b",
		"A.com/x",
		"a/b/c",
		"a..b/c",
		"-a/b",
		"a-/b",
		"a.-b/c",
		"a_b/c",
		"a/-b",
		"a/b-",
		"a/b c",
	};
	static const char *const good[] = {
		"a/b",
		"vendor.example/gpu",
		"kubernetes.io.example.com/x",
		"a-b.c/X_y.z-1",
		"1/2",
	};
	char name[400];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(resource_name_is_valid(bad[i]));
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(resource_name_is_valid(good[i]));
	for (int size = 243; size <= 246; size++) {
		(void)snprintf(name, sizeof(name), "%0*d/x", size, 0);
		assert_int_equal(resource_name_is_valid(name), size <= 244);
	}
	for (int size = 62; size <= 65; size++) {
		(void)snprintf(name, sizeof(name), "a/%0*d", size, 0);
		assert_int_equal(resource_name_is_valid(name), size <= 63);
	}
}

static void test_registration_texts(void **state)
{
	struct error error = {};

	assert_int_equal(registration_check("v1beta1", GPU, &error), 0);
	/* The version is checked first. */
	assert_true(registration_check("v1", "bad", &error) < 0);
	assert_string_equal(error.message,
		"requested API version \"v1\" is not supported by kubelet. Supported version is [\"v1beta1\"]");
	assert_true(registration_check("v1beta1", "b\"ad", &error) < 0);
	assert_string_equal(error.message, "the ResourceName \"b\\\"ad\" is invalid");
}

static void test_watched_plugins(void **state)
{
	static char old[] = "v1alpha1", current[] = "v1beta1";
	char *const versions[] = { old, current };
	struct error error = {};

	assert_int_equal(registration_check_info(GPU, versions, 2, &error), 0);
	assert_true(registration_check_info(GPU, versions, 1, &error) < 0);
	assert_string_equal(error.message,
		"manager version, v1beta1, is not among plugin supported versions [v1alpha1]");
	assert_true(registration_check_info("bad", versions, 2, &error) < 0);
	assert_string_equal(error.message,
		"invalid name of device plugin socket: the ResourceName \"bad\" is invalid");
}

static void assert_endpoint_path(const char *endpoint, const char *expected)
{
	_cleanup_free_ char *path = endpoint_path("/var/p/", endpoint);

	assert_string_equal(path, expected);
}

static void test_endpoint_path(void **state)
{
	assert_endpoint_path("a.sock", "/var/p/a.sock");
	assert_endpoint_path("/a.sock", "/var/p/a.sock");
	assert_endpoint_path("sub/a.sock", "/var/p/sub/a.sock");
	assert_endpoint_path("../x/./a.sock", "/var/x/a.sock");
	assert_endpoint_path("../../../a", "/a");
	assert_endpoint_path("../..", "/");
	assert_endpoint_path("", "/var/p");
}

static void test_old_stream_hits_newer_client(void **state)
{
	struct client_table table = { .stale_stream_race = true };

	assert_int_equal(client_table_put(&table, GPU, "/p/old", 1), 0);
	assert_int_equal(client_table_put(&table, GPU, "/p/new", 2), 0);
	assert_int_equal(client_table_find(&table, GPU), 2);
	assert_int_equal(client_table_end(&table, GPU, "/p/old"), 2);
	/* The newer stream, cancelled by that, finds no client. */
	assert_int_equal(client_table_end(&table, GPU, "/p/new"), 0);
	client_table_done(&table);
}

static void test_later_kubelets_distinguish_clients(void **state)
{
	struct client_table table = { .stale_stream_race = false };

	assert_int_equal(client_table_put(&table, GPU, "/p/old", 1), 0);
	assert_int_equal(client_table_put(&table, GPU, "/p/new", 2), 0);
	assert_int_equal(client_table_end(&table, GPU, "/p/old"), 1);
	assert_int_equal(client_table_find(&table, GPU), 2);
	assert_int_equal(client_table_end(&table, GPU, "/p/new"), 2);

	/* One path used again is one client, also for them. */
	assert_int_equal(client_table_put(&table, GPU, "/p/same", 3), 0);
	assert_int_equal(client_table_put(&table, GPU, "/p/same", 4), 0);
	assert_int_equal(client_table_end(&table, GPU, "/p/same"), 4);
	assert_int_equal(client_table_end(&table, GPU, "/p/same"), 0);
	client_table_done(&table);
}

static void test_failed_duplicate_register(void **state)
{
	struct client_table table = { .stale_stream_race = true };

	/* The entry of the living plugin was removed, so its end is not noticed. */
	assert_int_equal(client_table_put(&table, GPU, "/p/alive", 1), 0);
	assert_int_equal(client_table_put(&table, GPU, "/p/dead", 2), 0);
	client_table_drop(&table, GPU, "/p/dead");
	assert_int_equal(client_table_end(&table, GPU, "/p/alive"), 0);

	table.stale_stream_race = false;
	assert_int_equal(client_table_put(&table, GPU, "/p/alive", 3), 0);
	assert_int_equal(client_table_put(&table, GPU, "/p/dead", 4), 0);
	client_table_drop(&table, GPU, "/p/dead");
	assert_int_equal(client_table_end(&table, GPU, "/p/alive"), 3);
	client_table_done(&table);
}

static void test_health(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model();
	struct device_table *table;
	struct resource *resource;

	serve(model, 0, false);
	resource = model_find_resource(model, GPU);
	assert_true(resource->published);
	assert_int_equal(resource_capacity(resource), 0);

	/* Only the exact word is healthy. */
	assert_int_equal(device_table_new(5, &table), 0);
	assert_int_equal(device_table_add(table, "a", "Healthy", NULL, 0), 0);
	assert_int_equal(device_table_add(table, "b", "healthy", NULL, 0), 0);
	assert_int_equal(device_table_add(table, "c", "", NULL, 0), 0);
	assert_int_equal(device_table_add(table, "d", "Healthy", NULL, 0), 0);
	assert_int_equal(device_table_add(table, "d", "Healthy", NULL, 0), 0);
	assert_int_equal(model_replace_devices(model, GPU, table), 0);
	assert_int_equal(resource_capacity(resource), 4);
	assert_int_equal(resource_allocatable(resource), 2);

	/* An id with two opinions about its health counts twice, but no more. */
	assert_int_equal(device_table_new(3, &table), 0);
	assert_int_equal(device_table_add(table, "a", "Healthy", NULL, 0), 0);
	assert_int_equal(device_table_add(table, "a", "Unhealthy", NULL, 0), 0);
	assert_int_equal(device_table_add(table, "a", "Unhealthy", NULL, 0), 0);
	assert_string_equal(device_table_find(table, "a")->health, "Unhealthy");
	assert_int_equal(model_replace_devices(model, GPU, table), 0);
	assert_int_equal(resource_capacity(resource), 2);
	assert_int_equal(resource_allocatable(resource), 1);
}

static void count(const char *resource, void *userdata)
{
	++*(size_t *)userdata;
}

static void test_grace(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model();
	const struct plugin_options options = {};
	struct resource *resource;
	size_t forgotten = 0;

	assert_false(model_plugin_disconnected(model, GPU, 0));
	serve(model, 3, false);
	resource = model_find_resource(model, GPU);
	assert_true(model_plugin_disconnected(model, GPU, 1000));
	assert_int_equal(resource_capacity(resource), 3);
	assert_int_equal(resource_allocatable(resource), 0);
	assert_int_equal(model_expire(model, 1000 + KUBELET_GRACE, count, &forgotten), 0);

	/* A plugin that comes back in time keeps the capacity. */
	assert_int_equal(model_plugin_connected(model, GPU, "/p/b", 2, &options), 0);
	assert_int_equal(model_expire(model, 1001 + KUBELET_GRACE, count, &forgotten), 0);
	assert_int_equal(resource_capacity(resource), 3);
	assert_int_equal(resource_allocatable(resource), 0);
	list_devices(model, GPU, 3, NULL);
	assert_int_equal(resource_allocatable(resource), 3);

	assert_true(model_plugin_disconnected(model, GPU, 2000));
	assert_int_equal(model_expire(model, 2001 + KUBELET_GRACE, count, &forgotten), 1);
	assert_int_equal(forgotten, 1);
	assert_int_equal(resource_capacity(resource), 0);
	assert_false(resource_is_device_plugin(resource));
	assert_true(resource->published);
}

static void test_missing_devices(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model();
	char *ids[] = { (char[]){ "d1" }, (char[]){ "d2" } };
	const char *example = NULL;

	serve(model, 3, false);
	assert_int_equal(model_record_allocation(
				 model, "uid", POD_CONTAINER, GPU, ids, 2, (const uint8_t *)"", 0),
		0);
	assert_int_equal(model_recount_allocated(model), 0);
	assert_int_equal(
		model_missing_devices(model, model_find_resource(model, GPU), &example), 0);
	list_devices(model, GPU, 2, NULL);
	assert_int_equal(
		model_missing_devices(model, model_find_resource(model, GPU), &example), 1);
	assert_string_equal(example, "d2");
}

static void test_node_out_of_resource(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model();
	struct pod_container *container;
	struct resource *resource;
	struct error error = {};
	struct pod *pod;
	size_t forgotten = 0;
	char reason[320];

	assert_int_equal(model_add_pod(model, "uid", "default", "a", &pod), 0);
	assert_int_equal(pod_add_container(pod, "main", CONTAINER_MAIN, &container), 0);
	assert_int_equal(container_add_limit(container, GPU, 2), 0);
	/* A name the Node never had is ignored, even if a plugin tried to register it. */
	assert_int_equal(model_get_resource(model, GPU, &resource), 0);
	assert_int_equal(model_check_node_fits(model, pod, reason, sizeof(reason), &error), 0);
	serve(model, 3, false);
	assert_int_equal(model_check_node_fits(model, pod, reason, sizeof(reason), &error), 0);
	assert_true(model_plugin_disconnected(model, GPU, 0));
	assert_int_equal(model_expire(model, KUBELET_GRACE + 1, count, &forgotten), 1);
	assert_int_equal(model_check_node_fits(model, pod, reason, sizeof(reason), &error), 1);
	assert_string_equal(reason, "OutOf" GPU);
	assert_string_equal(error.message,
		"Node didn't have enough resource: " GPU ", requested: 2, used: 0, capacity: 0");
}

static void test_versions(void **state)
{
	assert_string_equal(kubelet_version_default()->name, "1.36");
	assert_null(kubelet_version_find("1.30"));
	assert_null(kubelet_version_find(""));
	for (const struct kubelet_version *v = kubelet_versions; v->name; v++) {
		bool since_1_34 = strcmp(v->name, "1.34") >= 0;
		bool since_1_36 = strcmp(v->name, "1.36") >= 0;

		assert_ptr_equal(kubelet_version_find(v->name), v);
		assert_int_equal(v->missing_device_panics, since_1_34);
		assert_int_equal(v->needs_utf8, since_1_34);
		assert_int_equal(v->static_pods_need_health, !since_1_34);
		assert_int_equal(v->pod_resources_get, since_1_34);
		assert_int_equal(v->pod_resources_claims, since_1_34);
		assert_int_equal(v->pod_resources_of_failed, !since_1_34);
		assert_int_equal(v->register_follows_caller, since_1_36);
		assert_int_equal(v->repeats_registration, since_1_36);
		assert_int_equal(v->removes_all_files, !since_1_36);
		assert_int_equal(v->hints_for_all_nodes, !since_1_36);
		assert_int_equal(v->resource_health, since_1_36);
		assert_int_equal(v->resource_health_v1, strcmp(v->name, "1.37") >= 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resource_names),
		cmocka_unit_test(test_registration_texts),
		cmocka_unit_test(test_watched_plugins),
		cmocka_unit_test(test_endpoint_path),
		cmocka_unit_test(test_old_stream_hits_newer_client),
		cmocka_unit_test(test_later_kubelets_distinguish_clients),
		cmocka_unit_test(test_failed_duplicate_register),
		cmocka_unit_test(test_health),
		cmocka_unit_test(test_grace),
		cmocka_unit_test(test_missing_devices),
		cmocka_unit_test(test_node_out_of_resource),
		cmocka_unit_test(test_versions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
