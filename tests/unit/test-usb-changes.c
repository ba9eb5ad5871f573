/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "usb" over time: a device that is plugged in bit by bit, out, and in again.
 */
#include "usb-fixture.h"

/* What the device has for its variable, or NULL if it is not there. */
static bool says(const char *id, const char *name, const char *value)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	const char *found_value;
	unsigned replica;
	size_t unit;

	if (snapshot_find(snapshot, id, &unit, &replica) < 0 || !snapshot->units[unit].present)
		return !value;
	found_value = device_variable(snapshot->units[unit].device, name);
	return value && found_value && streq(value, found_value);
}

static void test_plugging(void **state)
{
	static const char id[] = "usb-0403-6001-A9";
	char path[200], child[300];

	start(USB("vendor = 0x0403;"));
	make_hubs();
	plug("1-2.3", 5, "0403\n", "6001\n", "A9\n");
	RUN_UNTIL(says(id, "usb_address", "1:5"));
	/* Its interfaces come later. */
	add_interface("1-2.3", 0, "ff\n");
	add_child("1-2.3", 0, "tty", "ttyUSB0/tty/ttyUSB0");
	RUN_UNTIL(says(id, "tty", "/dev/ttyUSB0"));
	/* Only the tree of /sys tells of this one. */
	host_node("/dev/video0");
	run_for(3 * INVENTORY_QUIET);
	usb_path("1-2.3", path);
	(void)snprintf(child, sizeof(child), "%s/1-2.3:1.0/video4linux/video0", path);
	sys_device(child, "class/video4linux", "DEVNAME=video0\n");
	RUN_UNTIL(says(id, "video", "/dev/video0"));
	host_remove("/sys/bus/usb/devices/1-2.3");
	RUN_UNTIL(says(id, "usb_address", NULL));
	write_number("1-2.3", 9);
	host_symlink("../../../devices/" HUB "/1-2/1-2.3", "/sys/bus/usb/devices/1-2.3");
	RUN_UNTIL(says(id, "usb_address", "1:9"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_plugging),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
