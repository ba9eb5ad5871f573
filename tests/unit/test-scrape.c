/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter reads the documents in which the processes of resources describe their devices: one
 * that is malformed or too long only affects its resource.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/sealed.h"
#include "exporter/families.h"
#include "exporter/placement.h"

#define DEVICE(id, health, more) "{\"id\":\"" id "\",\"health\":\"" health "\"" more "}"
#define ALL(devices)             "{\"devices\":[" devices "]}\n"

static size_t count_of(const char *text, size_t size, const char *needle)
{
	size_t count = 0, length = strlen(needle);

	for (const char *p = text; (p = memmem(p, size - (size_t)(p - text), needle, length)); p++)
		count++;
	return count;
}

static void take_document(json_t *documents, const char *resource, const char *text, size_t size)
{
	static size_t total;
	_cleanup_close_ int fd = sealed_new("devices", text, size);

	if (json_object_size(documents) == 0)
		total = 0;
	assert_int_equal(scrape_take_devices(documents, &total, resource, fd), 0);
}

/* The resource "a/x" with these documents, and "a/y" with one device. */
static struct scrape *read_documents(json_t *documents, const char *pods)
{
	static const char other[] = ALL(DEVICE("y-0", "Healthy", ",\"replicas\":1"));
	static const char state[] =
		"{\"version\":\"1\",\"resources\":[{\"name\":\"a/x\",\"driver\":\"static\","
		"\"state\":\"serving\"},{\"name\":\"a/y\"}],\"cpus\":{\"0\":\"0-3\",\"1\":\"4-7\"}}";
	_cleanup_close_ int state_fd = sealed_new("state", state, strlen(state)), pods_fd = -EBADF;
	struct scrape *scrape = NULL;

	take_document(documents, "a/y", other, strlen(other));
	if (pods)
		pods_fd = sealed_new("pods", pods, strlen(pods));
	assert_int_equal(scrape_read(state_fd, documents, pods_fd, &scrape), 0);
	assert_int_equal(scrape->n_resources, 2);
	assert_int_equal(scrape->resources[1].n_units, 1);
	return scrape;
}

static struct scrape *read_scrape(const char *text, const char *pods)
{
	json_auto_t *documents = json_object();

	take_document(documents, "a/x", text, strlen(text));
	return read_documents(documents, pods);
}

static void test_devices(void **state)
{
	_cleanup_(scrape_freep) struct scrape *scrape = read_scrape(
		ALL(DEVICE("x-0", "Healthy", ",\"numa\":[0,1]") "," DEVICE("x-1", "Unhealthy",
			",\"cause\":\"probe\",\"changes\":3,"
			"\"since\":\"2026-11-22T09:30:00Z\"")),
		NULL);
	const struct resource *resource = &scrape->resources[0];

	assert_int_equal(resource->n_units, 2);
	assert_true(resource->units[0].healthy);
	assert_string_equal(resource->units[0].numa, "0,1");
	assert_false(resource->units[1].healthy);
	assert_string_equal(resource->units[1].cause, "probe");
	assert_int_equal(resource->units[1].changes, 3);
	assert_int_equal(resource->units[1].since, 1795339800);
	assert_string_equal(resource->units[1].numa, "");
	assert_false(resource->left_out);
}

#define FINDING(reason, severity) \
	"{\"reason\":\"" reason "\",\"severity\":\"" severity "\",\"text\":\"t\"}"

/* Labels have the words of the configuration only, and no sample is written twice. */
static void test_findings(void **state)
{
	_cleanup_(scrape_freep) struct scrape *scrape =
		read_scrape(ALL(DEVICE("x-0", "Healthy",
				    ",\"findings\":[" FINDING("hot", "notice") "," FINDING(
					    "hot", "notice") "]") "," DEVICE("x-1", "Unhealthy",
				    ",\"findings\":[" FINDING("too hot\\\"", "other") "," FINDING(
					    "missing", "no-new-pods") ",7,{}]") "," DEVICE("x-2",
				    "Claimed", ",\"findings\":[" FINDING("hot", "notice") "]")),
			NULL);
	const struct families_options options = { 0 };
	struct exposition out = { 0 };

	assert_int_equal(families_write(scrape, &options, &out), 0);
	assert_int_equal(count_of(out.text, out.size, "devplugd_device_finding_info{"), 2);
	assert_int_equal(count_of(out.text, out.size,
				 "devplugd_device_finding_info{resource=\"a/x\",device=\"x-0\","
				 "reason=\"hot\",severity=\"notice\"} 1\n"),
		1);
	assert_int_equal(count_of(out.text, out.size,
				 "devplugd_device_finding_info{resource=\"a/x\",device=\"x-1\","
				 "severity=\"no-new-pods\"} 1\n"),
		1);
	exposition_done(&out);
}

/* A resource whose process is away has an unknown number of devices, and not none. */
static void test_no_process(void **state)
{
	json_auto_t *documents = json_object();
	_cleanup_(scrape_freep) struct scrape *scrape = read_documents(documents, NULL);
	const struct families_options options = { 0 };
	struct exposition out = { 0 };

	assert_int_equal(families_write(scrape, &options, &out), 0);
	assert_int_equal(
		count_of(out.text, out.size, "devplugd_resource_state{resource=\"a/x\""), 6);
	assert_int_equal(
		count_of(out.text, out.size, "devplugd_resource_devices{resource=\"a/x\""), 0);
	assert_int_equal(
		count_of(out.text, out.size, "devplugd_resource_units{resource=\"a/x\""), 0);
	exposition_done(&out);
}

/* Without the devices of the resource there are metrics of all others. */
static void test_too_long(void **state)
{
	_cleanup_(scrape_freep) struct scrape *scrape = NULL;
	_cleanup_free_ char *text = calloc(1, SCRAPE_DEVICES_MAX + 1);
	const struct families_options options = { 0 };
	json_auto_t *documents = json_object();
	struct exposition out = { 0 };

	assert_non_null(text);
	memset(text, ' ', SCRAPE_DEVICES_MAX + 1);
	take_document(documents, "a/x", text, SCRAPE_DEVICES_MAX + 1);
	for (unsigned i = 0; i < SCRAPE_ALL_DEVICES_MAX / SCRAPE_DEVICES_MAX - 1; i++)
		take_document(documents, "a/other", text, SCRAPE_DEVICES_MAX);
	scrape = read_documents(documents, NULL);
	assert_true(scrape->resources[0].left_out);
	assert_int_equal(families_write(scrape, &options, &out), 0);
	assert_int_equal(
		count_of(out.text, out.size, "devplugd_resource_state{resource=\"a/x\""), 6);
	assert_int_equal(
		count_of(out.text, out.size, "devplugd_resource_units{resource=\"a/x\""), 0);
	assert_int_equal(
		count_of(out.text, out.size, "devplugd_resource_devices{resource=\"a/x\""), 0);
	assert_int_equal(
		count_of(out.text, out.size, "devplugd_resource_units{resource=\"a/y\""), 5);
	exposition_done(&out);
	take_document(documents, "a/last", text, SCRAPE_DEVICES_MAX);
	assert_true(json_is_null(json_object_get(documents, "a/last")));
}

static void test_one_document(void **state)
{
	static const char *const texts[] = {
		"{\"devices\":[" DEVICE("x-0", "Healthy", "") "]",
		ALL(DEVICE("x-0", "Healthy", "")) "{}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_(scrape_freep) struct scrape *scrape = read_scrape(texts[i], NULL);

		assert_int_equal(scrape->resources[0].n_units, 0);
	}
}

static void test_nonsense(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"{",
		"[]\n",
		"{\"devices\":7}\n",
		ALL("7,{},[],null"),
		ALL(DEVICE("x-0", "Healthy", "") "," DEVICE("x-0", "Unhealthy", "")),
		"{\"devices\":[{\"id\":7,\"numa\":{},\"changes\":-1,\"replicas\":\"x\"}]}\n",
		"\xff\xfe{\"devices\":[]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_(scrape_freep) struct scrape *scrape = read_scrape(texts[i], NULL);
		const struct families_options options = { .assigned = true };
		struct exposition out = { 0 };

		assert_true(scrape->resources[0].n_units <= 1);
		assert_int_equal(families_write(scrape, &options, &out), 0);
		exposition_done(&out);
	}
}

/* A device counts as away if it is on none of the nodes of the container's exclusive CPUs. */
static void test_misplaced(void **state)
{
	static const struct {
		const char *pods;
		uint64_t expected;
	} cases[] = {
		{ "container\tn\tp\ta\t0\ndevice\tother/z\t0\nid\tz\n", 0 },
		{ "container\tn\tp\ta\t0\ndevice\tother/z\t1\nid\tz\n", 1 },
		{ "container\tn\tp\ta\t\ndevice\tother/z\t1\nid\tz\n", 0 },
		{ "container\tn\tp\ta\t9\ndevice\tother/z\t1\nid\tz\n", 0 },
		{ "container\tn\tp\ta\t0\ndevice\tother/z\t\nid\tz\n", 0 },
		/* On both nodes, in rows that do not follow each other. */
		{ "container\tn\tp\ta\t0\ndevice\tother/z\t1\nid\tz\nid\ty\n"
		  "device\tother/z\t0\nid\tz\nid\ty\n",
			0 },
		{ "container\tn\tp\ta\t0\ndevice\tother/z\t1\nid\tz\nid\ty\n"
		  "device\tother/z\t0\nid\tz\n",
			1 },
		/* By the document of the process; a container is counted once. */
		{ "container\tn\tp\ta\t0\ndevice\ta/x\t\nid\tx-1\nid\tx-2\n"
		  "container\tn\tp\tb\t0\ndevice\ta/x\t\nid\tx-0\n",
			1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(scrape_freep) struct scrape *scrape = read_scrape(
			ALL(DEVICE("x-0", "Healthy", ",\"numa\":[0]") "," DEVICE("x-1", "Healthy",
				",\"numa\":[1]") "," DEVICE("x-2", "Healthy", ",\"numa\":[1]")),
			cases[i].pods);
		uint64_t count = 99;

		assert_int_equal(placement_misplaced(scrape, &count), 0);
		assert_int_equal(count, cases[i].expected);
	}
}

static void test_assigned(void **state)
{
	_cleanup_(scrape_freep) struct scrape *scrape =
		read_scrape(ALL(DEVICE("x-0", "Healthy", ",\"replicas\":4")),
			"container\tteam\ttrain\tmain\t\n"
			"device\ta/x\t0\nid\tx-0#1\nid\tx-0#2\n"
			"device\ta/x\t1\nid\tx-0#1\n"
			"device\tother/z\t\nid\tz\n"
			"container\tteam\tother\tmain\t\n"
			"device\ta/x\t0\nid\tx-0#3\nid\tunknown\n");
	const struct families_options options = { .assigned = true };
	struct exposition out = { 0 };

	/* Allocated ids; that they are no longer offered does not change their number. */
	assert_int_equal(scrape->resources[0].assigned, 4);
	assert_int_equal(families_write(scrape, &options, &out), 0);
	assert_int_equal(count_of(out.text, out.size, "devplugd_device_assigned{"), 2);
	assert_int_equal(count_of(out.text, out.size,
				 "devplugd_device_assigned{resource=\"a/x\",device=\"x-0\","
				 "namespace=\"team\",pod=\"train\",container=\"main\"} 1\n"),
		1);
	assert_int_equal(
		count_of(out.text, out.size,
			"devplugd_resource_devices{resource=\"a/x\",health=\"healthy\"} 4\n"),
		1);
	exposition_done(&out);
}

/* Each unit is in one state. */
static void test_unit_states(void **state)
{
	_cleanup_(scrape_freep) struct scrape *scrape =
		read_scrape(ALL(DEVICE("a", "Healthy", "") "," DEVICE(
				    "b", "Unhealthy", ",\"cause\":\"gone\"") "," DEVICE("c",
				    "Unhealthy", ",\"cause\":\"cordoned\"") "," DEVICE("d",
				    "Claimed", ",\"cause\":\"claimed\"") "," DEVICE("e",
				    "Unhealthy", ",\"cause\":\"of a later version\"")),
			NULL);
	const struct families_options options = { 0 };
	static const char *const states[] = { "healthy", "gone", "cordoned", "claimed",
		"unhealthy" };
	struct exposition out = { 0 };

	assert_int_equal(families_write(scrape, &options, &out), 0);
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		char text[128];

		(void)snprintf(text, sizeof(text),
			"devplugd_resource_units{resource=\"a/x\",state=\"%s\"} 1\n", states[i]);
		assert_int_equal(count_of(out.text, out.size, text), 1);
	}
	assert_int_equal(count_of(out.text, out.size, "device=\"e\",reason=\"other\"} 1\n"), 1);
	assert_int_equal(count_of(out.text, out.size, "device=\"d\""), 0);
	exposition_done(&out);
}

static bool has_line(const char *measurements, const char *line)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(scrape_freep) struct scrape *scrape = NULL;
	const struct families_options options = { 0 };
	struct exposition out = { 0 };
	bool found;

	assert_true(asprintf(&text,
			    "{\"devices\":[" DEVICE("g", "Healthy", "") "," DEVICE(
				    "o", "Claimed", "") "],\"measurements\":%s}\n",
			    measurements) > 0);
	scrape = read_scrape(text, NULL);
	assert_int_equal(families_write(scrape, &options, &out), 0);
	found = count_of(out.text, out.size, line) == 1;
	exposition_done(&out);
	return found;
}

#define GPU_LABELS "{resource=\"a/x\",device=\"g\""

static void test_measured(void **state)
{
	assert_true(has_line("{\"g\":{\"gpu_temperature\":41}}",
		"devplugd_gpu_temperature_celsius" GPU_LABELS "} 41\n"));
	assert_true(has_line("{\"g\":{\"gpu_power\":65250}}",
		"devplugd_gpu_power_watts" GPU_LABELS "} 65.25\n"));
	assert_true(has_line("{\"g\":{\"gpu_xids\":{\"79\":1,\"13\":1000}}}",
		"devplugd_gpu_xid_errors_total" GPU_LABELS ",xid=\"13\"} 1000\n"));
}

static void test_measured_nonsense(void **state)
{
	static const char *const nonsense[] = { "7", "[]", "{\"g\":7}", "{\"g\":[1]}",
		"{\"g\":{\"gpu_power\":-1,\"gpu_xids\":7}}",
		"{\"g\":{\"gpu_power\":\"1\",\"gpu_xids\":{\"79\":-1,\"7\":\"x\"}}}",
		"{\"g\":{\"gpu_power\":{\"1\":2},\"gpu_xids\":{\"\":1,\"x\":1,\"123456\":1}}}",
		"{\"unknown\":{\"gpu_power\":1}}", "{\"o\":{\"gpu_power\":1}}",
		"{\"g\":{\"other\":1}}" };

	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		assert_false(has_line(nonsense[i], "# TYPE devplugd_gpu_power_watts"));
		assert_false(has_line(nonsense[i], "# TYPE devplugd_gpu_xid_errors_total"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_one_document),
		cmocka_unit_test(test_findings),
		cmocka_unit_test(test_no_process),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_misplaced),
		cmocka_unit_test(test_assigned),
		cmocka_unit_test(test_unit_states),
		cmocka_unit_test(test_measured),
		cmocka_unit_test(test_measured_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
