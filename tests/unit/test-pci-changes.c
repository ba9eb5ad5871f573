/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "pci" over time: functions that are bound, plugged and unplugged, and their health.
 */
#include "pci-machine-fixture.h"

static void plant_vfio_nodes(void)
{
	host_mkdir("/dev/vfio");
	host_mknod("/dev/vfio/vfio");
	host_mknod("/dev/vfio/12");
	host_mknod("/dev/vfio/13");
	host_mknod("/dev/vfio/200");
	host_mknod("/dev/vfio/201");
}

static void test_changes(void **state)
{
	plant_group();
	plant_vfio_nodes();
	start("driver = \"pci\"; match = ( { access = \"vfio\"; vendor = 0x10de; } );");
	assert_string_equal(seen(), "0000:03:00.0! ");
	pci_bind("0000:03:00.1", "vfio-pci");
	RUN_UNTIL(streq(seen(), "0000:03:00.0 "));
	/* One that is in the group, but not the resource's, gives it no name. */
	pci_join_group("0000:02:00.0", "13");
	pci_plant("0000:04:00.0", "0x10de", "0x1eb8", "0x030200");
	RUN_UNTIL(streq(seen(), "0000:03:00.0 0000:04:00.0! "));
	pci_join_group("0000:04:00.0", "13");
	pci_bind("0000:04:00.0", "vfio-pci");
	RUN_UNTIL(streq(seen(), "0000:03:00.0 0000:04:00.0 "));
	pci_bind("0000:02:00.0", "nvme");
	RUN_UNTIL(streq(seen(), "0000:03:00.0 0000:04:00.0! "));
	pci_bind("0000:02:00.0", NULL);
	RUN_UNTIL(streq(seen(), "0000:03:00.0 0000:04:00.0 "));
	pci_bind("0000:03:00.0", NULL);
	RUN_UNTIL(streq(seen(), "0000:03:00.0! 0000:04:00.0 "));
	host_remove("/sys/bus/pci/devices/0000:03:00.0");
	host_remove("/sys/bus/pci/devices/0000:03:00.1");
	RUN_UNTIL(streq(seen(), "0000:03:00.0? 0000:04:00.0 "));
}

/* A disk is assigned to a virtual machine, used by the host, and assigned again. */
static void test_from_vfio_to_the_host_and_back(void **state)
{
	plant_group();
	plant_vfio_nodes();
	pci_bind("0000:02:00.0", "vfio-pci");
	pci_join_group("0000:02:00.0", "13");
	start("driver = \"pci\"; match = ( { access = \"vfio\"; class = 0x0108; } );");
	assert_string_equal(seen(), "0000:02:00.0 ");
	for (size_t i = 0; i < 2; i++) {
		pci_bind("0000:02:00.0", NULL);
		pci_bind("0000:02:00.0", "nvme");
		RUN_UNTIL(streq(seen(), "0000:02:00.0! "));
		pci_bind("0000:02:00.0", NULL);
		pci_bind("0000:02:00.0", "vfio-pci");
		RUN_UNTIL(streq(seen(), "0000:02:00.0 "));
	}
}

/* "xbutil reset" and the like unbind a card, and its nodes have other numbers afterwards. */
static void test_reset(void **state)
{
	host_mkdir("/dev/dri");
	host_mknod("/dev/dri/renderD128");
	pci_plant("0000:65:00.1", "0x10ee", "0x5021", "0x120000");
	pci_bind("0000:65:00.1", "xocl");
	pci_write("0000:65:00.1", "drm/renderD128/uevent", "DEVNAME=dri/renderD128\n");
	start("preset = \"xilinx-alveo\";");
	assert_string_equal(seen(), "0000:65:00.1 ");
	host_remove("/dev/dri/renderD128");
	host_remove(PCI_ROOT "/0000:65:00.1/drm/renderD128/uevent");
	host_remove(PCI_ROOT "/0000:65:00.1/drm/renderD128");
	pci_bind("0000:65:00.1", NULL);
	RUN_UNTIL(streq(seen(), "0000:65:00.1? ") || streq(seen(), "0000:65:00.1! "));
	host_mknod("/dev/dri/renderD129");
	pci_write("0000:65:00.1", "drm/renderD129/uevent", "DEVNAME=dri/renderD129\n");
	pci_bind("0000:65:00.1", "xocl");
	RUN_UNTIL(streq(seen(), "0000:65:00.1 "));
}

/* One file for each card is the health of all its functions. */
static void test_health_of_the_card(void **state)
{
	plant_host();
	plant_vfio_nodes();
	pci_bind("0000:6b:00.1", "vfio-pci");
	pci_bind("0000:6b:00.2", "vfio-pci");
	pci_join_group("0000:6b:00.1", "200");
	pci_join_group("0000:6b:00.2", "201");
	host_mkdir("/run/qat");
	host_write("/run/qat/0000:6b:00.0", "0\n");
	start("preset = \"qat-vf\"; health = ( { probe = \"file\"; path = \"/run/qat/${pf}\"; "
	      "healthy = \"0\"; missing = \"healthy\"; } );");
	assert_string_equal(seen(), "0000:6b:00.1 0000:6b:00.2 ");
	host_replace("/run/qat/0000:6b:00.0", "-1\n");
	RUN_UNTIL(streq(seen(), "0000:6b:00.1! 0000:6b:00.2! "));
	host_replace("/run/qat/0000:6b:00.0", "0\n");
	RUN_UNTIL(streq(seen(), "0000:6b:00.1 0000:6b:00.2 "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_changes),
		TEST(test_from_vfio_to_the_host_and_back),
		TEST(test_reset),
		TEST(test_health_of_the_card),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
