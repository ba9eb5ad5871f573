/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a device that was listed is not listed any more: the reasons for hardware that is removed,
 * and for hardware that is there but that the resource does not find now.
 */
#include "inventory-fixture.h"
#include "net-fixture.h"

#include "common/log.h"

/* Virtual functions that are made on a physical one. */
static void test_virtual_functions(void **state)
{
	start(NET "( { vendor = 0x8086; device = 0x158b; } );");
	assert_string_equal(seen(), "0000:3b:00.1 ");
	plant_function("0000:3b:0a.0", "0x020000", "8086:154c", NULL);
	plant_vf("0000:3b:00.1", 0, "0000:3b:0a.0");
	plant_interface("/sys/devices/virtual", "vcan1", 280);
	RUN_UNTIL(*loss_of("0000:3b:00.1"));
	assert_string_equal(loss_of("0000:3b:00.1"),
		"0000:3b:00.1 is not listed any more: \"role\" of match[0] refuses it, because it "
		"has virtual functions");
}

static void test_renamed_interface(void **state)
{
	start(NET "( { pf = \"ens785f0\"; functions = \"1\"; } );");
	assert_string_equal(seen(), "0000:3b:02.1 ");
	host_rename(BRIDGE "/0000:3b:00.0/net/ens785f0", BRIDGE "/0000:3b:00.0/net/enp59s0f0");
	plant_interface("/sys/devices/virtual", "vcan1", 280);
	RUN_UNTIL(*loss_of("0000:3b:02.1"));
	assert_string_equal(loss_of("0000:3b:02.1"),
		"0000:3b:02.1 is not listed any more: \"pf\" of match[0] refuses it, because it has "
		"0000:3b:00.0, interface enp59s0f0");
}

static void test_default_route(void **state)
{
	start(NET "( { vendor = 0x8086; device = 0x158b; } );");
	assert_string_equal(seen(), "0000:3b:00.1 ");
	host_write(
		"/proc/net/route", "head\nens785f1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n");
	plant_interface("/sys/devices/virtual", "vcan1", 280);
	RUN_UNTIL(*loss_of("0000:3b:00.1"));
	assert_string_equal(loss_of("0000:3b:00.1"),
		"0000:3b:00.1 is not listed any more: the host needs interface ens785f1: the host's "
		"default route leads through it");

	/* Then there is another reason. */
	host_remove("/sys/bus/pci/devices/0000:3b:00.1");
	host_rename(BRIDGE "/0000:3b:00.1", BRIDGE "/removed");
	RUN_UNTIL(strstr(loss_of("0000:3b:00.1"), "has disappeared"));
}

static void test_excluded(void **state)
{
	start(NET
		"( { functions = \"0-1\"; } ); exclude = ( { match = ( { interface = \"*x\"; } ); }, "
		"{ where = \"interface=*y\"; } );");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 ");
	plant_interface(BRIDGE "/0000:3b:02.0", "enx", 1);
	unplant_interface(BRIDGE "/0000:3b:02.1", "ens785f0v1");
	plant_interface(BRIDGE "/0000:3b:02.1", "eny", 1);
	RUN_UNTIL(*loss_of("0000:3b:02.0") && *loss_of("0000:3b:02.1"));
	assert_string_equal(loss_of("0000:3b:02.0"),
		"0000:3b:02.0 is not listed any more: exclude[0] leaves it out");
	assert_string_equal(loss_of("0000:3b:02.1"),
		"0000:3b:02.1 is not listed any more: `exclude` leaves it out");
}

static void test_where(void **state)
{
	start(NET "( { functions = \"0-1\"; } ); where = \"interface=e*\";");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 ");
	unplant_interface(BRIDGE "/0000:3b:02.1", "ens785f0v1");
	plant_interface(BRIDGE "/0000:3b:02.1", "wan1", 1);
	RUN_UNTIL(*loss_of("0000:3b:02.1"));
	assert_string_equal(loss_of("0000:3b:02.1"),
		"0000:3b:02.1 is not listed any more: `where` leaves it out");
}

static void test_removed(void **state)
{
	start(NET "( { functions = \"0\"; }, { type = \"interface\"; interface = \"vcan*\"; } );");
	assert_string_equal(seen(), "0000:3b:02.0 vcan0 ");
	host_remove("/sys/bus/pci/devices/0000:3b:02.0");
	host_rename(BRIDGE "/0000:3b:02.0", BRIDGE "/removed");
	unplant_interface("/sys/devices/virtual", "vcan0");
	RUN_UNTIL(*loss_of("0000:3b:02.0") && *loss_of("vcan0"));
	assert_string_equal(loss_of("0000:3b:02.0"), "0000:3b:02.0 has disappeared");
	assert_string_equal(loss_of("vcan0"), "vcan0 has disappeared");

	/* It is back, and then nothing is known but that it is not found. */
	host_rename(BRIDGE "/removed", BRIDGE "/0000:3b:02.0");
	host_symlink("../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:02.0",
		"/sys/bus/pci/devices/0000:3b:02.0");
	RUN_UNTIL(is_present("0000:3b:02.0"));
	host_remove("/sys/bus/pci/devices/0000:3b:02.0");
	RUN_UNTIL(*loss_of("0000:3b:02.0"));
	assert_string_equal(loss_of("0000:3b:02.0"),
		"0000:3b:02.0 is not listed any more: it was removed, or no longer matches");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_virtual_functions, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_renamed_interface, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_default_route, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_excluded, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_where, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_removed, net_setup, inventory_teardown),
	};

	log_setup("test-unit-loss", LOG_TARGET_TEXT, LOG_CRIT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
