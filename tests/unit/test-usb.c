/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "usb": which devices meet the conditions, their names in any order of plugging, their
 * nodes, and devices that are several together. complaints.md: W3, W4, M2, M3.
 */
#include "explained-fixture.h"
#include "usb-fixture.h"

static void test_conditions(void **state)
{
	static const struct {
		const char *conditions, *ids;
	} cases[] = {
		{ "vendor = 0x0951;", "usb-0951-1666-E0D55E6C " },
		{ "vendor = [ 0x0951, 0x403 ];", "usb-0951-1666-E0D55E6C usb-0403-6001-A9 " },
		{ "vendor = 0x0951; product = 0x1667;", "" },
		{ "vendor = 0x0951; product = [ 1, 0x1666 ];", "usb-0951-1666-E0D55E6C " },
		{ "serial = \"E0*\";", "usb-0951-1666-E0D55E6C " },
		{ "serial = ( \"A?\", \"E0*\" ); vendor = 0x403;", "usb-0403-6001-A9 " },
		{ "serial = \"*\"; vendor = 0x046d;", "" },
		{ "manufacturer = \"King*\"; product_name = \"Data*\";",
			"usb-0951-1666-E0D55E6C " },
		{ "manufacturer = \"King\";", "" },
		{ "port = \"*:2.?\";", "usb-0000:00:14.0-0:2.1 usb-0403-6001-A9 " },
		{ "interface_class = 14;", "usb-0000:00:14.0-0:2.1 " },
		{ "interface_class = [ 1, 8 ];", "usb-0951-1666-E0D55E6C usb-0000:00:14.0-0:2.1 " },
		{ "class = 9;", "usb-0000:00:14.0-0:2 " },
		{ "vendor = 0x05e3;", "" }, /* the hub */
		{ "port = \"*\"; identity = \"port\";",
			"usb-0000:00:14.0-0:1 usb-0000:00:14.0-0:2.1 usb-0000:00:14.0-0:2.3 " },
		{ "attributes = ( { file = \"idVendor\"; is = \"046d\"; } );",
			"usb-0000:00:14.0-0:2.1 " },
	};

	expect_found(USB("vendor = 0x0951;"), "");
	make_devices();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text, USB("%s"), cases[i].conditions) > 0);
		expect_found(text, cases[i].ids);
	}
	/* What two entries want, the first gets. */
	expect_found("driver = \"usb\"; match = ( { vendor = 0x951; }, { interface_class = 8; } );",
		"usb-0951-1666-E0D55E6C ");
	assert_int_equal(scan.notes.count, 0);
}

static void test_nodes_and_variables(void **state)
{
	static const char stick[] = "usb-0951-1666-E0D55E6C", camera[] = "usb-0000:00:14.0-0:2.1";

	make_devices();
	list(USB("port = \"*\";"));
	expect_nodes(stick, "/dev/bus/usb/001/003 /dev/sdb /dev/sdb1 ");
	expect_nodes(camera, "/dev/bus/usb/001/004 /dev/video0 /dev/video1 ");
	expect_variable(stick, "usb_address", "1:3");
	expect_variable(stick, "bus", "1");
	expect_variable(stick, "devnum", "3");
	expect_variable(stick, "port", "0000:00:14.0-0:1");
	expect_variable(stick, "serial", "E0D55E6C");
	expect_variable(stick, "vendor", "0951");
	expect_variable(stick, "product", "1666");
	expect_variable(stick, "manufacturer", "Kingston");
	expect_variable(stick, "product_name", "DataTraveler 3.0");
	expect_variable(stick, "block", "/dev/sdb");
	expect_variable(stick, "tty", NULL);
	expect_variable(camera, "serial", NULL);
	expect_variable(camera, "video", "/dev/video0");
	expect_variable("usb-0403-6001-A9", "tty", "/dev/ttyUSB0");
	assert_int_equal(found(stick)->n_numa, 1);

	list(USB("port = \"*\"; nodes = \"usb\"; permissions = \"r\";"));
	expect_nodes(stick, "/dev/bus/usb/001/003 ");
	assert_string_equal(found(stick)->nodes[0].permissions, "r");
	expect_found(USB("port = \"*\"; nodes = ( \"tty\", \"video*\" );"),
		"usb-0000:00:14.0-0:2.1 usb-0403-6001-A9 ");
	expect_nodes(camera, "/dev/video0 /dev/video1 ");
	expect_nodes("usb-0403-6001-A9", "/dev/ttyUSB0 ");

	/* A hub's own node, and none of what is plugged into it. */
	list(USB("class = 9;"));
	expect_nodes("usb-0000:00:14.0-0:2", "/dev/bus/usb/001/002 ");
}

/* Two equal sticks are two devices, with the same names in any order. */
static void test_equal_devices(void **state)
{
	static const char match[] = USB("vendor = 0x0951;");

	make_hubs();
	plug("1-1", 3, "0951\n", "1666\n", "1\n");
	expect_found(match, "usb-0951-1666-1 ");
	plug("1-4", 4, "0951\n", "1666\n", "1\n");
	expect_found(match, "usb-0951-1666-1@" PORT(1) " usb-0951-1666-1@" PORT(4) " ");
	assert_int_equal(scan.notes.count, 2);
	assert_non_null(strstr(scan.notes.items[0], "includes its port"));
	/* The same number on another product is another device's. */
	plug("1-5", 5, "0951\n", "1667\n", "1\n");
	expect_found(
		match, "usb-0951-1666-1@" PORT(1) " usb-0951-1666-1@" PORT(4) " usb-0951-1667-1 ");
	/* One that no entry matches counts as well: it might be another resource's. */
	expect_found(USB("port = \"*:4\";"), "usb-0951-1666-1@" PORT(4) " ");
	expect_found(USB("vendor = 0x0951; identity = \"port\";"),
		"usb-" PORT(1) " usb-" PORT(4) " usb-" PORT(5) " ");
	assert_int_equal(scan.notes.count, 0);
	host_remove("/sys/bus/usb/devices/1-1");
	expect_found(match, "usb-0951-1666-1 usb-0951-1667-1 ");
	assert_string_equal(device_variable(scan.devices[0], "port"), PORT(4));
}

/* The number is new when it is plugged in again, the id is not. */
static void test_numbered_again(void **state)
{
	make_devices();
	list(USB("vendor = 0x0951;"));
	host_remove("/dev/bus/usb/001/003");
	write_number("1-1", 17);
	expect_found(USB("vendor = 0x0951;"), "usb-0951-1666-E0D55E6C ");
	expect_nodes("usb-0951-1666-E0D55E6C", "/dev/bus/usb/001/017 /dev/sdb /dev/sdb1 ");
	expect_variable("usb-0951-1666-E0D55E6C", "usb_address", "1:17");
}

/* Expects the problem of the only device that an entry finds; NULL: it has none. */
static void expect_problem_of(const char *keys, const char *problem)
{
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, USB("%s"), keys) > 0);
	list(text);
	assert_int_equal(scan.n_devices, 1);
	if (!problem)
		assert_null(scan.devices[0]->problem);
	else if (!scan.devices[0]->problem)
		fail_msg("%s finds a device without a problem", keys);
	else
		assert_string_equal(scan.devices[0]->problem, problem);
}

/* A device without the nodes that a container is to get. */
static void test_missing_nodes(void **state)
{
	static const char no_tty[] = "it has no tty node: load its driver";

	make_devices();
	expect_problem_of("vendor = 0x0951; nodes = \"tty\";", no_tty);
	expect_problem_of("vendor = 0x0951; nodes = ( \"tty\", \"video4linux\" );",
		"it has no tty or video4linux node: load its driver");
	expect_problem_of("vendor = 0x0951; nodes = ( \"tty\", \"block\" );", NULL);
	/* No node is asked for. */
	expect_problem_of("vendor = 0x0951; nodes = \"none\";", NULL);
	expect_nodes("usb-0951-1666-E0D55E6C", "");
	/* The entry names the device in any of these ways. */
	expect_problem_of("serial = \"E0*\"; nodes = \"tty\";", no_tty);
	expect_problem_of("manufacturer = \"King*\"; nodes = \"tty\";", no_tty);
	expect_problem_of("product_name = \"Data*\"; nodes = \"tty\";", no_tty);
	expect_problem_of("interface_class = 8; nodes = \"tty\";", no_tty);
	expect_problem_of("class = 9; nodes = \"tty\";", no_tty);
	expect_problem_of(
		"attributes = ( { file = \"idVendor\"; is = \"0951\"; } ); nodes = \"tty\";",
		no_tty);
	expect_problem_of("port = \"0000:00:14.0-0:1\"; nodes = \"tty\";", no_tty);
	/* Several devices together. */
	expect_problem_of(
		"devices = ( { vendor = 0x0951; }, { vendor = 0x046d; } ); nodes = \"tty\";",
		no_tty);
	expect_problem_of(
		"devices = ( { vendor = 0x0951; }, { vendor = 0x0403; } ); nodes = \"tty\";", NULL);
	/* Its own uevent file has no node, either. */
	usb_write("1-1", "uevent", "DEVTYPE=usb_device\n");
	expect_problem_of(
		"vendor = 0x0951; nodes = \"usb\";", "it has no usb node: load its driver");
	host_rename("/sys/devices/" HUB "/1-1/1-1:1.0", "/sys/devices/away");
	expect_problem_of("vendor = 0x0951;", "it has no node: load its driver");
}

/* An entry that names no device selects by the nodes: every serial adapter, every camera. */
static void test_nodes_as_a_condition(void **state)
{
	make_devices();
	expect_found(USB("port = \"*\"; nodes = \"tty\";"), "usb-0403-6001-A9 ");
	expect_found(USB("port = \"0000:00:14.0-0:*\"; nodes = \"tty\";"), "usb-0403-6001-A9 ");
	expect_found(USB("port = \"*\"; nodes = \"video4linux\"; identity = \"port\";"),
		"usb-0000:00:14.0-0:2.1 ");
	expect_found(USB("port = \"*\"; nodes = ( \"tty\", \"block\" );"),
		"usb-0951-1666-E0D55E6C usb-0403-6001-A9 ");
	expect_found(
		"driver = \"usb\"; match = ( { port = \"*\"; nodes = \"tty\"; }, { port = \"*\"; "
		"nodes = \"usb\"; } );",
		"usb-0403-6001-A9 usb-0951-1666-E0D55E6C usb-0000:00:14.0-0:2.1 ");
	expect_explained(USB("port = \"*\"; nodes = \"hidraw\";"),
		"match[0]: 4 USB devices, none left: class refused 1 (1-2 is a hub), nodes refused 3 (1-1 has "
		"no hidraw node)\n");
	/* A hub's node is its own, not that of a device in one of its ports. */
	expect_found(USB("class = 9; port = \"*\"; nodes = \"usb\";"), "usb-0000:00:14.0-0:2 ");
}

/* A node is handed out by the link that follows the device, under the kernel's name. */
static void test_links(void **state)
{
	static const char id[] = "usb-0403-6001-A9", port_id[] = "usb-0000:00:14.0-0:2.3";
	char path[200], directory[320];

	make_devices();
	usb_path("1-2.3", path);
	(void)snprintf(directory, sizeof(directory), "%s/1-2.3:1.0/ttyUSB0/tty/ttyUSB0", path);
	sys_write(directory, "dev", "188:0\n");
	host_mkdir("/run/udev/data");
	host_write("/run/udev/data/c188:0",
		"S:serial/by-path/pci-0\nS:serial/by-id/usb-A9\nS:serial/by-id/absent\nS:serial/by-id/../../ttyUSB0\nE:A=B\n");
	host_mkdir("/dev/serial/by-id");
	host_mkdir("/dev/serial/by-path");
	host_symlink("../../ttyUSB0", "/dev/serial/by-id/usb-A9");
	host_symlink("../../ttyUSB0", "/dev/serial/by-path/pci-0");
	list(USB("vendor = 0x0403; nodes = \"tty\";"));
	expect_nodes(id, "/dev/serial/by-id/usb-A9>/dev/ttyUSB0 ");
	expect_variable(id, "tty", "/dev/ttyUSB0");
	list(USB("vendor = 0x0403; nodes = \"tty\"; identity = \"port\";"));
	expect_nodes(port_id, "/dev/serial/by-path/pci-0>/dev/ttyUSB0 ");
	/* One that leads to another device by now is invalid. */
	host_remove("/dev/serial/by-id/usb-A9");
	host_symlink("../../video0", "/dev/serial/by-id/usb-A9");
	list(USB("vendor = 0x0403; nodes = \"tty\";"));
	expect_nodes(id, "/dev/serial/by-path/pci-0>/dev/ttyUSB0 ");
	host_remove("/dev/serial/by-path/pci-0");
	list(USB("vendor = 0x0403; nodes = \"tty\";"));
	expect_nodes(id, "/dev/ttyUSB0 ");
}

/* As KubeVirt groups them. */
static void test_together(void **state)
{
	static const char match[] =
		USB("devices = ( { vendor = 0x46f4; }, { vendor = 0x951; } ); nodes = \"usb\";");

	make_hubs();
	plug("1-1", 3, "46f4\n", "0001\n", "a\n");
	plug("1-3", 4, "46f4\n", "0001\n", "b\n");
	expect_found(match, "");
	plug("1-4", 5, "0951\n", "1666\n", "c\n");
	expect_found(match, "usb-46f4-0001-a+usb-0951-1666-c ");
	expect_nodes(
		"usb-46f4-0001-a+usb-0951-1666-c", "/dev/bus/usb/001/003 /dev/bus/usb/001/005 ");
	expect_variable("usb-46f4-0001-a+usb-0951-1666-c", "usb_address", "1:3,1:5");
	plug("1-5", 6, "0951\n", "1666\n", NULL);
	expect_found(
		match, "usb-46f4-0001-a+usb-0951-1666-c usb-46f4-0001-b+usb-0000:00:14.0-0:5 ");
	expect_variable("usb-46f4-0001-b+usb-0000:00:14.0-0:5", "serial", NULL);
	/* What is left over is there for the next entry; the same condition twice is two. */
	host_remove("/sys/bus/usb/devices/1-5");
	expect_found("driver = \"usb\"; match = ( { devices = ( { vendor = 0x46f4; }, "
		     "{ vendor = 0x951; } ); }, { vendor = 0x46f4; } );",
		"usb-46f4-0001-a+usb-0951-1666-c usb-46f4-0001-b ");
	expect_found(USB("devices = ( { vendor = 0x46f4; }, { vendor = 0x46f4; } );"),
		"usb-46f4-0001-a+usb-46f4-0001-b ");
}

/* Each USB device is asked about, under any identity, and before it is joined. */
static void test_exclusions(void **state)
{
	make_hubs();
	plug("1-1", 3, "46f4\n", "0001\n", "a\n");
	plug("1-3", 4, "46f4\n", "0001\n", "b\n");
	plug("1-4", 5, "0951\n", "1666\n", "c\n");
	expect_found(
		USB("devices = ( { vendor = 0x46f4; }, { vendor = 0x951; } );") " exclude = ( { match = ( { serial = \"a\"; } ); } );",
		"usb-46f4-0001-b+usb-0951-1666-c ");
	expect_found(
		USB("vendor = 0x46f4; identity = \"port\";") " exclude = ( { match = ( { serial = \"a\"; } ); } );",
		"usb-0000:00:14.0-0:3 ");
	expect_found(
		USB("port = \"*\";") " exclude = ( { match = ( { devices = ( { serial = \"c\"; }, { serial = \"b\"; } ); } ); } );",
		"usb-46f4-0001-a ");
	/* Hubs are left out unless an entry asks for their class, but not in `exclude`. */
	expect_found(USB("class = 9;"), "usb-0000:00:14.0-0:2 ");
	expect_found(USB("class = 9;") " exclude = ( { match = ( { vendor = 0x05e3; } ); } );", "");
	expect_explained(
		USB("vendor = 0x951;") " exclude = ( { match = ( { serial = \"C\"; } ); } );",
		"exclude[0].match[0] leaves out none of 1 USB device: serial refused 1 (1-4 has \"c\": write that)\n");
}

static void test_unusable(void **state)
{
	make_devices();
	usb_write("1-1", "authorized", "0\n");
	list(USB("vendor = 0x0951;"));
	assert_non_null(strstr(scan.devices[0]->problem, "it is not authorised"));
	usb_write("1-1", "authorized", "1\n");
	list(USB("vendor = 0x0951;"));
	assert_null(scan.devices[0]->problem);
}

static void test_hostile(void **state)
{
	_cleanup_free_ char *large = malloc(1 << 20);
	char id[DEVICE_ID_MAX + 1];

	assert_non_null(large);
	memset(large, 'x', (1 << 20) - 1);
	large[(1 << 20) - 1] = '\0';
	make_hubs();
	plug("1-1", 3, "0951\n", "1666\n", "a/../b c\t\"$(x)\n");
	plug("1-3", 4, "0951\n", "1666\n", "\001\002\n");
	plug("1-4", 5, "0951\n", "1666\n", large);
	plug("1-5", 6, "0951\n", "1666\n", "\xff\xfe\n");
	plug("1-6", 7, "951g\n", "1666\n", NULL);
	plug("1-7", 8, "", "1666\n", NULL);
	plug("1-8", 9, "0951\n", "1666\n", "\n");
	host_symlink("1-9", "/sys/bus/usb/devices/1-9");
	host_symlink("../../../../dev", "/sys/bus/usb/devices/1-10");
	list(USB("port = \"*\"; nodes = \"usb\";"));
	assert_int_equal(scan.n_devices, 5);
	(void)strcpy(id, scan.devices[0]->id);
	/* A tab is a control character. */
	assert_string_equal(id, "usb-0000:00:14.0-0:1");
	for (size_t i = 1; i < 5; i++)
		assert_true(strncmp(scan.devices[i]->id, "usb-0000:00:14.0-0:", 19) == 0);
	/* The strings of a device are the same until it is plugged in again. */
	usb_write("1-1", "serial", "a/../b c\"$(x)\n");
	write_number("1-1", 10);
	list(USB("port = \"*:1\";"));
	assert_true(strncmp(scan.devices[0]->id, "usb-0951-1666-a-..-b-c---x--", 28) == 0);
	write_number("1-1", 11);
	usb_write("1-1", "serial",
		"0123456789012345678901234567890123456789012345678901234567890123456789\n");
	list(USB("port = \"*:1\";"));
	assert_int_equal(strlen(scan.devices[0]->id), DEVICE_ID_MAX);
}

static void expect_problem(const char *match, const char *expected)
{
	_cleanup_free_ char *text = NULL, *problem = NULL;

	assert_true(asprintf(&text, "driver = \"usb\"; %s", match) > 0);
	problem = declare_problem(text);
	if (!strstr(problem, expected))
		fail_msg("\"%s\" is not in: %s", expected, problem);
}

static void test_check(void **state)
{
	expect_problem("match = ( { } );", "matches every USB device");
	expect_problem("match = ( { nodes = \"usb\"; } );", "matches every USB device");
	expect_problem("match = ( { devices = ( { } ); } );", "matches every USB device");
	expect_problem("match = ( { vendor = 1; devices = ( { vendor = 1; } ); } );",
		"set the conditions in each of the \"devices\"");
	expect_problem("match = ( { vendor = 0x10000; } );", "must be from 0 to 65535");
	expect_problem("match = ( { vendor = \"046d\"; } );", "not the string");
	expect_problem("match = ( { class = 256; } );", "must be from 0 to 255");
	expect_problem("match = ( { port = \"1-1.4\"; } );",
		"match[0].port: must be a controller, the number of its root hub, and ports");
	expect_problem("match = ( { port = \"0000:00:14.0\"; } );", "must be a controller");
	expect_problem("match = ( { port = \"0000:00:14.0-0:\"; } );", "must be a controller");
	expect_problem("match = ( { port = \"0000:00:14.0-:1\"; } );", "must be a controller");
	config = declare("driver = \"usb\"; match = ( { port = ( \"0000:00:14.0-0:1.4\", "
			 "\"xhci-hcd.0.auto-1:2\", \"*:4\" ); } );");
	expect_problem("match = ( { vendor = 1; identity = \"prt\"; } );", "did you mean \"port\"");
	expect_problem("match = ( { vendor = 1; attributes = ( { is = \"x\"; } ); } );", "neither");
	expect_problem(
		"match = ( { devices = ( { attributes = ( { is = \"x\"; } ); } ); } );", "neither");
	expect_problem("match = ( { product = 1; } );",
		"match[0].product: has no meaning without \"vendor\"");
}

/* The message names the entry among several. */
static void test_check_names_the_entry(void **state)
{
	expect_problem(
		"match = ( { port = \"*\"; }, { devices = ( { vendor = 1; }, { product = 1; } ); } );",
		"match[1].devices[1].product: has no meaning");
	expect_problem("match = ( { devices = ( { vendor = 1; }, { } ); } );",
		"match[0].devices[1]: an entry without a condition");
	expect_problem("match = ( { vendor = 1; attributes = ( \"a\", { is = \"x\"; } ); } );",
		"match[0].attributes[1]: an entry has either");
	expect_problem(
		"match = ( { devices = ( { vendor = 1; }, { attributes = ( \"a\", { file = \"b\"; "
		"is = \"x\"; exists = false; } ); } ); } );",
		"match[0].devices[1].attributes[1].exists: an absent file");
}

/* Why entries find nothing. */
static void test_explanations(void **state)
{
	host_mkdir("/sys");
	expect_explained("driver = \"usb\"; match = ( { vendor = 0x0403; } );",
		"match[0]: the host has no USB device\n");
	plug("1-2", 5, "0403\n", "6001\n", "A1");
	plug("1-3", 6, "1a86\n", "7523\n", NULL);
	expect_explained("driver = \"usb\"; match = ( { vendor = 403; product = 6001; } );",
		"match[0]: 2 USB devices, none left: vendor refused 2 (1-2 has 0x0403: write 0x)\n");
	expect_explained("driver = \"usb\"; match = ( { vendor = 0x0403; product = 6001; } );",
		"match[0]: 2 USB devices, none left: vendor refused 1 (1-3 has 0x1a86), product refused 1 (1-2 "
		"has 0x6001: write 0x)\n");
	expect_explained("driver = \"usb\"; match = ( { vendor = 0x0403; serial = \"a1?\"; } );",
		"match[0]: 2 USB devices, none left: vendor refused 1 (1-3 has 0x1a86), serial refused 1 (1-2 "
		"has \"A1\")\n");
	expect_explained("driver = \"usb\"; match = ( { vendor = 0x1a86; serial = \"*\"; } );",
		"match[0]: 2 USB devices, none left: vendor refused 1 (1-2 has 0x0403), serial refused 1 (1-3 "
		"has none)\n");
	expect_explained("driver = \"usb\"; match = ( { interface_class = 14; } );",
		"match[0]: 2 USB devices, none left: interface_class refused 2 (1-2 has no interface of that "
		"class)\n");
	expect_explained(
		"driver = \"usb\"; match = ( { devices = ( { vendor = 0x0403; }, { vendor = 0x1a87; } ); } );",
		"match[0].devices[1]: 1 USB device, none left: vendor refused 1 (1-3 has 0x1a86)\n");
	expect_explained(
		"driver = \"usb\"; match = ( { devices = ( { vendor = 0x0403; }, { vendor = 0x1a86; } ); } );",
		"");
	expect_explained("driver = \"usb\"; match = ( { port = \"*\"; }, { vendor = 0x0403; } );",
		"match[1]: no earlier entry leaves a USB device\n");
}

/* Without udev's database, a link cannot be known. */
static void test_no_database(void **state)
{
	char path[200], directory[320];

	make_devices();
	usb_path("1-2.3", path);
	(void)snprintf(directory, sizeof(directory), "%s/1-2.3:1.0/ttyUSB0/tty/ttyUSB0", path);
	sys_write(directory, "dev", "188:0\n");
	host_remove("/run/udev/data");
	list(USB("vendor = 0x0403; nodes = \"tty\";"));
	expect_nodes("usb-0403-6001-A9", "/dev/ttyUSB0 ");
	assert_int_equal(scan.notes.count, 1);
	assert_non_null(
		strstr(scan.notes.items[0], " has no /run/udev/data, so nodes of USB devices"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_conditions),
		HOST_TEST(test_nodes_and_variables),
		HOST_TEST(test_equal_devices),
		HOST_TEST(test_numbered_again),
		HOST_TEST(test_missing_nodes),
		HOST_TEST(test_nodes_as_a_condition),
		HOST_TEST(test_links),
		HOST_TEST(test_together),
		HOST_TEST(test_exclusions),
		HOST_TEST(test_unusable),
		HOST_TEST(test_hostile),
		HOST_TEST(test_check),
		HOST_TEST(test_check_names_the_entry),
		HOST_TEST(test_explanations),
		HOST_TEST(test_no_database),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
