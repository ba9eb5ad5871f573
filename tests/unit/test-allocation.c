/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What containers get, and the errors that pods show. complaints.md: R19, W5, M11.
 */
#include <sys/wait.h>

#include "allocation-fixture.h"
#include "cdi-fixture.h"
#include "inventory-fixture.h"

#include "common/log.h"

static int setup(void **state)
{
	log_setup("test-allocation", LOG_TARGET_TEXT, LOG_CRIT);
	return host_setup(state);
}

/* Who the devices are for. */
static struct allocation_answers answers;

/* Builds for ids separated by blanks. */
static int build(const char *ids, struct allocation *ret, struct error *error)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	_cleanup_free_ char *copy = strdup(ids);
	const char *list[64];
	size_t n = 0;

	assert_non_null(copy);
	for (char *id = strtok(copy, " "); id; id = strtok(NULL, " "))
		list[n++] = id;
	return allocation_build(
		declaration_of(config), snapshot, host_root, list, n, &answers, ret, error);
}

/* Everything in the allocation, a line each. */
static void expect(const char *ids, const char *expected)
{
	_cleanup_allocation_ struct allocation allocation = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error;
	size_t size;
	FILE *stream;

	if (build(ids, &allocation, &error) < 0)
		fail_msg("%s", error.message);
	stream = open_memstream(&text, &size);
	assert_non_null(stream);
	for (size_t i = 0; i < allocation.n_nodes; i++) {
		const struct device_node *node = &allocation.nodes[i];

		(void)fprintf(stream, "%s %s %s %s\n", node->mount ? "mount" : "node", node->host,
			node->path,
			!node->mount              ? node->permissions
				: node->read_only ? "ro"
						  : "rw");
	}
	print_allocation_texts(&allocation, stream);
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, expected);
}

static void expect_error(const char *ids, int code, const char *message)
{
	struct allocation untouched = { .n_nodes = 77 };
	struct error error = { 0 };

	assert_int_equal(build(ids, &untouched, &error), code);
	assert_int_equal(untouched.n_nodes, 77);
	if (!strstr(error.message, message))
		fail_msg("\"%s\" is not in \"%s\"", message, error.message);
}

#define TTYS "driver = \"path\"; match = ( { path = \"/dev/tty*\"; type = \"device\"; } );\n"

static void make_ttys(void)
{
	host_mknod("/dev/tty0");
	host_mknod("/dev/tty1");
	host_mknod("/dev/tty2");
}

static void test_devices(void **state)
{
	make_ttys();
	start(TTYS);
	expect("tty2 tty0", "node /dev/tty0 /dev/tty0 rw\nnode /dev/tty2 /dev/tty2 rw\n");
	expect_error("tty0 tty7", -ENOENT, "\"tty7\" does not exist in vendor.example/unit");
	expect_error("tty0 tty0", -EINVAL, "\"tty0\" of vendor.example/unit twice");
	expect_error("tty0#0", -ENOENT, "tty0#0");
	expect_error("", -EINVAL, "no device");
}

static void test_removed(void **state)
{
	make_ttys();
	start(TTYS);
	/* Before it is noticed, and after. */
	host_remove("/dev/tty1");
	expect_error("tty0 tty1", -ENOENT,
		"device \"tty1\" of vendor.example/unit needs /dev/tty1, which is missing");
	run_for(300 * USEC_PER_MSEC);
	expect_error("tty0 tty1", -EIO,
		"device \"tty1\" of vendor.example/unit is unhealthy: /dev/tty1 has disappeared; create "
		"the pod again to get another device");
	expect("tty0", "node /dev/tty0 /dev/tty0 rw\n");
}

static void test_unhealthy(void **state)
{
	make_ttys();
	host_write("/dev/health", "overheated");
	start(TTYS "health = ( { probe = \"file\"; path = \"/dev/health\"; healthy = \"ok\"; } );");
	expect_error("tty0", -EIO, "is unhealthy: overheated; repair it or drain the pod");
}

/* The scheduler has allocated an unhealthy device only if the claim tolerates that. What is
 * missing, or in use by a pod of the device plugin, is refused; admin access takes nothing from
 * that pod. */
static void test_claims(void **state)
{
	_cleanup_bookings_ struct bookings *booked = NULL;

	make_ttys();
	host_write("/dev/health", "overheated");
	host_mknod("/dev/ctl-tty0");
	host_mknod("/dev/ctl-tty2");
	start(TTYS "serve = \"dra\"; container = { nodes = ( \"/dev/ctl-${id}\" ); };\n"
		   "health = ( { probe = \"file\"; path = \"/dev/health\"; healthy = \"ok\"; } );");
	assert_int_equal(bookings_new(&booked), 0);
	assert_int_equal(bookings_add(booked, "tty2", BOOKED_IN_PLUGIN, NULL, 0, 0), 0);
	assert_int_equal(bookings_sort(booked), 0);
	assert_int_equal(inventory_set_booked(inventory, booked, 0, 0), 1);
	expect_error("tty0", -EIO, "is unhealthy: overheated");
	for (int admin = 0; admin < 2; admin++) {
		answers = (struct allocation_answers){ .claim = true, .admin = admin };
		expect("tty0",
			"node /dev/ctl-tty0 /dev/ctl-tty0 rw\nnode /dev/tty0 /dev/tty0 rw\n");
		expect_error("tty1", -EIO, "needs /dev/ctl-tty1, which is missing");
		if (!admin)
			expect_error("tty2", -EBUSY, "is in use by a pod");
	}
	expect("tty2", "node /dev/ctl-tty2 /dev/ctl-tty2 rw\nnode /dev/tty2 /dev/tty2 rw\n");
	host_remove("/dev/tty0");
	run_for(300 * USEC_PER_MSEC);
	expect_error("tty0", -EIO, "has disappeared");
	answers = (struct allocation_answers){ 0 };
}

static void test_container(void **state)
{
	make_ttys();
	host_mknod("/dev/ctl");
	host_mkdir("/opt/tool");
	host_symlink("tool", "/opt/link");
	host_mkdir("/etc/cdi");
	host_write("/etc/cdi/tty.yaml",
		CDI_YAML("vendor.example/tty",
			CDI_YAML_PLAIN("tty0") CDI_YAML_PLAIN("tty1") CDI_YAML_PLAIN("all")));
	start(TTYS
		"container = {\n"
		"nodes = ( { host = \"/dev/ctl\"; permissions = \"r\"; }, \"?/dev/none\",\n"
		"          { host = \"/dev/${id}\"; permissions = \"m\"; },\n"
		"          { host = \"${node}\"; path = \"/dev/serial/${id}\"; } );\n"
		"mounts = ( { host = \"/opt/link\"; read_only = true; } );\n"
		"env = ( \"ALL=${ids}\", \"LIST=${ids: }\", \"N=${n}\", \"ONE=${id}\", \"SAME=x${numa}\",\n"
		"        \"AT_${index}=${node}\", \"TTY_${number}=${id}\", \"NAME=${name}\" );\n"
		"annotations = ( \"vendor.example/ids=${ids:;}\" );\n"
		"cdi = ( \"vendor.example/tty=${id}\", \"vendor.example/tty=all\" ); };");
	expect("tty1 tty0",
		"node /dev/ctl /dev/ctl r\n"
		"node /dev/tty0 /dev/serial/tty0 rw\n"
		"node /dev/tty1 /dev/serial/tty1 rw\n"
		"node /dev/tty0 /dev/tty0 rwm\n"
		"node /dev/tty1 /dev/tty1 rwm\n"
		"mount /opt/tool /opt/link ro\n"
		"env ALL=tty0,tty1\n"
		"env LIST=tty0 tty1\n"
		"env N=2\n"
		"env ONE=tty0,tty1\n"
		"env SAME=x\n"
		"env AT_0=/dev/tty0\n"
		"env AT_1=/dev/tty1\n"
		"env TTY_0=tty0\n"
		"env TTY_1=tty1\n"
		"env NAME=vendor.example/unit\n"
		"annotation vendor.example/ids=tty0;tty1\n"
		"cdi vendor.example/tty=tty0\n"
		"cdi vendor.example/tty=tty1\n"
		"cdi vendor.example/tty=all\n");
}

/* Removed after the last scan; tests/unit/test-needs.c has what is missing already then. */
static void test_missing(void **state)
{
	make_ttys();
	host_mknod("/dev/ctl");
	host_mknod("/dev/ctl-tty0");
	host_mkdir("/opt/none");
	start(TTYS "container = { nodes = ( \"/dev/ctl\" ); };");
	host_remove("/dev/ctl");
	expect_error("tty0", -ENOENT, "vendor.example/unit needs /dev/ctl, which is missing");
	start(TTYS "container = { nodes = ( \"/dev/ctl-${id}\" ); };");
	host_remove("/dev/ctl-tty0");
	expect_error("tty0", -ENOENT, "device \"tty0\" of vendor.example/unit needs /dev/ctl-tty0");
	start(TTYS "container = { mounts = ( { host = \"/opt/none\"; } ); };");
	host_remove("/opt/none");
	expect_error("tty0", -ENOENT,
		"install the package that provides it, or correct container.mounts");
	start(TTYS "container = { nodes = ( \"?/dev/ctl-${id}\" ); "
		   "mounts = ( { host = \"/opt/none\"; optional = true; } ); };");
	expect("tty0", "node /dev/tty0 /dev/tty0 rw\n");
	host_mkdir("/opt/none");
	expect("tty0", "node /dev/tty0 /dev/tty0 rw\nmount /opt/none /opt/none rw\n");
}

static void test_conflicts(void **state)
{
	make_ttys();
	start("driver = \"path\"; match = ( { path = \"/dev/tty*\"; type = \"device\"; as = "
	      "\"/dev/tty\"; } );");
	expect("tty1", "node /dev/tty1 /dev/tty rw\n");
	expect_error("tty1 tty2", -EEXIST,
		"/dev/tty in the container would be both /dev/tty1 (device \"tty1\") and /dev/tty2 "
		"(device \"tty2\")");
	start(TTYS
		"container = { mounts = ( { host = \"/dev/tty1\"; path = \"/dev/tty0\"; } ); };");
	expect_error("tty0", -EEXIST, "(resource \"vendor.example/unit\")");
	start(TTYS "container = { mounts = ( { host = \"/dev/tty0\"; } ); };");
	expect_error("tty0", -EEXIST, "/dev/tty0 in the container");
	expect("tty1", "mount /dev/tty0 /dev/tty0 rw\nnode /dev/tty1 /dev/tty1 rw\n");
}

static void test_mount_over_another(void **state)
{
	make_ttys();
	start(TTYS
		"container = { mounts = ( { host = \"/dev/tty1\"; path = \"/dev/tty0\"; } ); };");
	expect("tty1", "mount /dev/tty1 /dev/tty0 rw\nnode /dev/tty1 /dev/tty1 rw\n");
}

static void test_shared(void **state)
{
	make_ttys();
	start(TTYS "share = { replicas = 10; max_per_container = 3; };\n"
		   "container = { env = ( \"IDS=${ids}\", \"N=${n}\", \"SLOT=${replica}\" ); };");
	expect("tty1#7 tty0#2 tty1#3",
		"node /dev/tty0 /dev/tty0 rw\nnode /dev/tty1 /dev/tty1 rw\n"
		"env IDS=tty0,tty1\nenv N=2\nenv SLOT=2,3,7\n");
	expect_error("tty0#0 tty0#1 tty0#2 tty0#3", -EINVAL, "maximum for one container is 3");
	expect_error("tty0", -ENOENT, "tty0");
}

/* What is in the place of a node when the kubelet calls, and before it is noticed. */
static void test_other_files(void **state)
{
	make_ttys();
	host_mkdir("/dev/snd");
	host_mknod("/dev/snd/seq");
	start(TTYS "container = { nodes = ( \"/dev/snd\", \"?/dev/none\" ); };");
	expect("tty0", "node /dev/snd /dev/snd rw\nnode /dev/tty0 /dev/tty0 rw\n");
	host_touch("/dev/none");
	expect("tty0", "node /dev/snd /dev/snd rw\nnode /dev/tty0 /dev/tty0 rw\n");
	host_remove("/dev/tty0");
	host_touch("/dev/tty0");
	expect_error("tty0", -ENOENT,
		"device \"tty0\" of vendor.example/unit needs /dev/tty0, which is not a device node on "
		"the host: remove it and load its driver, or correct match in the configuration");
	host_remove("/dev/snd/seq");
	expect_error("tty1", -ENOENT,
		"vendor.example/unit needs /dev/snd, which is a directory without device nodes on the host: "
		"remove it and load its driver, or correct container.nodes in the configuration");
}

/* Whether the kernel starts a program with a variable of that size. */
static bool is_passed_on(size_t size)
{
	char *const arguments[] = { (char *)"true", NULL };
	_cleanup_free_ char *variable = calloc(size, 1);
	char *environment[] = { variable, NULL };
	int status;
	pid_t pid;

	assert_non_null(variable);
	memset(variable, 'x', size - 1);
	variable[1] = '=';
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)execve("/bin/true", arguments, environment);
		_exit(errno == E2BIG ? 7 : 8);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 7));
	return WEXITSTATUS(status) == 0;
}

/* MAX_ARG_STRLEN of the kernel. */
static void test_long_variable(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	_cleanup_allocation_ struct allocation allocation = { 0 };
	_cleanup_free_ const char **ids = NULL;
	size_t n = 0, size = sizeof("IDS=");
	struct error error = { 0 };
	char expected[160];

	assert_true(is_passed_on(VARIABLE_MAX));
	if (sysconf(_SC_PAGESIZE) == 4096)
		assert_false(is_passed_on(VARIABLE_MAX + 1));
	start("driver = \"static\"; match = ( { count = 13000; } ); container = { env = \"IDS=${ids}\"; };");
	snapshot = inventory_snapshot(inventory);
	ids = calloc(snapshot->n_units, sizeof(*ids));
	assert_non_null(ids);
	while (size <= VARIABLE_MAX) {
		ids[n] = snapshot->units[n].device->id;
		size += strlen(ids[n]) + (n > 0);
		n++;
	}
	assert_int_equal(allocation_build(declaration_of(config), snapshot, host_root, ids, n, NULL,
				 &allocation, &error),
		-E2BIG);
	(void)snprintf(expected, sizeof(expected),
		"vendor.example/unit: the variable IDS for %zu devices has %zu bytes, and a program cannot "
		"be started with more than %u: ",
		n, size, VARIABLE_MAX);
	assert_true(startswith(error.message, expected));
	assert_int_equal(allocation_build(declaration_of(config), snapshot, host_root, ids, n - 1,
				 NULL, &allocation, &error),
		0);
	assert_int_equal(allocation.n_env, 1);
}

static void test_attributes(void **state)
{
	char path[512];

	host_path(path, "/dev/card7");
	if (mknod(path, S_IFCHR | 0600, makedev(226, 7)) < 0)
		skip();
	host_mkdir("/sys/dev/char/226:7/device");
	host_write("/sys/dev/char/226:7/device/serial", " A 1\n");
	host_write("/sys/dev/char/226:7/dev", "226:7\n");
	start("driver = \"path\"; match = \"/dev/card*\"; container = { env = "
	      "( \"S=${attr:serial}\", \"D=${attr:dev}\" ); };");
	expect("card7", "node /dev/card7 /dev/card7 rw\nenv S=A 1\nenv D=226:7\n");
}

static void test_static(void **state)
{
	start("driver = \"static\"; match = ( { count = 3; } ); container = { env = ( \"T=${ids}\" ); "
	      "};");
	expect("unit-2 unit-1", "env T=unit-1,unit-2\n");
}

/* Names and values as other programs expect them, each unit once. */
static void test_names_of_others(void **state)
{
	start("driver = \"static\"; match = ( { count = 3; } ); share = { replicas = 2; };\n"
	      "container = { env = ( \"PCIDEVICE_${env_name}=${ids}\",\n"
	      "\"PCIDEVICE_${env_name}_INFO=${info}\" ); };");
	expect("unit-2#1 unit-1#0 unit-2#0",
		"env PCIDEVICE_VENDOR_EXAMPLE_UNIT=unit-1,unit-2\n"
		"env PCIDEVICE_VENDOR_EXAMPLE_UNIT_INFO={"
		"\"unit-1\":{\"generic\":{\"deviceID\":\"unit-1\"}},"
		"\"unit-2\":{\"generic\":{\"deviceID\":\"unit-2\"}}}\n");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, inventory_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_devices),
		TEST(test_removed),
		TEST(test_unhealthy),
		TEST(test_claims),
		TEST(test_container),
		TEST(test_missing),
		TEST(test_conflicts),
		TEST(test_mount_over_another),
		TEST(test_other_files),
		TEST(test_long_variable),
		TEST(test_shared),
		TEST(test_attributes),
		TEST(test_static),
		TEST(test_names_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
