/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each operator of the rules of Akri's udev handler, as docs/peers/akri-udev.md translates it. The
 * tests have the names that Akri's own have (discovery-handlers/udev/src/discovery_impl.rs), and
 * devices like theirs.
 */
#include "sysfs-driver-fixture.h"

#define USB "pci0000:00/usb1/1-1"

/* Akri's devices: a USB child with a parent and a grandparent, and a PCI child with a parent. */
static void make_children(void)
{
	sys_device("pci0000:00/usb1", "bus/usb", "");
	host_mkdir("/sys/bus/usb/drivers/some driver");
	host_symlink("../../../bus/usb/drivers/some driver", "/sys/devices/pci0000:00/usb1/driver");
	sys_write("pci0000:00/usb1", "someKey", "value\n");
	sys_device(USB, "bus/random", "");
	sys_device(USB "/usb-child", "class/random", "");
	sys_device("pci0000:01/pci-parent", "bus/pci", "");
	sys_write("pci0000:01/pci-parent", "someKey", "value2\n");
	sys_device("pci0000:01/pci-parent/pci-child", "class/random", "");
	host_mkdir("/run/udev/data");
	host_write("/run/udev/data/+usb:usb1", "G:tag0\nG:middle_tag\nG:tag\n");
}

static void expect_names(const char *conditions, const char *expected)
{
	_cleanup_free_ char *text = NULL;
	char names[1024] = "";

	assert_true(asprintf(&text, "driver = \"sysfs\"; match = ( { %s } );", conditions) > 0);
	list(text);
	for (size_t i = 0; i < scan.n_devices; i++)
		(void)snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s ",
			device_variable(scan.devices[i], "kernel_name"));
	if (!streq(names, expected))
		fail_msg("%s: found %s, not %s", conditions, names, expected);
}

#define CHILD "subsystem = \"*\"; name = \"*-child\"; "

static void test_filter_by_match_udev_filters(void **state)
{
	sys_device("pci0000:00/video0", "class/video4linux", "ID=1\n");
	sys_write("pci0000:00/video0", "someKey", "1000\n");
	sys_device("pci0000:00/video1", "class/video4linux", "ID=1\n");
	host_mkdir("/run/udev/data");
	host_write("/run/udev/data/+video4linux:video0", "G:some_tag\n");
	expect_names(
		"subsystem = \"video4linux\"; name = \"video0\"; path = \"/sys/devices/pci0000:00/video0\"; "
		"attributes = ( { file = \"someKey\"; is = \"1000\"; }, { property = \"ID\"; is = \"1\"; }, "
		"{ property = \"TAGS\"; is = \"*:some_tag:*\"; } );",
		"video0 ");
	expect_names("subsystem = \"video4linux\"; name = \"video[0-9]*\"; "
		     "attributes = ( { file = \"someKey\"; is_not = \"1000\"; } );",
		"video1 ");
	expect_names("subsystem = \"video*\";", "video0 video1 ");
}

static void test_filter_by_nomatch_udev_filters(void **state)
{
	make_children();
	sys_write("pci0000:01/pci-parent", "someKey", "1000\n");
	expect_names(
		"subsystem = \"*\"; not = \"usb\"; attributes = ( { file = \"someKey\"; is_not = \"1000\"; } );",
		"pci-child usb-child 1-1 ");
}

/* mock3, with TAG "tag3", is the one that Akri's test has left out; mock4 has no tags. */
static void test_filter_by_remaining_udev_filters(void **state)
{
	sys_device("exclude/mock0", "class/mock", "");
	sys_device("pci0000:00/mock1", "class/mock", "");
	host_mkdir("/sys/bus/pci/drivers/exclude");
	host_symlink("../../../bus/pci/drivers/exclude", "/sys/devices/pci0000:00/mock1/driver");
	sys_device("pci0000:00/mock2", "class/mock", "");
	sys_device("pci0000:00/mock3", "class/mock", "");
	sys_device("pci0000:00/mock4", "class/mock", "");
	sys_device("pci0000:00/mock5", "class/mock", "ID=id_num\n");
	sys_device("pci0000:00/video0", "class/mock", "");
	host_mkdir("/run/udev/data");
	host_write("/run/udev/data/+mock:mock2", "G:tag0\nG:tag_excluded\nG:tag2\n");
	host_write("/run/udev/data/+mock:mock3", "G:tag3\nG:other\nG:tag2\n");
	expect_names(
		"subsystem = \"mock\"; "
		"not = ( { name = \"video0\"; }, { path = \"/sys/devices/exclude/*\"; }, { driver = \"exclude\"; } ); "
		"attributes = ( { property = \"TAGS\"; is_not = ( \"*:tag_exclude:*\", \"*:tag[3-9]:*\" ); }, "
		"{ property = \"ID\"; is_not = \"id_num\"; } );",
		"mock2 mock4 ");
}

static void test_filter_by_driver(void **state)
{
	make_children();
	expect_names("subsystem = \"usb\"; driver = \"another driver\";", "");
	expect_names("subsystem = \"usb\"; driver = \"some driver\";", "usb1 ");
	expect_names("subsystem = \"usb\"; not = ( { driver = \"another driver\"; } );", "usb1 ");
	/* One without a driver has not that one. */
	expect_names(CHILD "not = ( { driver = \"some driver\"; } );", "pci-child usb-child ");
}

static void test_filter_by_hierarchy_field(void **state)
{
#define HIERARCHY                                                                                                   \
	"subsystem = \"usb\"; upwards = ( \"usb\", { attributes = ( { file = \"someKey\"; is = \"value\"; } ); }, " \
	"{ attributes = ( { property = \"TAGS\"; is = \"*:tag[0-9]*:*\"; } ); }, { name = \"usb[0-9]*\"; }, "

	make_children();
	/* The driver of the device itself counts, without a parent. */
	expect_names(HIERARCHY "{ driver = \"some driver\"; } );", "usb1 ");
	expect_names(HIERARCHY "{ driver = \"some driver\"; exists = false; } );", "");
}

static void test_filter_by_subsystems(void **state)
{
	make_children();
	expect_names(CHILD "upwards = \"usb\";", "usb-child ");
	expect_names(CHILD "upwards = \"pci\";", "pci-child ");
	expect_names(CHILD "upwards = ( { subsystem = \"pci\"; exists = false; } );", "usb-child ");
}

static void test_filter_by_attrs(void **state)
{
#define SOME_KEY "attributes = ( { file = \"someKey\"; is = \"value\"; } ); "

	make_children();
	expect_names(CHILD "upwards = ( { " SOME_KEY "} );", "usb-child ");
	expect_names(CHILD "upwards = ( { " SOME_KEY "exists = false; } );", "pci-child ");
}

static void test_filter_by_drivers(void **state)
{
	make_children();
	expect_names(CHILD "upwards = ( { driver = \"some driver\"; } );", "usb-child ");
	expect_names(
		CHILD "upwards = ( { driver = \"some driver\"; exists = false; } );", "pci-child ");
}

static void test_filter_by_tags(void **state)
{
#define HAS_TAG "attributes = ( { property = \"TAGS\"; is = \"*:tag[0-9]:*\"; } ); "

	make_children();
	expect_names(CHILD "upwards = ( { " HAS_TAG "} );", "usb-child ");
	expect_names(CHILD "upwards = ( { " HAS_TAG "exists = false; } );", "pci-child ");
}

static void test_filter_by_kernels(void **state)
{
	make_children();
	expect_names(CHILD "upwards = ( { name = \"usb[0-9]*\"; } );", "usb-child ");
	expect_names(
		CHILD "upwards = ( { name = \"usb[0-9]*\"; exists = false; } );", "pci-child ");
}

/* Akri groups what its rules found below one device; here the upper one is selected, with all nodes
 * below it. */
static void test_get_device_relatives(void **state)
{
	sys_device("pci0000:00/usb0", "bus/usb", "DEVTYPE=usb_device\nDEVNAME=bus/usb/001/001\n");
	sys_device("pci0000:00/usb0/0-1", "bus/usb", "DEVTYPE=usb_interface\n");
	sys_device(
		"pci0000:00/usb0/0-1/video4linux/video0", "class/video4linux", "DEVNAME=video0\n");
	sys_device(
		"pci0000:00/usb0/0-1/video4linux/video1", "class/video4linux", "DEVNAME=video1\n");
	host_node("/dev/bus/usb/001/001");
	host_node("/dev/video0");
	host_node("/dev/video1");
	expect_names("subsystem = \"usb\"; devtype = \"usb_device\"; child_nodes = true;", "usb0 ");
	expect_nodes(scan.devices[0]->id, "/dev/bus/usb/001/001 /dev/video0 /dev/video1 ");
}

/* A device above whose attribute cannot be read is neither with nor without it. */
static void test_unreadable(void **state)
{
	char binary[] = "val\001ue\n";

	make_children();
	sys_write("pci0000:00/usb1", "someKey", binary);
	expect_names(CHILD "upwards = ( { " SOME_KEY "} );", "");
	expect_names(CHILD "upwards = ( { " SOME_KEY "exists = false; } );", "pci-child ");
	assert_int_equal(scan.notes.count, 1);
	expect_names("subsystem = \"usb\"; not = ( { " SOME_KEY "} );", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_filter_by_match_udev_filters),
		HOST_TEST(test_filter_by_nomatch_udev_filters),
		HOST_TEST(test_filter_by_remaining_udev_filters),
		HOST_TEST(test_filter_by_driver),
		HOST_TEST(test_filter_by_hierarchy_field),
		HOST_TEST(test_filter_by_subsystems),
		HOST_TEST(test_filter_by_attrs),
		HOST_TEST(test_filter_by_drivers),
		HOST_TEST(test_filter_by_tags),
		HOST_TEST(test_filter_by_kernels),
		HOST_TEST(test_get_device_relatives),
		HOST_TEST(test_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
