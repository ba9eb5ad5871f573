/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading /sys: what a kernel writes, and what only a hostile tree has. complaints.md: R18.
 */
#include "drivers/host/sysfs.h"
#include "drivers/model/form.h"

#include "host-fixture.h"

#define CARD "/sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0"

static char value[SYSFS_VALUE_MAX + 1];

static void plant_card(void)
{
	host_mkdir(CARD "/drm/card0");
	host_mkdir("/sys/bus/pci/devices");
	host_mkdir("/sys/bus/pci/drivers/amdgpu");
	host_mkdir("/sys/class/drm");
	host_symlink("../../../devices/pci0000:00/0000:00:01.0/0000:03:00.0",
		"/sys/bus/pci/devices/0000:03:00.0");
	host_symlink("../../../../bus/pci/drivers/amdgpu", CARD "/driver");
	host_symlink("../../devices/pci0000:00/0000:00:01.0/0000:03:00.0/drm/card0",
		"/sys/class/drm/card0");
	host_write(CARD "/vendor", "0x1002\n");
	host_write(CARD "/numa_node", "1\n");
	host_write(CARD "/drm/card0/uevent",
		"MAJOR=226\nMINOR=0\nDEVNAME=dri/card0\nDEVTYPE=drm_minor\n");
}

static void test_read(void **state)
{
	int64_t number;

	plant_card();
	assert_int_equal(
		sysfs_read(host_root, "/sys/bus/pci/devices/0000:03:00.0", "vendor", value), 0);
	assert_string_equal(value, "0x1002");
	assert_int_equal(sysfs_read_number(host_root, CARD, "vendor", &number), 0);
	assert_int_equal(number, 0x1002);
	assert_int_equal(sysfs_read_number(host_root, CARD, "numa_node", &number), 0);
	assert_int_equal(number, 1);
	assert_int_equal(sysfs_read(host_root, CARD, "missing", value), -ENOENT);
	host_write(CARD "/number", "12monkeys\n");
	assert_int_equal(sysfs_read_number(host_root, CARD, "number", &number), -EBADMSG);
	host_write(CARD "/number", "99999999999999999999\n");
	assert_int_equal(sysfs_read_number(host_root, CARD, "number", &number), -EBADMSG);
	host_write(CARD "/number", "\n");
	assert_int_equal(sysfs_read_number(host_root, CARD, "number", &number), -EBADMSG);
}

static void test_links_and_nodes(void **state)
{
	char name[NAME_MAX + 1], address[PCI_ADDRESS_SIZE];
	_cleanup_free_ char *node = NULL, *path = NULL;

	plant_card();
	assert_int_equal(sysfs_read_link(host_root, CARD, "driver", name), 0);
	assert_string_equal(name, "amdgpu");
	assert_int_equal(sysfs_read_link(host_root, CARD, "physfn", name), -ENOENT);
	assert_int_equal(sysfs_read_node(host_root, "/sys/class/drm/card0", &node), 0);
	assert_string_equal(node, "/dev/dri/card0");
	assert_int_equal(sysfs_read_uevent(host_root, "/sys/class/drm/card0", "DEVTYPE", value), 0);
	assert_string_equal(value, "drm_minor");
	assert_int_equal(
		sysfs_read_uevent(host_root, "/sys/class/drm/card0", "DEV", value), -ENOENT);
	assert_int_equal(sysfs_pci_address(host_root, "/sys/class/drm/card0", address), 0);
	assert_string_equal(address, "0000:03:00.0");
	assert_int_equal(sysfs_resolve(host_root, "/sys/class/drm/card0", &path), 0);
	assert_string_equal(path, CARD "/drm/card0");
	assert_true(sysfs_ascend(path));
	assert_string_equal(path, CARD "/drm");
}

#define QUIET CARD "/vdpa0/vhost-vdpa-0"

/* Expects the node of a device whose uevent file is empty; NULL: none, for that reason. */
static void expect_quiet_node(const char *number, const char *expected, int r)
{
	_cleanup_free_ char *node = NULL;

	host_write(QUIET "/dev", number);
	assert_int_equal(sysfs_read_node(host_root, QUIET, &node), r);
	if (expected)
		assert_string_equal(node, expected);
}

static void test_quiet_nodes(void **state)
{
	_cleanup_free_ char *node = NULL;

	plant_card();
	host_mkdir(QUIET);
	host_write(QUIET "/uevent", "");
	assert_int_equal(sysfs_read_node(host_root, QUIET, &node), -ENOENT);
	expect_quiet_node("511:0\n", "/dev/vhost-vdpa-0", 0);
	expect_quiet_node("511\n", NULL, -EBADMSG);
	expect_quiet_node("\n", NULL, -EBADMSG);
	host_mknod("/dev/vhost-vdpa-0");
	expect_quiet_node("0:0\n", "/dev/vhost-vdpa-0", 0);
	expect_quiet_node("511:0\n", NULL, -ENOENT);
	host_remove("/dev/vhost-vdpa-0");
	host_touch("/dev/vhost-vdpa-0");
	expect_quiet_node("0:0\n", NULL, -ENOENT);
	/* A name with "/" in it, and one that leads elsewhere. */
	host_mkdir(CARD "/a!b");
	host_write(CARD "/a!b/dev", "511:1\n");
	assert_int_equal(sysfs_read_node(host_root, CARD "/a!b", &node), 0);
	assert_string_equal(node, "/dev/a/b");
	host_mkdir(CARD "/..!b");
	host_write(CARD "/..!b/dev", "511:1\n");
	free(TAKE_PTR(node));
	assert_int_equal(sysfs_read_node(host_root, CARD "/..!b", &node), -EBADMSG);
}

static void test_describe(void **state)
{
	_cleanup_device_ struct device *device = NULL;

	plant_card();
	assert_int_equal(device_new("card", &device), 0);
	assert_int_equal(sysfs_describe(host_root, "/sys/class/drm/card0", device), 0);
	assert_string_equal(device_variable(device, "sysfs"), CARD "/drm/card0");
	assert_string_equal(device_variable(device, "bdf"), "0000:03:00.0");
	assert_int_equal(device->n_numa, 1);
	assert_int_equal(device->numa[0], 1);
}

static void test_numa_minus_one(void **state)
{
	_cleanup_device_ struct device *device = NULL;

	plant_card();
	host_write(CARD "/numa_node", "-1\n");
	host_write("/sys/devices/pci0000:00/0000:00:01.0/numa_node", "0\n");
	assert_int_equal(device_new("card", &device), 0);
	assert_int_equal(sysfs_add_numa(host_root, CARD, device), 0);
	assert_int_equal(device->n_numa, 0);
}

static void test_list(void **state)
{
	_cleanup_strings_ struct strings names = { 0 };

	host_mkdir("/sys/class/net");
	host_write("/sys/class/net/eth10", "");
	host_write("/sys/class/net/eth2", "");
	host_write("/sys/class/net/.hidden", "");
	host_write("/sys/class/net/ev\nil", "");
	host_write("/sys/class/net/\xff", "");
	assert_int_equal(sysfs_list(host_root, "/sys/class/net", &names), 0);
	assert_int_equal(names.count, 2);
	assert_string_equal(names.items[0], "eth2");
	assert_string_equal(names.items[1], "eth10");
	assert_int_equal(sysfs_list(host_root, "/sys/class/none", &names), -ENOENT);
}

static void test_hostile(void **state)
{
	static char mebibyte[1 << 20];
	char name[NAME_MAX + 1], address[PCI_ADDRESS_SIZE], path_of_zero[512];
	char *path;
	int fd;

	plant_card();
	memset(mebibyte, 'a', sizeof(mebibyte) - 1);
	host_write(CARD "/big", mebibyte);
	assert_int_equal(sysfs_read(host_root, CARD, "big", value), -EFBIG);
	host_write(CARD "/control", "a\033[2Jb\n");
	assert_int_equal(sysfs_read(host_root, CARD, "control", value), -EBADMSG);
	host_write(CARD "/bytes", "a\xffz\n");
	assert_int_equal(sysfs_read(host_root, CARD, "bytes", value), -EBADMSG);
	host_write(CARD "/zero", "a ");
	host_path(path_of_zero, CARD "/zero");
	fd = open(path_of_zero, O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, "a\0b", 3), 3);
	close_fd(fd);
	assert_int_equal(sysfs_read(host_root, CARD, "zero", value), -EBADMSG);
	host_mkdir(CARD "/directory");
	assert_int_equal(sysfs_read(host_root, CARD, "directory", value), -EINVAL);
	host_mkfifo(CARD "/pipe");
	assert_int_equal(sysfs_read(host_root, CARD, "pipe", value), -EINVAL);

	host_symlink("loop-b", CARD "/loop-a");
	host_symlink("loop-a", CARD "/loop-b");
	assert_int_equal(sysfs_read_link(host_root, CARD, "loop-a", name), -ELOOP);
	host_symlink("/etc", "/sys/class/away");
	host_mkdir("/etc");
	assert_int_equal(sysfs_resolve(host_root, "/sys/class/away", &path), -EXDEV);
	assert_int_equal(sysfs_pci_address(host_root, "/sys/class/away", address), -EXDEV);

	host_write(CARD "/drm/card0/uevent", "DEVNAME=../../etc/shadow\n");
	assert_int_equal(sysfs_read_node(host_root, CARD "/drm/card0", &path), -EBADMSG);
	host_write(CARD "/drm/card0/uevent", "DEVNAME=/etc/shadow\n");
	assert_int_equal(sysfs_read_node(host_root, CARD "/drm/card0", &path), -EBADMSG);
	host_write(CARD "/drm/card0/uevent", "DEVNAME=a/../../b\n");
	assert_int_equal(sysfs_read_node(host_root, CARD "/drm/card0", &path), -EBADMSG);
	host_write(CARD "/drm/card0/uevent", "DEVNAME=dri/..\n");
	assert_int_equal(sysfs_read_node(host_root, CARD "/drm/card0", &path), -EBADMSG);
}

static void test_pci_address(void **state)
{
	static const char *const valid[] = { "0000:03:00.0", "10000:e1:1f.7", "ffff:ff:1f.0" };
	static const char *const invalid[] = { "", "03:00.0", "0000:03:00", "0000:03:00.8",
		"0000:3:00.0", "0000:03:00.0x", "0000:0G:00.0", "0000-03-00.0", "0000:03:00.0/..",
		"pci0000:00", "123456789:03:00.0", "0000:0A:00.0" };

	for (size_t i = 0; i < ARRAY_SIZE(valid); i++)
		assert_true(form_is_pci_address(valid[i]));
	for (size_t i = 0; i < ARRAY_SIZE(invalid); i++)
		assert_false(form_is_pci_address(invalid[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_read, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_links_and_nodes, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_quiet_nodes, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_describe, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_numa_minus_one, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_list, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_hostile, host_setup, host_teardown),
		cmocka_unit_test(test_pci_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
