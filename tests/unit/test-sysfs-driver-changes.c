/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "sysfs" over time: devices that are plugged, unplugged and bound to another driver.
 */
#include "sysfs-driver-fixture.h"

static void test_plugging(void **state)
{
	static const char match[] =
		"driver = \"sysfs\"; match = ( { subsystem = \"accel\"; driver = "
		"\"intel_vpu\"; } );";

	start(match);
	assert_false(is_present("0000:00:0b.0:accel.0"));
	make_npu();
	RUN_UNTIL(is_present("0000:00:0b.0:accel.0"));
	host_remove("/sys/class/accel/accel0");
	RUN_UNTIL(!is_present("0000:00:0b.0:accel.0"));
	host_symlink("../../devices/" NPU "/accel/accel0", "/sys/class/accel/accel0");
	RUN_UNTIL(is_present("0000:00:0b.0:accel.0"));
}

static void test_unbinding(void **state)
{
	make_npu();
	start("driver = \"sysfs\"; match = ( { subsystem = \"pci\"; driver = \"intel_*\"; } );");
	assert_true(is_present("0000:00:0b.0"));
	host_remove("/sys/devices/" NPU "/driver");
	RUN_UNTIL(!is_present("0000:00:0b.0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_plugging),
		HOST_TEST(test_unbinding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
