/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NUMA nodes of devices and of CPUs, in the forms of the kernel and of the kubelet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/numa-nodes.h"

static char *describe(const struct numa_nodes *nodes)
{
	json_t *numbers = numa_nodes_pack(nodes);
	char *text = json_dumps(numbers, JSON_COMPACT);

	json_decref(numbers);
	return text;
}

static void assert_list(const char *list, const char *expected)
{
	struct numa_nodes nodes = { 0 };
	char *text;

	numa_nodes_add(&nodes, list);
	text = describe(&nodes);
	assert_string_equal(text, expected);
	assert_int_equal(numa_nodes_are_none(&nodes), strcmp(expected, "[]") == 0);
	free(text);
}

static void test_lists(void **state)
{
	assert_list("", "[]");
	assert_list("0", "[0]");
	assert_list("0,2-4", "[0,2,3,4]");
	assert_list("-1", "[]");
	assert_list("-1,1", "[1]");
	assert_list("1,x,3", "[1,3]");
	assert_list("3-1,,5", "[5]");
	assert_list("1-", "[]");
	assert_list("1023,1024", "[1023]");
	assert_list("99999999999999999999999", "[]");
	assert_list("1022-4294967295", "[1022,1023]");
}

static void assert_cpus(json_t *cpus, const char *list, const char *expected)
{
	struct numa_nodes nodes = { 0 };
	char *text;

	numa_nodes_add_of_cpus(&nodes, cpus, list);
	text = describe(&nodes);
	assert_string_equal(text, expected);
	free(text);
}

static void test_cpus(void **state)
{
	json_t *cpus = json_pack(
		"{s:s, s:s, s:s, s:i}", "0", "0-3,8-11", "1", "4-7,12-15", "2", "", "3", 7);

	assert_cpus(cpus, "", "[]");
	assert_cpus(cpus, "2,3", "[0]");
	assert_cpus(cpus, "3,4", "[0,1]");
	assert_cpus(cpus, "11-12", "[0,1]");
	assert_cpus(cpus, "16", "[]");
	json_decref(cpus);
	assert_cpus(NULL, "0", "[]");
}

static void plant(const char *root, const char *name, const char *text)
{
	char *path;
	FILE *stream;

	assert_true(format_text(&path, "%s/sys/devices/system/node/%s", root, name) >= 0);
	assert_int_equal(mkdir(path, 0755), 0);
	free(path);
	assert_true(format_text(&path, "%s/sys/devices/system/node/%s/cpulist", root, name) >= 0);
	stream = fopen(path, "we");
	assert_non_null(stream);
	(void)fputs(text, stream);
	assert_int_equal(fclose(stream), 0);
	free(path);
}

static void test_read(void **state)
{
	char root[] = "/tmp/devplugd-test.XXXXXX", command[128], *text;
	json_t *cpus;

	assert_non_null(mkdtemp(root));
	cpus = numa_cpus_read(root);
	assert_int_equal(json_object_size(cpus), 0);
	json_decref(cpus);
	(void)snprintf(command, sizeof(command), "mkdir -p %s/sys/devices/system/node", root);
	assert_int_equal(system(command), 0);
	plant(root, "node0", "0-3\n");
	plant(root, "node12", "4,5\n");
	plant(root, "node1x", "6\n");
	plant(root, "power", "7\n");
	plant(root, "node3", "");
	cpus = numa_cpus_read(root);
	text = json_dumps(cpus, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(text, "{\"0\":\"0-3\",\"12\":\"4,5\"}");
	free(text);
	json_decref(cpus);
	(void)snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
