/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "usb" over time: a device whose files appear one by one, that is unplugged and plugged in
 * again, and the ids of equal devices meanwhile. complaints.md: M2.
 */
#include <sys/mman.h>

#include "usb-fixture.h"

#include "drivers/health/saved-state.h"

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
	/* Only the tree of /sys shows this one. */
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

#define ADAPTER    "usb-0403-6001-A9"
#define DRIVEN     "/sys/devices/" HUB "/1-2/1-2.3/1-2.3:1.0/ttyUSB0"
#define UNDRIVEN   "it has no tty node: load its driver"
#define IS(reason) (streq(reason_of(ADAPTER), reason))

/* The driver of the adapter is loaded, unbound and bound again. */
static void test_driver(void **state)
{
	make_hubs();
	plug("1-2.3", 5, "0403\n", "6001\n", "A9\n");
	add_interface("1-2.3", 0, "ff\n");
	start(USB("vendor = 0x0403; nodes = \"tty\";"));
	assert_true(IS(UNDRIVEN));
	add_child("1-2.3", 0, "tty", "ttyUSB0/tty/ttyUSB0");
	RUN_UNTIL(!*reason_of(ADAPTER));
	host_rename(DRIVEN, "/sys/devices/away");
	host_remove("/dev/ttyUSB0");
	RUN_UNTIL(IS(UNDRIVEN));
	host_node("/dev/ttyUSB0");
	host_rename("/sys/devices/away", DRIVEN);
	RUN_UNTIL(!*reason_of(ADAPTER));
}

/* An adapter that no entry names is one by its node. */
static void test_driver_of_any_adapter(void **state)
{
	static const char match[] = USB("port = \"*\"; nodes = \"tty\";");

	make_hubs();
	plug("1-2.3", 5, "0403\n", "6001\n", "A9\n");
	add_interface("1-2.3", 0, "ff\n");
	plug("1-4", 6, "046d\n", "c077\n", NULL);
	start(match);
	assert_string_equal(seen(), "");
	add_child("1-2.3", 0, "tty", "ttyUSB0/tty/ttyUSB0");
	RUN_UNTIL(streq(seen(), ADAPTER " "));
	/* It stays known. */
	host_rename(DRIVEN, "/sys/devices/away");
	host_remove("/dev/ttyUSB0");
	RUN_UNTIL(IS(UNDRIVEN));
	/* After a restart of the host as well, if a pod uses it. */
	start_booked(match, ADAPTER);
	assert_true(IS(UNDRIVEN));
	start(match);
	assert_string_equal(seen(), "");
}

/* Another device in the port of an adapter without a serial number is not the adapter. */
static void test_other_device_in_the_port(void **state)
{
	static const char id[] = "usb-0000:00:14.0-0:4";

	make_hubs();
	plug("1-4", 4, "1a86\n", "7523\n", NULL);
	add_interface("1-4", 0, "ff\n");
	add_child("1-4", 0, "tty", "ttyUSB0/tty/ttyUSB0");
	start(USB("port = \"*\"; nodes = \"tty\";"));
	assert_string_equal(seen(), "usb-0000:00:14.0-0:4 ");
	host_rename("/sys/devices/" HUB "/1-4/1-4:1.0/ttyUSB0", "/sys/devices/away");
	host_remove("/dev/ttyUSB0");
	usb_write("1-4", "idVendor", "046d\n");
	usb_write("1-4", "idProduct", "c077\n");
	RUN_UNTIL(!is_present(id));
}

#define FIRST "usb-0951-1666-1"

static void unplug(const char *name)
{
	char link[64];

	(void)snprintf(link, sizeof(link), "/sys/bus/usb/devices/%s", name);
	host_remove(link);
}

static void plug_back(const char *name, int number)
{
	char target[100], link[64];

	write_number(name, number);
	(void)snprintf(target, sizeof(target), "../../../devices/" HUB "/%s", name);
	(void)snprintf(link, sizeof(link), "/sys/bus/usb/devices/%s", name);
	host_symlink(target, link);
}

/* A device that a pod has keeps its name while others are plugged in or out. */
static void test_names_stay(void **state)
{
	static const char match[] = USB("vendor = 0x0951;");

	make_hubs();
	plug("1-4", 4, "0951\n", "1666\n", "1\n");
	start(match);
	assert_true(says(FIRST, "port", PORT(4)));
	/* One at a lower port is not the first. */
	plug("1-1", 5, "0951\n", "1666\n", "1\n");
	RUN_UNTIL(says(FIRST "@" PORT(1), "port", PORT(1)));
	assert_true(says(FIRST, "port", PORT(4)));
	/* The first goes, and the other does not take its name. */
	unplug("1-4");
	RUN_UNTIL(says(FIRST, "port", NULL));
	assert_true(says(FIRST "@" PORT(1), "port", PORT(1)));
	/* It is back. */
	plug_back("1-4", 6);
	RUN_UNTIL(says(FIRST, "usb_address", "1:6"));
	assert_true(says(FIRST "@" PORT(1), "port", PORT(1)));
	/* A third that comes while the first is away is not taken for it. */
	unplug("1-4");
	RUN_UNTIL(says(FIRST, "port", NULL));
	plug("1-5", 7, "0951\n", "1666\n", "1\n");
	RUN_UNTIL(says(FIRST "@" PORT(5), "port", PORT(5)));
	assert_true(says(FIRST, "port", NULL));
}

/* The next process of the resource; it knows what the last one listed. */
static void restart(const char *text)
{
	struct saved_state *saved;
	struct error error;
	int fd = memfd_create("saved-state", MFD_CLOEXEC);

	assert_int_equal(inventory_write(inventory, 0, fd), 0);
	assert_int_equal(saved_state_read(fd, &saved), 0);
	(void)close(fd);
	inventory = inventory_free(inventory);
	config = config_free(config);
	config = declare(text);
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, NULL, NULL,
				 &inventory),
		0);
	inventory_restore(inventory, saved);
	assert_int_equal(inventory_restore_list(inventory), 0);
	if (inventory_start(inventory, &error) < 0)
		fail_msg("%s", error.message);
}

static void test_names_stay_over_restarts(void **state)
{
	static const char match[] = USB("vendor = 0x0951;");

	make_hubs();
	plug("1-4", 4, "0951\n", "1666\n", "1\n");
	start(match);
	plug("1-1", 5, "0951\n", "1666\n", "1\n");
	RUN_UNTIL(says(FIRST "@" PORT(1), "port", PORT(1)));
	restart(match);
	assert_true(says(FIRST, "port", PORT(4)));
	assert_true(says(FIRST "@" PORT(1), "port", PORT(1)));
	/* One that was plugged in between two scans has been there for less time. */
	host_mkdir("/sys/devices/" HUB "/1-4/power");
	usb_write("1-4", "power/connected_duration", "70000\n");
	plug("1-3", 6, "0951\n", "1666\n", "1\n");
	host_mkdir("/sys/devices/" HUB "/1-3/power");
	usb_write("1-3", "power/connected_duration", "9000\n");
	restart(match);
	assert_true(says(FIRST, "port", PORT(4)));
	assert_true(says(FIRST "@" PORT(3), "port", PORT(3)));
	/* The other is alone by now, and still called as before. */
	unplug("1-3");
	unplug("1-4");
	restart(match);
	assert_true(says(FIRST "@" PORT(1), "port", PORT(1)));
	assert_true(says(FIRST, "port", NULL));
	/* Another declaration assigns new names. */
	inventory = inventory_free(inventory);
	config = config_free(config);
	start(match);
	assert_true(says(FIRST, "port", PORT(1)));
}

/* After a boot nothing is listed, and a pod keeps the id that it has: the kubelet's bookings
 * decide, in any order of plugging. */
static void test_booked_names(void **state)
{
	static const char match[] = USB("vendor = 0x0951;");

	make_hubs();
	plug("1-4", 4, "0951\n", "1666\n", "1\n");
	plug("1-1", 5, "0951\n", "1666\n", "1\n");
	start_booked(match, FIRST "@" PORT(4) "\n" FIRST);
	assert_string_equal(seen(), FIRST " " FIRST "@" PORT(4) " ");
	assert_true(says(FIRST, "port", PORT(1)));
	/* The one that comes first is called as it is booked, and stays so. */
	unplug("1-1");
	start_booked(match, FIRST "@" PORT(4) "\n" FIRST);
	assert_string_equal(seen(), FIRST "@" PORT(4) " " FIRST "? ");
	plug_back("1-1", 6);
	RUN_UNTIL(says(FIRST, "usb_address", "1:6"));
	assert_true(says(FIRST "@" PORT(4), "port", PORT(4)));
	/* The oldest one is called after the number, if it is not booked otherwise. */
	host_mkdir("/sys/devices/" HUB "/1-1/power");
	host_mkdir("/sys/devices/" HUB "/1-4/power");
	usb_write("1-1", "power/connected_duration", "9000\n");
	usb_write("1-4", "power/connected_duration", "70000\n");
	start_booked(match, FIRST "#1");
	assert_true(says(FIRST, "port", PORT(4)));
	assert_true(says(FIRST "@" PORT(1), "port", PORT(1)));
	start_booked(match, FIRST "\n" FIRST "@" PORT(4) "#3");
	assert_true(says(FIRST, "port", PORT(1)));
	/* A booking that comes later renames no listed device. */
	unplug("1-4");
	start(match);
	assert_true(says(FIRST, "port", PORT(1)));
	assert_true(set_booked(inventory, FIRST "\n" FIRST "@" PORT(1), 0) >= 0);
	plug_back("1-4", 7);
	RUN_UNTIL(says(FIRST "@" PORT(4), "usb_address", "1:7"));
	assert_true(says(FIRST, "port", PORT(1)));
	assert_true(says(FIRST "@" PORT(1), "port", NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_plugging),
		HOST_TEST(test_driver),
		HOST_TEST(test_driver_of_any_adapter),
		HOST_TEST(test_other_device_in_the_port),
		HOST_TEST(test_names_stay),
		HOST_TEST(test_names_stay_over_restarts),
		HOST_TEST(test_booked_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
