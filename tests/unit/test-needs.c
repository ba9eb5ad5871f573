/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Allocate needs is watched: a device that lacks some of it is unhealthy with that as the
 * reason, and healthy when it is back. See also test-drm.c.
 */
#include "pci-fixture.h"

#include "common/log.h"
#include "drivers/allocation/allocation.h"

static int setup(void **state)
{
	log_setup("test-needs", LOG_TARGET_TEXT, LOG_CRIT);
	return host_setup(state);
}

/* The reason of the device; NULL if it is healthy. */
static const char *reason_of(const char *id)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	static char text[512];
	unsigned replica;
	size_t unit;

	assert_int_equal(snapshot_find(snapshot, id, &unit, &replica), 0);
	if (snapshot->units[unit].healthy)
		return NULL;
	(void)snprintf(text, sizeof(text), "%s", snapshot->units[unit].reason);
	return text;
}

static void expect_missing(const char *id, const char *path)
{
	_cleanup_free_ char *expected = NULL;

	assert_true(asprintf(&expected, "needs %s, which is missing on the host", path) > 0);
	RUN_UNTIL(reason_of(id) != NULL && startswith(reason_of(id), expected));
}

static void expect_healthy(const char *id)
{
	RUN_UNTIL(!reason_of(id));
}

/* The common node of all devices, and one of each. */
static void test_nodes(void **state)
{
	start("driver = \"static\"; match = ( \"a\", \"b\" );"
	      "container = { nodes = ( \"/dev/kfd\", \"/dev/x/${id}\", \"?/dev/none\" ); };");
	assert_string_equal(seen(), "a! b! ");
	assert_string_equal(reason_of("a"),
		"needs /dev/kfd, which is missing on the host: load its driver, or correct "
		"container.nodes in the configuration");
	host_mknod("/dev/kfd");
	expect_missing("a", "/dev/x/a");
	host_mkdir("/dev/x");
	host_mknod("/dev/x/b");
	expect_healthy("b");
	expect_missing("a", "/dev/x/a");
	host_mknod("/dev/x/a");
	expect_healthy("a");
	host_rename("/dev/x", "/dev/y");
	expect_missing("a", "/dev/x/a");
	expect_missing("b", "/dev/x/b");
	host_rename("/dev/y", "/dev/x");
	expect_healthy("a");
	expect_healthy("b");
	host_remove("/dev/kfd");
	expect_missing("b", "/dev/kfd");
}

static void test_mounts(void **state)
{
	host_mkdir("/opt/tool-1");
	host_symlink("tool-1", "/opt/tool");
	start("driver = \"static\"; match = ( \"a\" );"
	      "container = { mounts = ( { host = \"/opt/tool\"; path = \"/tool\"; } ); };");
	assert_string_equal(seen(), "a ");
	host_rename("/opt/tool-1", "/opt/tool-2");
	expect_missing("a", "/opt/tool");
	host_rename("/opt/tool-2", "/opt/tool-1");
	expect_healthy("a");
	host_remove("/opt/tool");
	expect_missing("a", "/opt/tool");
}

/* A variable that has no value is refused at Allocate, too. */
static void test_variables(void **state)
{
	host_mknod("/dev/tty0");
	start("driver = \"path\"; match = \"/dev/tty*\";"
	      "container = { env = ( \"X=${attr:serial}\" ); };");
	assert_string_equal(
		reason_of("tty0"), "\"X=${attr:serial}\": \"${attr:serial}\" has no value here");
	start("driver = \"path\"; match = \"/dev/tty*\";"
	      "container = { nodes = ( \"?/dev/${attr:x}\" ); };");
	assert_string_equal(
		reason_of("tty0"), "\"/dev/${attr:x}\": \"${attr:x}\" has no value here");
	start("driver = \"path\"; match = \"/dev/tty*\"; container = { env = ( \"X=${ids}-${n}\" ); "
	      "annotations = ( \"v.e/x=${replica}${position}${info}\" ); };");
	assert_string_equal(seen(), "tty0 ");
}

static void test_vfio_group_node(void **state)
{
	pci_plant("0000:03:00.0", "0x10de", "0x1234", "0x030000");
	pci_bind("0000:03:00.0", "vfio-pci");
	pci_join_group("0000:03:00.0", "45");
	start("driver = \"pci\"; match = ( { access = \"vfio\"; vendor = 0x10de; } );");
	assert_string_equal(seen(), "0000:03:00.0! ");
	host_mkdir("/dev/vfio");
	host_mknod("/dev/vfio/vfio");
	expect_missing("0000:03:00.0", "/dev/vfio/45");
	host_mknod("/dev/vfio/45");
	expect_healthy("0000:03:00.0");
	host_remove("/dev/vfio/45");
	expect_missing("0000:03:00.0", "/dev/vfio/45");
}

#define UNDEFINED "needs the CDI device vendor.example/card="

/* JSON of devplugd's own kind of files, and YAML of nvidia-ctk's. */
static void test_cdi_names(void **state)
{
	start("driver = \"static\"; match = ( \"a\", \"b\" ); container = { cdi = ( "
	      "\"vendor.example/card=${id}\", \"vendor.example/card=all\" ); };");
	assert_string_equal(seen(), "a! b! ");
	assert_string_equal(reason_of("a"),
		UNDEFINED
		"a, which no file in /etc/cdi or /run/cdi defines: install what writes the "
		"file, or correct container.cdi in the configuration");
	host_mkdir("/run/cdi");
	host_write("/run/cdi/card.json",
		"{\"kind\": \"vendor.example/card\", \"devices\": [{\"name\": \"a\"}]}");
	RUN_UNTIL(reason_of("a") && startswith(reason_of("a"), UNDEFINED "all"));
	host_mkdir("/etc/cdi");
	host_write("/etc/cdi/card.yaml", "kind: vendor.example/card\ndevices:\n- name: \"all\"\n");
	expect_healthy("a");
	assert_true(startswith(reason_of("b"), UNDEFINED "b"));
	/* The file is written again in place. */
	host_write("/run/cdi/card.json",
		"{\"kind\": \"vendor.example/card\", \"devices\": [{\"name\": \"b\"}]}");
	expect_healthy("b");
	assert_true(startswith(reason_of("a"), UNDEFINED "a"));
	/* A file of another kind. */
	host_write("/run/cdi/card.json",
		"{\"kind\": \"vendor.example/cards\", \"devices\": [{\"name\": \"b\"}]}");
	RUN_UNTIL(reason_of("b") != NULL);
	host_remove("/etc/cdi/card.yaml");
	start("driver = \"static\"; match = ( \"a\" ); container = { cdi_dirs = ( \"/opt/cdi\" ); "
	      "cdi = ( \"vendor.example/card=${id}\" ); };");
	assert_non_null(strstr(reason_of("a"), "which no file in container.cdi_dirs defines"));
	host_mkdir("/opt/cdi");
	host_write("/opt/cdi/card.json",
		"{\"kind\": \"vendor.example/card\", \"devices\": [{\"name\": \"a\"}]}");
	expect_healthy("a");
	/* Its own file is written for what is found. */
	start("driver = \"static\"; match = ( \"a\" ); cdi_spec = { kind = \"vendor.example/own\"; }; "
	      "container = { cdi = ( \"vendor.example/own=${id}\" ); };");
	assert_string_equal(seen(), "a ");
}

/* Nodes and directories come and go at random: once all is quiet, the list agrees with Allocate. */
static void test_P20_random_changes(void **state)
{
	static const char *const paths[] = { "/dev/kfd", "/dev/x/a", "/dev/x/b", "/opt/lib/one" };
	bool there[ARRAY_SIZE(paths)] = { 0 };
	unsigned seed = 20;

	host_mkdir("/dev/x");
	host_mkdir("/opt/lib");
	start("driver = \"static\"; match = ( \"a\", \"b\" ); container = { "
	      "nodes = ( \"/dev/kfd\", \"/dev/x/${id}\" ); mounts = ( { host = \"/opt/lib/one\"; } ); };");
	for (unsigned step = 0; step < 60; step++) {
		for (unsigned k = 0; k < 3; k++) {
			size_t i = (size_t)rand_r(&seed) % ARRAY_SIZE(paths);

			there[i] = !there[i];
			if (there[i])
				host_mknod(paths[i]);
			else
				host_remove(paths[i]);
		}
		for (size_t d = 0; d < 2; d++) {
			const char *id = d == 0 ? "a" : "b";
			bool complete = there[0] && there[1 + d] && there[3];

			RUN_UNTIL(complete == !reason_of(id));
			if (complete) {
				_cleanup_snapshot_ struct snapshot *snapshot =
					inventory_snapshot(inventory);
				_cleanup_allocation_ struct allocation allocation = { 0 };
				struct error error;

				assert_int_equal(
					allocation_build(declaration_of(config), snapshot,
						host_root, &id, 1, NULL, &allocation, &error),
					0);
			}
		}
	}
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, inventory_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nodes),
		TEST(test_mounts),
		TEST(test_variables),
		TEST(test_cdi_names),
		TEST(test_vfio_group_node),
		TEST(test_P20_random_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
