/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "sysfs" on a tree that no kernel would make, that has no end, or that may not be read.
 */
#include "sysfs-driver-fixture.h"

static void test_hostile(void **state)
{
	_cleanup_free_ char *large = malloc(1 << 20);
	char path[512];

	assert_non_null(large);
	memset(large, 'x', (1 << 20) - 1);
	large[(1 << 20) - 1] = '\0';
	make_queue(0, "enabled\n", "user\n", "shared\n");
	make_queue(1, large, "user\n", "shared\n");
	make_queue(2, "ena\033[2Jbled\n", "user\n", "shared\n");
	make_queue(3, "enabled\n", "user\n", "shared\n");
	host_remove("/sys/devices/" DSA "/dsa0/wq0.3/state");
	host_symlink("state", "/sys/devices/" DSA "/dsa0/wq0.3/state");
	host_symlink("../../../devices/absent", "/sys/bus/dsa/devices/wq0.4");
	host_symlink("/", "/sys/bus/dsa/devices/wq0.5");
	host_symlink("wq0.6", "/sys/bus/dsa/devices/wq0.6");
	host_path(path, "/sys/bus/dsa/devices/a\nb");
	assert_int_equal(mkdir(path, 0755), 0);
	expect_found("driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; "
		     "attributes = ( { file = \"state\"; is = \"*\"; } ); } );",
		"wq0.0 ");
	assert_int_equal(scan.notes.count, 3);
	for (size_t i = 0; i < scan.notes.count; i++)
		assert_non_null(strstr(scan.notes.items[i], "state of /sys/devices/" DSA "/dsa0/"));

	/* A node that would lead elsewhere. */
	sys_write(DSA "/dsa0/wq0.0", "uevent", "DEVNAME=../etc/shadow\n");
	list("driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; name = \"wq0.0\"; } );");
	assert_int_equal(scan.devices[0]->n_nodes, 0);
	assert_non_null(scan.devices[0]->problem);
}

/* What has no end is cut off, and noted. */
static void test_limits(void **state)
{
	_cleanup_free_ char *large = malloc(1 << 17);
	char path[128];

	sys_device("platform/board", "bus/platform", "");
	for (int i = 0; i < 4100; i++) {
		(void)snprintf(path, sizeof(path), "/sys/devices/platform/board/port%d", i);
		host_mkdir(path);
	}
	sys_device("platform/board/port9", "bus/platform", "DEVNAME=port9\n");
	host_mknod("/dev/port9");
	list("driver = \"sysfs\"; match = ( { subsystem = \"platform\"; child_nodes = true; } );");
	assert_string_equal(found("board")->problem, "it has too many devices below it");
	/* Not counted among so many. */
	assert_null(found("board:port9")->problem);

	make_queue(0, "enabled\n", "user\n", "shared\n");
	host_mkdir("/run/udev/data");
	assert_non_null(large);
	memset(large, 'E', (1 << 17) - 1);
	large[(1 << 17) - 1] = '\0';
	memcpy(large, "E:A=1\n", 6);
	host_write("/run/udev/data/+dsa:wq0.0", large);
	expect_found("driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; "
		     "attributes = ( { property = \"A\"; } ); } );",
		"");
	assert_int_equal(scan.notes.count, 1);
}

static void test_unreadable(void **state)
{
	char path[512];

	make_queue(0, "enabled\n", "user\n", "shared\n");
	assert_int_equal(chmod(host_root, 0755), 0);
	host_path(path, "/sys/devices/" DSA "/dsa0/wq0.0/state");
	assert_int_equal(chmod(path, 0200), 0);
	if (geteuid() == 0)
		assert_int_equal(seteuid(65534), 0);
	list("driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; "
	     "attributes = ( { file = \"state\"; is = \"enabled\"; } ); } );");
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(scan.n_devices, 0);
	assert_int_equal(scan.notes.count, 1);
	assert_non_null(strstr(scan.notes.items[0], "Permission denied"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_hostile),
		HOST_TEST(test_limits),
		HOST_TEST(test_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
