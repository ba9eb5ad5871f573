/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "pci" with contents of /sys that no kernel makes.
 */
#include "drivers/model/form.h"
#include "pci-machine-fixture.h"

#include "drivers/host/sysfs.h"

static void test_hostile(void **state)
{
	static char mebibyte[1 << 20];

	memset(mebibyte, 'x', sizeof(mebibyte) - 1);
	plant_host();
	host_symlink("../nowhere", "/sys/bus/pci/devices/0000:07:00.0");
	host_symlink("0000:08:00.0", "/sys/bus/pci/devices/0000:08:00.0");
	host_mkdir("/sys/bus/pci/devices/evil\n0000:09:00.0");
	host_mkdir("/sys/bus/pci/devices/0000:0A:00.0");
	host_write("/sys/bus/pci/devices/0000:0A:00.0/vendor", "0x8086\n");
	host_write("/sys/bus/pci/devices/0000:0A:00.0/device", "0x1\n");
	host_write("/sys/bus/pci/devices/0000:0A:00.0/class", "0x020000\n");
	pci_plant("0000:0b:00.0", "0x8086\x01", "0x1", "0x020000");
	pci_plant("0000:0c:00.0", "0x8086", "-", "0x020000");
	pci_plant("0000:0d:00.0", "0x8086", "0x1", "");
	pci_plant("0000:0e:00.0", "0x8086", "0x1", "0x020000");
	pci_write("0000:0e:00.0", "vendor", mebibyte);
	expect_ids("pci", "{ vendor = 0x8086; class = [ 2, 6 ]; }", "0000:00:01.0 ");
	assert_int_equal(scan.notes.count, 4);
	assert_non_null(strstr(scan.notes.items[0], "0000:0b:00.0/vendor cannot be read"));

	/* Links to what they cannot lead to. */
	pci_bind("0000:03:00.0", "vfio-pci");
	host_mkdir("/sys/kernel/iommu_groups/1\n2");
	pci_link("../../../kernel/iommu_groups/1\n2", "0000:03:00.0", "iommu_group");
	expect_ids("pci", GPU, "0000:03:00.0 ");
	assert_non_null(strstr(scan.devices[0]->problem, "has no IOMMU group"));
	host_remove(PCI_ROOT "/0000:03:00.0/iommu_group");
	pci_join_group("0000:03:00.0", "1 rw");
	expect_ids("pci", GPU, "0000:03:00.0 ");
	assert_non_null(strstr(scan.devices[0]->problem, "has no IOMMU group"));
	pci_write("0000:03:00.0", "mdev_supported_types/nvidia-222/name", "GRID T4-1B\n");
	plant_mdev(UUID_1, "nvidia-222", "1 rw");
	expect_ids("pci", "{ access = \"mdev\"; vendor = 0x10de; }", UUID_1 " ");
	assert_non_null(strstr(scan.devices[0]->problem, "has no IOMMU group"));
	pci_link("../0000:af:00.0", "0000:af:00.0", "physfn");
	pci_link("virtfn1", "0000:af:00.0", "virtfn1");
	expect_ids("pci", "{ class = 0x12; role = \"vf\"; }", "0000:af:00.0 ");
	expect_ids("pci", "{ class = 0x12; functions = \"1\"; }", "");
}

static const char *const victims[] = { "vendor", "class", "driver", "iommu_group", "physfn", "uio",
	"uevent", "numa_node", "sriov_totalvfs", "virtfn0", "vfio-dev", "drm", "vdpa0", "mdev_type",
	"net" };

/* Puts something where the kernel would never have it. */
static void spoil(unsigned long kind, const char *path)
{
	static const char *const targets[] = { "..", "/", "spoilt",
		"../../../kernel/iommu_groups" };
	char full[512];

	host_path(full, path);
	(void)nftw(full, host_remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (kind % 4 == 0)
		host_mkdir(path);
	else if (kind % 4 == 1)
		(void)mkfifo(full, 0600);
	else if (kind % 4 == 2)
		assert_int_equal(symlink(targets[kind / 4 % ARRAY_SIZE(targets)], full), 0);
	else
		host_write(path, kind / 4 % 2 ? "\xff\x1b[2J\n" : "99999999999999999999\n");
}

/* Trees with pieces that do not fit: a scan may find anything, but none of it may be in an id. */
static void test_spoilt(void **state)
{
	static const char *const functions[] = { "0000:03:00.0", "0000:6b:00.0", "0000:6b:00.1" };
	unsigned long random = 1;

	for (unsigned i = 0; i < 150; i++) {
		assert_int_equal(host_teardown(state), 0);
		assert_int_equal(host_setup(state), 0);
		plant_group();
		plant_mdev(UUID_1, "nvidia-222", "61");
		for (unsigned k = 0; k < 5; k++) {
			char path[256];

			random = (random * 6364136223846793005UL + 1442695040888963407UL);
			(void)snprintf(path, sizeof(path), PCI_ROOT "/%s/%s",
				functions[random >> 33 & 1 ? 0 : 1 + (random >> 34 & 1)],
				victims[(random >> 40) % ARRAY_SIZE(victims)]);
			spoil(random >> 50, path);
		}
		list_entries("pci",
			"{ access = \"vfio\"; vendor = 0x10de; }, { access = \"uio\"; role = \"vf\"; "
			"vendor = 0x8086; }, { access = \"mdev\"; vendor = 0x10de; }, "
			"{ access = \"vdpa\"; class = 0x12; }, { vendor = 0x8086; }");
		for (size_t k = 0; k < scan.n_devices; k++)
			assert_true(form_is_pci_address(scan.devices[k]->id) ||
				streq(scan.devices[k]->id, UUID_1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_hostile),
		TEST(test_spoilt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
