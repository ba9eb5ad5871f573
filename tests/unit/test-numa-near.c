/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which NUMA nodes are near another one, by sockets and distances of the kernel.
 */
#include "host-fixture.h"

#include "drivers/host/numa-near.h"

#define NODES "/sys/devices/system/node"

static void write_file(const char *directory, const char *name, const char *text)
{
	host_mkdir(directory);
	host_write(made("%s/%s", directory, name), text);
}

static void plant(int node, const char *cpus, const char *distance, int cpu, int socket)
{
	const char *directory = made(NODES "/node%d", node);

	write_file(directory, "cpulist", cpus);
	write_file(directory, "distance", distance);
	if (cpu >= 0)
		write_file(made("/sys/devices/system/cpu/cpu%d/topology", cpu),
			"physical_package_id", made("%d\n", socket));
}

static void assert_near(int node, const char *wanted)
{
	struct numa_near near = { .root = host_root };
	char list[ATTRIBUTE_VALUE_MAX + 1] = "";
	size_t count = 0;

	numa_near_add_node(list, &count, node);
	assert_int_equal(numa_near_add(&near, node, list, &count), 0);
	numa_near_done(&near);
	assert_string_equal(list, wanted);
}

/* Two sockets of three nodes; node 4 is not online, and node 8 has only memory. */
static void test_sockets(void **state)
{
	write_file(NODES, "online", "0-3,5-6,8\n");
	plant(0, "0-3\n", "10 12 14 21 21 21 11\n", 0, 0);
	plant(1, "4-7\n", "12 10 12 21 21 21 21\n", 4, 0);
	plant(2, "8-11\n", "14 12 10 21 21 21 21\n", 8, 0);
	plant(3, "12-15\n", "21 21 21 10 12 12 21\n", 12, 1);
	plant(5, "20-23\n", "21 21 21 12 10 12\n", 20, 1);
	plant(6, "24-27\n", "21 21 21 12\n", 24, 1);
	plant(8, "\n", "11 21 21 21 21 21 10\n", -1, 0);
	assert_near(0, "0,1");
	assert_near(1, "1,0,2");
	assert_near(3, "3,5,6");
	assert_near(5, "5,3,6");
	/* A short line of distances. */
	assert_near(6, "6,3");
	assert_near(8, "8");
	assert_near(4, "4");
	assert_near(1023, "1023");
}

static void test_unknown(void **state)
{
	assert_near(0, "0");
	write_file(NODES, "online", "0-1\n");
	assert_near(0, "0");
	plant(0, "0\n", "ten eleven\n", 0, 0);
	plant(1, "1\n", "11 10\n", 1, 0);
	assert_near(0, "0");
	assert_near(1, "1,0");
	write_file("/sys/devices/system/cpu/cpu0/topology", "physical_package_id", "x\n");
	assert_near(1, "1");
}

/* At most 16 nodes, and 64 bytes. */
static void test_limits(void **state)
{
	static const char *const lists[] = { "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
		"1000,1001,1002,1003,1004,1005,1006,1007,1008,1009,1010,1011,1012" };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		char list[ATTRIBUTE_VALUE_MAX + 1] = "";
		size_t count = 0;

		for (int node = i == 0 ? 0 : 1000; node < 1023 && count < 17; node++) {
			numa_near_add_node(list, &count, node);
			numa_near_add_node(list, &count, node);
		}
		numa_near_add_node(list, &count, -1);
		assert_string_equal(list, lists[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sockets, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_unknown, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_limits, host_setup, host_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
