/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "sysfs": what is read about a device outside of its directory, and nodes by patterns.
 */
#include "sysfs-driver-fixture.h"

#define CARD        "pci0000:00/0000:03:00.0"
#define INFORMATION "/proc/driver/vendor/0000:03:00.0/information"

static const char by_line[] =
	"driver = \"sysfs\"; match = ( { subsystem = \"pci\"; nodes = ( \"${value:node}\", "
	"\"?/dev/ipc${number}\" ); values = ( { name = \"node\"; file = "
	"\"/proc/driver/vendor/${bdf}/information\"; line = \"Device node:\"; } ); } );";

static void make_card(void)
{
	sys_device(CARD, "bus/pci", "");
	host_mkdir("/proc/driver/vendor/0000:03:00.0");
	host_mkdir("/dev");
}

/* A driver whose nodes have no link to the PCI function. */
static void test_line(void **state)
{
	make_card();
	host_write(INFORMATION, "Device name: Card\n  Device node:\t/dev/card7 \nDevice node: x\n");
	host_mknod("/dev/card7");
	expect_found(by_line, "0000:03:00.0 ");
	assert_null(scan.devices[0]->problem);
	expect_nodes("0000:03:00.0", "/dev/card7 ");
	expect_variable("0000:03:00.0", "value:node", "/dev/card7");
	host_mknod("/dev/ipc7");
	expect_found(by_line, "0000:03:00.0 ");
	expect_nodes("0000:03:00.0", "/dev/card7 /dev/ipc7 ");
	/* Another number, with the same id. */
	host_mknod("/dev/card2");
	host_write(INFORMATION, "Device node: /dev/card2\n");
	expect_found(by_line, "0000:03:00.0 ");
	expect_nodes("0000:03:00.0", "/dev/card2 ");
}

static void test_missing_line(void **state)
{
	static const struct {
		const char *text, *problem;
	} cases[] = {
		{ "Device name: Card\n", " has no line \"Device node:\"" },
		{ "Device node:\n", " has no valid value behind Device node:" },
		{ "Device node: \001\n", " has no valid value behind Device node:" },
		{ "Device node: card7\n", "\"card7\" is not a path" },
		{ "Device node: /dev/none\n", "its node /dev/none is missing" },
	};

	make_card();
	expect_found(by_line, "0000:03:00.0 ");
	assert_string_equal(
		scan.devices[0]->problem, "node \"${value:node}\": " INFORMATION " is missing");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		host_write(INFORMATION, cases[i].text);
		expect_found(by_line, "0000:03:00.0 ");
		assert_int_equal(scan.devices[0]->n_nodes, 0);
		if (!strstr(scan.devices[0]->problem ?: "", cases[i].problem))
			fail_msg("%s: %s", cases[i].text, scan.devices[0]->problem);
	}
}

static void test_long_file(void **state)
{
	_cleanup_free_ char *text = NULL;

	make_card();
	host_mknod("/dev/card1");
	assert_true(asprintf(&text, "%*s\nDevice node: /dev/card1\n", 64 * 1024 - 32, "") > 0);
	host_write(INFORMATION, text);
	expect_found(by_line, "0000:03:00.0 ");
	assert_null(scan.devices[0]->problem);
	free(text);
	assert_true(asprintf(&text, "%*s\nDevice node: /dev/card1\n", 64 * 1024, "") > 0);
	host_write(INFORMATION, text);
	expect_found(by_line, "0000:03:00.0 ");
	assert_string_equal(scan.devices[0]->problem,
		"node \"${value:node}\": " INFORMATION " has no line \"Device node:\"");
}

/* An id by a whole file, and what replaces it. */
static void test_id(void **state)
{
	static const char match[] =
		"driver = \"sysfs\"; match = ( { subsystem = \"pci\"; id = \"card-${value:uuid}\"; "
		"values = ( { name = \"uuid\"; file = \"/proc/driver/vendor/${bdf}/uuid\"; } ); } );";

	make_card();
	expect_found(match, "0000:03:00.0 ");
	assert_int_equal(scan.notes.count, 1);
	assert_non_null(
		strstr(scan.notes.items[0], "/proc/driver/vendor/0000:03:00.0/uuid is missing"));
	host_write("/proc/driver/vendor/0000:03:00.0/uuid", "4f-2a\n");
	expect_found(match, "card-4f-2a ");
}

/* A class whose devices are software to the kernel, and name their function. */
static void test_function(void **state)
{
	static const char match[] =
		"driver = \"sysfs\"; match = ( { subsystem = \"npu\"; id = \"${bdf}\"; "
		"function = \"${attr:busname}\"; } );";

	make_card();
	sys_write(CARD, "numa_node", "1\n");
	sys_device("virtual/npu/npu4", "class/npu", "DEVNAME=npu4\n");
	host_mknod("/dev/npu4");
	expect_found(match, "npu:npu4 ");
	assert_int_equal(scan.devices[0]->n_numa, 0);
	sys_write("virtual/npu/npu4", "busname", "0000:03:00.0\n");
	expect_found(match, "0000:03:00.0 ");
	expect_variable("0000:03:00.0", "bdf", "0000:03:00.0");
	assert_int_equal(scan.devices[0]->n_numa, 1);
	assert_int_equal(scan.devices[0]->numa[0], 1);
	sys_write("virtual/npu/npu4", "busname", "../x\n");
	expect_found(match, "npu:npu4 ");
	/* Its place in /sys is the better source. */
	sys_device(CARD "/npu/npu5", "class/npu", "DEVNAME=npu5\n");
	sys_write(CARD "/npu/npu5", "busname", "0000:99:00.0\n");
	host_mknod("/dev/npu5");
	list(match);
	expect_variable("0000:03:00.0", "bdf", "0000:03:00.0");
}

static void test_patterns(void **state)
{
	static const char match[] = "driver = \"sysfs\"; match = ( { subsystem = \"npu\"; "
				    "nodes = ( \"${devname}\", \"/dev/npu/n${number:1}[a-z]*\", "
				    "\"?/dev/npu/${attr:more}*\" ); } );";

	sys_device("virtual/npu/n1", "class/npu", "DEVNAME=npu/n1\n");
	host_mkdir("/dev/npu");
	host_mknod("/dev/npu/n1");
	expect_found(match, "npu:n1 ");
	assert_string_equal(scan.devices[0]->problem,
		"node \"/dev/npu/n${number:1}[a-z]*\": nothing matches /dev/npu/n1[a-z]*");
	host_mknod("/dev/npu/n1ch0");
	host_mknod("/dev/npu/n1ch1");
	host_mknod("/dev/npu/n10ch0");
	host_mknod("/dev/npu/more1");
	expect_found(match, "npu:n1 ");
	assert_null(scan.devices[0]->problem);
	expect_nodes("npu:n1", "/dev/npu/n1 /dev/npu/n1ch0 /dev/npu/n1ch1 ");
	sys_write("virtual/npu/n1", "more", "mo\n");
	expect_found(match, "npu:n1 ");
	expect_nodes("npu:n1", "/dev/npu/n1 /dev/npu/n1ch0 /dev/npu/n1ch1 /dev/npu/more1 ");
	assert_false(scan.devices[0]->nodes[2].optional);
	assert_true(scan.devices[0]->nodes[3].optional);
	/* A value is no pattern. */
	sys_write("virtual/npu/n1", "more", "*\n");
	expect_found(match, "npu:n1 ");
	expect_nodes("npu:n1", "/dev/npu/n1 /dev/npu/n1ch0 /dev/npu/n1ch1 ");
}

static void test_check(void **state)
{
	static const struct {
		const char *keys, *problem;
	} cases[] = {
		{ "id = \"${value:x}\";",
			"id: uses ${value:x}, which \"values\" does not declare" },
		{ "values = ( { name = \"xy\"; file = \"/x\"; } ); nodes = \"/dev/${value:x}\";",
			"nodes: uses ${value:x}, which" },
		{ "values = ( { name = \"x\"; } );", "values[0].file: is missing" },
		{ "values = ( { name = \"x}\"; file = \"/x\"; } );",
			"must consist of letters, digits" },
		{ "values = ( { name = \"x\"; file = \"x\"; } );", "must be an absolute path" },
		{ "nodes = \"/dev/${number:x}\";", "is counted from 1 to 9" },
		{ "nodes = \"/dev/${number:10}\";", "is counted from 1 to 9" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *problem = declare_problem(
			made("driver = \"sysfs\"; match = ( { subsystem = \"a\"; %s } );",
				cases[i].keys));

		if (!strstr(problem, cases[i].problem))
			fail_msg("%s: %s", cases[i].keys, problem);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_line),
		HOST_TEST(test_missing_line),
		HOST_TEST(test_long_file),
		HOST_TEST(test_id),
		HOST_TEST(test_function),
		HOST_TEST(test_patterns),
		HOST_TEST(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
