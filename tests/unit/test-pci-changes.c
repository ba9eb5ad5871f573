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
	/* One that is in the group, but not the resource's. */
	pci_join_group("0000:02:00.0", "13");
	pci_plant("0000:04:00.0", "0x10de", "0x1eb8", "0x030200");
	RUN_UNTIL(streq(seen(), "0000:03:00.0 0000:04:00.0! "));
	pci_join_group("0000:04:00.0", "13");
	pci_bind("0000:04:00.0", "vfio-pci");
	RUN_UNTIL(streq(seen(), "0000:02:00.0 0000:03:00.0 0000:04:00.0? "));
	pci_bind("0000:02:00.0", "nvme");
	RUN_UNTIL(streq(seen(), "0000:02:00.0! 0000:03:00.0 0000:04:00.0? "));
	pci_bind("0000:02:00.0", NULL);
	RUN_UNTIL(streq(seen(), "0000:02:00.0 0000:03:00.0 0000:04:00.0? "));
	pci_bind("0000:03:00.0", NULL);
	RUN_UNTIL(streq(seen(), "0000:02:00.0 0000:03:00.0! 0000:04:00.0? "));
	host_remove("/sys/bus/pci/devices/0000:03:00.0");
	host_remove("/sys/bus/pci/devices/0000:03:00.1");
	RUN_UNTIL(streq(seen(), "0000:02:00.0 0000:03:00.0? 0000:04:00.0? "));
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
		TEST(test_health_of_the_card),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
