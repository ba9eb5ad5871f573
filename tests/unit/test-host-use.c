/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which disks the host uses, by each of the places where the kernel shows it.
 */
#include "host-use-fixture.h"

#include <sys/sysmacros.h>

#include "drivers/host/host-use.h"
#include "drivers/host/scan-run.h"
#include "drivers/inventory/listing.h"

#define SCSI "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block"

/* "" if the disk is not used. */
static const char *use_of(const char *name)
{
	static char reason[HOST_USE_MAX];
	_cleanup_scan_ struct scan scan = { .root = host_root };
	_cleanup_host_use_ struct host_use use = { .scan = &scan };
	int r = host_use_of_disk(&use, name, reason);

	assert_in_range(r, 0, 1);
	return r > 0 ? reason : "";
}

static int setup(void **state)
{
	if (host_setup(state) < 0)
		return -1;
	plant_block(SCSI, "sda", 8, 0);
	plant_block(SCSI "/sda", "sda1", 8, 1);
	plant_block(SCSI "/sda", "sda2", 8, 2);
	plant_block("/sys/devices/virtual/block", "dm-0", 254, 0);
	plant_block("/sys/devices/virtual/block", "loop0", 7, 0);
	host_mkdir("/proc/1");
	host_write("/proc/1/mountinfo", MOUNTS);
	return 0;
}

static void test_mounts(void **state)
{
	assert_string_equal(use_of("sda"), "");
	host_write("/proc/1/mountinfo", MOUNTS "30 27 8:1 / /boot\\040efi rw - vfat /dev/sda1 rw");
	assert_string_equal(use_of("sda"), "sda1 is mounted at /boot efi");
	assert_string_equal(use_of("sda1"), "sda1 is mounted at /boot efi");
	assert_string_equal(use_of("sda2"), "");

	/* A file system of several devices has no number of its own. */
	host_mknod("/dev/dm-0");
	host_mkdir("/dev/mapper");
	host_symlink("../dm-0", "/dev/mapper/vg-root");
	host_write("/proc/1/mountinfo",
		MOUNTS "27 1 0:25 / / rw shared:1 - btrfs /dev/mapper/vg-root rw,subvol=/\n");
	assert_string_equal(use_of("dm-0"), "dm-0 is mounted at /");
	assert_string_equal(use_of("sda"), "");
}

static void expect_note(const char *keys, const char *expected)
{
	_cleanup_config_ struct config *config = declare(keys);
	_cleanup_scan_ struct scan scan = { .root = host_root };
	struct error error;

	assert_int_equal(list_devices(declaration_of(config), &scan, &error), 0);
	assert_string_equal(scan.notes.count > 0 ? scan.notes.items[0] : "", expected);
}

/* Disks are offered, but not without a word if the host uses them. */
static void test_notes(void **state)
{
	static const char by_path[] = "driver = \"path\"; match = \"/dev/sd*\";";
	static const char by_link[] = "driver = \"path\"; match = \"/dev/disk/*\";";
	static const char by_class[] =
		"driver = \"sysfs\"; match = ( { subsystem = \"block\"; name = \"sda\"; } );";
	static const char *const names[] = { "sda", "sda1", "sda2" };
	char path[512];

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/dev/%s", host_root, names[i]);
		if (mknod(path, S_IFBLK | 0600, makedev(8, i)) < 0)
			skip();
	}
	host_mkdir("/dev/disk");
	host_symlink("../sda2", "/dev/disk/data");
	host_write(SCSI "/sda/uevent", "DEVNAME=sda\n");
	host_write(SCSI "/sda/dev", "8:0\n");
	expect_note(by_path, "");
	host_write("/proc/1/mountinfo", MOUNTS "30 27 8:1 / / rw - ext4 /dev/sda1 rw\n");
	expect_note(by_path,
		"the host uses sda (sda1 is mounted at /) and 1 more, which is offered to pods: unless "
		"that is meant, name it in `exclude`");
	expect_note(by_link, "");
	expect_note(by_class,
		"the host uses sda (sda1 is mounted at /), which is offered to pods: unless that "
		"is meant, name it in `exclude`");
	host_write("/proc/1/mountinfo", MOUNTS);
	host_write("/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n");
	expect_note(by_link,
		"the host uses disk:data (sda2 is swap space), which is offered to pods: unless that is "
		"meant, name it in `exclude`");
}

/* A line of any length is one line. */
static void test_long_line(void **state)
{
	static char text[40000];

	(void)strcpy(text, "95 1 0:52 / /run/x rw - overlay overlay rw,lowerdir=");
	memset(text + strlen(text), 'a', 20000);
	(void)strcat(text, " 1 1 8:2 / /a rw\n30 27 8:1 / /b rw - ext4 /dev/sda1 rw\n");
	host_write("/proc/1/mountinfo", text);
	assert_string_equal(use_of("sda1"), "sda1 is mounted at /b");
	assert_string_equal(use_of("sda2"), "");
}

static void test_swap(void **state)
{
	host_mknod("/dev/sda2");
	host_write("/proc/swaps",
		"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
		"/swapfile                               file\t\t1048572\t\t0\t\t-3\n"
		"/dev/sda2                               partition\t1048572\t\t0\t\t-2\n");
	assert_string_equal(use_of("sda"), "sda2 is swap space");
	assert_string_equal(use_of("sda1"), "");
}

/* systemd hides some mounts from the service, and a container sees other ones. */
static void test_file_systems(void **state)
{
	host_mkdir("/sys/fs/ext4/features");
	host_mkdir("/sys/fs/ext4/sda1");
	assert_string_equal(use_of("sda1"), "sda1 has a mounted ext4 file system");
	assert_string_equal(use_of("sda2"), "");
	host_mkdir("/sys/fs/btrfs/5ad2a1c9/devices");
	host_mkdir("/sys/fs/btrfs/features");
	host_symlink("../../../../devices/x", "/sys/fs/btrfs/5ad2a1c9/devices/sda2");
	assert_string_equal(use_of("sda2"), "sda2 has a mounted btrfs file system");
}

static void test_holders(void **state)
{
	host_mkdir(SCSI "/sda/sda2/holders");
	assert_string_equal(use_of("sda2"), "");
	host_symlink("../../../../dm-0", SCSI "/sda/sda2/holders/dm-0");
	assert_string_equal(use_of("sda2"), "dm-0 is on sda2");
	assert_string_equal(use_of("sda"), "dm-0 is on sda2");
	assert_string_equal(use_of("dm-0"), "");
	host_mkdir("/sys/devices/virtual/block/loop0/loop");
	host_write("/sys/devices/virtual/block/loop0/loop/backing_file", "/var/lib/x.img\n");
	assert_string_equal(use_of("loop0"), "loop0 is set up for the file /var/lib/x.img");
}

static void test_unknown(void **state)
{
	_cleanup_scan_ struct scan scan = { .root = host_root };
	_cleanup_host_use_ struct host_use use = { .scan = &scan };
	char reason[HOST_USE_MAX];

	host_remove("/proc/1/mountinfo");
	assert_int_equal(host_use_of_disk(&use, "sda", reason), 0);
	assert_int_equal(host_use_of_disk(&use, "none", reason), 0);
	assert_int_equal(scan.notes.count, 1);
	assert_non_null(strstr(scan.notes.items[0],
		"has no /proc/1/mountinfo, so some disks that the host uses may be offered without a note"));
	assert_int_equal(host_use_below(&use, "/sys/devices/none", reason), 0);
}

/* The disk of an NVMe controller with several paths is elsewhere; the path leads to it. */
static void test_below(void **state)
{
	static const char controller[] = "/sys/devices/pci0000:00/0000:01:00.0/nvme/nvme3";
	_cleanup_scan_ struct scan scan = { .root = host_root };
	_cleanup_host_use_ struct host_use use = { .scan = &scan };
	char reason[HOST_USE_MAX];

	plant_block(controller, "nvme3c1n2", 259, 7);
	plant_block("/sys/devices/virtual/nvme-subsystem/nvme-subsys3", "nvme3n2", 259, 8);
	host_write("/proc/1/mountinfo", MOUNTS "30 27 259:8 / /srv rw - xfs /dev/nvme3n2 rw\n");
	assert_int_equal(host_use_below(&use, controller, reason), 1);
	assert_string_equal(reason, "nvme3n2 is mounted at /srv");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_mounts, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_notes, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_long_line, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_swap, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_file_systems, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_holders, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_unknown, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_below, setup, host_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
