/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What counts as a device node, and that every driver finds a device unhealthy if something else is
 * in the place of one of its nodes. See also test-needs.c and test-nvidia.c.
 */
#include "net-fixture.h"
#include "pci-fixture.h"
#include "spoilt-nodes-fixture.h"
#include "usb-fixture.h"

#include "common/log.h"
#include "drivers/host/node-state.h"

static int setup(void **state)
{
	log_setup("test-node-state", LOG_TARGET_TEXT, LOG_CRIT);
	return host_setup(state);
}

static void expect_state(const char *path, enum node_state expected)
{
	enum node_state state;

	assert_int_equal(node_state_read(host_root, path, NULL, &state), 0);
	if (state != expected)
		fail_msg("%s %s", path, node_state_phrase(state));
}

static void test_states(void **state)
{
	host_mknod("/dev/node");
	host_touch("/dev/file");
	host_mkfifo("/dev/fifo");
	host_symlink("node", "/dev/link");
	host_symlink("file", "/dev/link-to-file");
	host_symlink("nothing", "/dev/link-to-nothing");
	host_symlink("loop", "/dev/loop");
	expect_state("/dev/node", NODE_DEVICE);
	expect_state("/dev/link", NODE_DEVICE);
	expect_state("/dev/file", NODE_OTHER);
	expect_state("/dev/link-to-file", NODE_OTHER);
	expect_state("/dev/fifo", NODE_OTHER);
	expect_state("/dev/nothing", NODE_MISSING);
	expect_state("/dev/node/below", NODE_MISSING);
	expect_state("/dev/link-to-nothing", NODE_MISSING);
	expect_state("/dev/loop", NODE_MISSING);
}

/* As containerd and CRI-O see it. */
static void test_directories(void **state)
{
	host_mkdir("/dev/snd/by-path");
	expect_state("/dev/snd", NODE_EMPTY);
	host_touch("/dev/snd/file");
	host_mkfifo("/dev/snd/fifo");
	host_mknod("/dev/elsewhere");
	host_symlink("../elsewhere", "/dev/snd/link");
	host_mkdir("/dev/snd/shm");
	host_mknod("/dev/snd/shm/node");
	expect_state("/dev/snd", NODE_EMPTY);
	host_mknod("/dev/snd/by-path/node");
	expect_state("/dev/snd", NODE_DIRECTORY);
	/* Deeper than anything in /dev is. */
	host_mkdir("/dev/deep/1/2/3/4/5/6/7/8/9");
	host_mknod("/dev/deep/1/2/3/4/5/6/7/8/9/node");
	expect_state("/dev/deep", NODE_EMPTY);
	host_mknod("/dev/deep/1/2/3/4/5/6/7/8/node");
	expect_state("/dev/deep", NODE_DIRECTORY);
}

/* What may not be read is left to the container runtime. */
static void test_unreadable(void **state)
{
	char path[512];

	host_mkdir("/dev/closed");
	host_touch("/dev/closed/file");
	host_path(path, "/dev/closed");
	assert_int_equal(chmod(path, 0), 0);
	if (access(path, R_OK | X_OK) < 0)
		expect_state("/dev/closed/file", NODE_DEVICE);
	assert_int_equal(chmod(path, 0700), 0);
	expect_state("/dev/closed/file", NODE_OTHER);
}

static void test_path(void **state)
{
	host_mknod("/dev/card0");
	host_mknod("/dev/control");
	host_mknod("/dev/real");
	host_symlink("real", "/dev/link");
	expect_nodes_matter("driver = \"path\"; match = \"/dev/card*\";", "card0", 1);
	expect_nodes_matter(
		"driver = \"path\"; match = ( { path = \"/dev/card*\"; type = \"device\"; "
		"permissions = \"r\"; } );",
		"card0", 1);
	expect_nodes_matter("driver = \"path\"; match = ( { paths = ( \"/dev/card*\", { path = "
			    "\"/dev/control\"; limit = 2; } ); } );",
		"card0+control", 2);
	expect_nodes_matter("driver = \"path\"; match = \"/dev/link\";", "link", 1);
}

/* An optional path is left out. */
static void test_optional_path(void **state)
{
	static const char match[] =
		"driver = \"path\"; match = ( { paths = ( \"/dev/card*\", { path = "
		"\"/dev/trace*\"; optional = true; } ); } );";

	host_mknod("/dev/card0");
	host_touch("/dev/trace0");
	list(match);
	expect_nodes("card0", "/dev/card0 ");
	host_remove("/dev/trace0");
	host_mknod("/dev/trace0");
	list(match);
	expect_nodes("card0", "/dev/card0 /dev/trace0 ");
}

/* Files and sockets that are wanted as such. */
static void test_mounts(void **state)
{
	host_touch("/dev/file");
	host_touch("/opt-file");
	host_mkfifo("/run-fifo");
	start("driver = \"path\"; match = ( { path = \"/dev/file\"; type = \"mount\"; }, \"/opt-file\", "
	      "\"/run-fifo\" );");
	assert_string_equal(seen(), "file opt-file run-fifo ");
}

static void test_usb(void **state)
{
	char path[200], directory[320];

	make_devices();
	expect_nodes_matter(USB("vendor = 0x046d;"), "usb-0000:00:14.0-0:2.1", 3);
	expect_nodes_matter(USB("vendor = 0x0403; nodes = \"tty\";"), "usb-0403-6001-A9", 1);
	/* By udev's link. */
	usb_path("1-2.3", path);
	(void)snprintf(directory, sizeof(directory), "%s/1-2.3:1.0/ttyUSB0/tty/ttyUSB0", path);
	sys_write(directory, "dev", "188:0\n");
	host_write("/run/udev/data/c188:0", "S:serial/by-id/usb-A9\n");
	host_mkdir("/dev/serial/by-id");
	host_symlink("../../ttyUSB0", "/dev/serial/by-id/usb-A9");
	expect_nodes_matter(USB("vendor = 0x0403; nodes = \"tty\";"), "usb-0403-6001-A9", 1);
}

static void test_sysfs(void **state)
{
	sys_device("pci0000:00/0000:03:00.0", "bus/pci", "");
	sys_device("pci0000:00/0000:03:00.0/accel/accel0", "class/accel", "DEVNAME=accel/accel0\n");
	host_node("/dev/accel/accel0");
	host_node("/dev/control");
	expect_nodes_matter("driver = \"sysfs\"; match = ( { subsystem = \"accel\"; } );",
		"0000:03:00.0:accel.0", 1);
	expect_nodes_matter("driver = \"sysfs\"; match = ( { subsystem = \"accel\"; nodes = ( "
			    "\"/dev/accel/${kernel_name}\", \"/dev/control\" ); } );",
		"0000:03:00.0:accel.0", 2);
	expect_nodes_matter(
		"driver = \"sysfs\"; match = ( { subsystem = \"pci\"; child_nodes = true; } );",
		"0000:03:00.0", 1);
}

static void test_optional_sysfs(void **state)
{
	sys_device("pci0000:00/0000:03:00.0", "bus/pci", "");
	sys_device("pci0000:00/0000:03:00.0/accel/accel0", "class/accel", "DEVNAME=accel/accel0\n");
	host_node("/dev/accel/accel0");
	host_touch("/dev/trace");
	list("driver = \"sysfs\"; match = ( { subsystem = \"accel\"; nodes = ( "
	     "\"/dev/accel/${kernel_name}\", \"?/dev/trace\" ); } );");
	expect_nodes("0000:03:00.0:accel.0", "/dev/accel/accel0 ");
}

#define PCI(keys) "driver = \"pci\"; match = ( { vendor = 0x10de; " keys " } );"

static void test_pci(void **state)
{
	static const char id[] = "0000:03:00.0";

	pci_plant(id, "0x10de", "0x1eb8", "0x030200");
	pci_bind(id, "nouveau");
	pci_write(id, "drm/card0/uevent", "DEVNAME=dri/card0\n");
	pci_write(id, "drm/renderD128/uevent", "DEVNAME=dri/renderD128\n");
	pci_write(id, "uio/uio0/uevent", "DEVNAME=uio0\n");
	host_node("/dev/dri/card0");
	host_node("/dev/dri/renderD128");
	host_node("/dev/uio0");
	expect_nodes_matter(PCI("nodes = \"/dev/dri/*\";"), id, 2);
	expect_nodes_matter(PCI("access = \"uio\";"), id, 1);
	pci_bind(id, NULL);
	pci_bind(id, "vfio-pci");
	pci_join_group(id, "12");
	pci_write(id, "vfio-dev/vfio3/uevent", "DEVNAME=vfio/devices/vfio3\n");
	host_node("/dev/vfio/vfio");
	host_node("/dev/vfio/12");
	host_node("/dev/vfio/devices/vfio3");
	host_node("/dev/iommu");
	expect_nodes_matter(PCI("access = \"vfio\";"), id, 2);
	expect_nodes_matter(PCI("access = \"vfio-cdev\";"), id, 2);
}

static void test_drm(void **state)
{
	static const char id[] = "0000:03:00.0";

	pci_plant(id, "0x10de", "0x1eb8", "0x030200");
	pci_bind(id, "nouveau");
	host_mkdir("/sys/class/drm/card0");
	host_mkdir("/sys/class/drm/renderD128");
	host_symlink("../../../devices/pci0000:00/0000:03:00.0", "/sys/class/drm/card0/device");
	host_symlink(
		"../../../devices/pci0000:00/0000:03:00.0", "/sys/class/drm/renderD128/device");
	host_node("/dev/dri/card0");
	host_node("/dev/dri/renderD128");
	expect_nodes_matter("driver = \"drm\"; match = ( { } );", id, 2);
	expect_nodes_matter("driver = \"drm\"; match = ( { combine = true; } );", "all", 2);
}

/* The node that each adapter must have, alone and with its function. The others are left out. */
static void test_rdma(void **state)
{
	static const char *const texts[] = {
		"driver = \"rdma\"; match = ( { name = \"mlx5_0\"; } );",
		NET "( { rdma = true; address = \"0000:d8:00.0\"; } );"
	};

	assert_int_equal(net_setup(state), 0);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		start(texts[i]);
		spoil_node("0000:d8:00.0", "uverbs0", "/dev/infiniband/uverbs0");
	}
	host_remove("/dev/infiniband/umad0");
	host_touch("/dev/infiniband/umad0");
	host_remove("/dev/infiniband/rdma_cm");
	host_mkdir("/dev/infiniband/rdma_cm");
	list(texts[0]);
	expect_nodes("0000:d8:00.0", "/dev/infiniband/uverbs0 /dev/infiniband/issm0 ");
	assert_null(found("0000:d8:00.0")->problem);
	host_remove("/dev/infiniband/rdma_cm");
}

static void test_vhost(void **state)
{
	static const char text[] = NET "( { address = \"0000:3b:00.1\"; vhost_net = true; } );";

	assert_int_equal(net_setup(state), 0);
	host_mkdir("/dev/net");
	host_mknod("/dev/vhost-net");
	host_mknod("/dev/net/tun");
	expect_nodes_matter(text, "0000:3b:00.1", 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, driver_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_states),
		TEST(test_directories),
		TEST(test_unreadable),
		TEST(test_path),
		TEST(test_optional_path),
		TEST(test_mounts),
		TEST(test_usb),
		TEST(test_sysfs),
		TEST(test_optional_sysfs),
		TEST(test_pci),
		TEST(test_drm),
		cmocka_unit_test_teardown(test_rdma, driver_teardown),
		cmocka_unit_test_teardown(test_vhost, driver_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
