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

#define SERIAL(port) "usb-0000:00:14.0-0:" #port ":1.0:ttyUSB.0"

/* A device keeps its id while it is listed, when another comes that would have the same one, and
 * over a boot if a pod holds it under that id. */
static void test_equal_devices(void **state)
{
	static const char match[] =
		"driver = \"sysfs\"; match = ( { subsystem = \"tty\"; id = \"${serial}\"; } );";

	sys_device("pci0000:00/0000:00:14.0", "bus/pci", "");
	sys_device("pci0000:00/0000:00:14.0/usb1", "bus/usb", "DEVTYPE=usb_device\n");
	make_serial_port("1-2", "ttyUSB1", "same\n");
	start(match);
	assert_string_equal(seen(), "same ");
	make_serial_port("1-1", "ttyUSB0", "same\n");
	RUN_UNTIL(streq(seen(), "same " SERIAL(1) " "));
	host_remove("/sys/class/tty/ttyUSB1");
	RUN_UNTIL(streq(seen(), "same? " SERIAL(1) " "));
	host_symlink("../../devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/tty/ttyUSB1",
		"/sys/class/tty/ttyUSB1");
	RUN_UNTIL(streq(seen(), "same " SERIAL(1) " "));

	start(match);
	assert_string_equal(seen(), SERIAL(1) " " SERIAL(2) " ");
	start_booked(match, "same");
	assert_string_equal(seen(), "same " SERIAL(2) " ");
	start_booked(match, "same\n" SERIAL(1));
	assert_string_equal(seen(), "same " SERIAL(1) " ");
	host_remove("/sys/class/tty/ttyUSB1");
	start_booked(match, "same\n" SERIAL(1));
	assert_string_equal(seen(), SERIAL(1) " same? ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_plugging),
		HOST_TEST(test_unbinding),
		HOST_TEST(test_equal_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
