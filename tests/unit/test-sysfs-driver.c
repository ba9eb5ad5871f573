/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "sysfs": which devices meet the conditions, what they are called, and their nodes.
 * complaints.md: W3.
 */
#include "explained-fixture.h"
#include "sysfs-driver-fixture.h"

static void test_accelerator(void **state)
{
	static const char match[] =
		"driver = \"sysfs\"; match = ( { subsystem = \"accel\"; name = \"accel[0-9]*\"; "
		"driver = \"intel_vpu\"; attributes = ( { file = \"device/vendor\"; is = \"0x8086\"; }, "
		"{ file = \"device/device\"; is = ( \"0x7e4c\", \"32029\" ); } ); } );";

	expect_found(match, "");
	make_npu();
	expect_found(match, "0000:00:0b.0:accel.0 ");
	expect_nodes("0000:00:0b.0:accel.0", "/dev/accel/accel0 ");
	expect_variable("0000:00:0b.0:accel.0", "bdf", "0000:00:0b.0");
	expect_variable("0000:00:0b.0:accel.0", "kernel_name", "accel0");
	expect_variable("0000:00:0b.0:accel.0", "subsystem", "accel");
	expect_variable("0000:00:0b.0:accel.0", "devpath", "/devices/" NPU "/accel/accel0");
	expect_variable("0000:00:0b.0:accel.0", "major", "261");
	expect_variable("0000:00:0b.0:accel.0", "minor", "0");
	expect_variable("0000:00:0b.0:accel.0", "serial", NULL);
	assert_int_equal(scan.devices[0]->n_numa, 1);
	assert_int_equal(scan.devices[0]->numa[0], 1);
	assert_null(scan.devices[0]->problem);
	/* The shorthand, and the same device by two entries. */
	expect_found(
		"driver = \"sysfs\"; match = ( \"accel\", \"accel\" );", "0000:00:0b.0:accel.0 ");
	assert_int_equal(scan.notes.count, 0);
}

static void test_rules(void **state)
{
	static const struct {
		const char *rule;
		bool holds;
	} cases[] = {
		{ "{ file = \"state\"; }", true },
		{ "\"state\"", true },
		{ "{ file = \"absent\"; }", false },
		{ "{ file = \"absent\"; exists = false; }", true },
		{ "{ file = \"state\"; exists = false; }", false },
		{ "{ file = \"state\"; is = \"enabled\"; }", true },
		{ "{ file = \"state\"; is = \"en*\"; }", true },
		{ "{ file = \"state\"; is = \"en\"; }", false },
		{ "{ file = \"state\"; is = ( \"disabled\", \"enabled\" ); }", true },
		{ "{ file = \"state\"; is_not = \"dis*\"; }", true },
		{ "{ file = \"state\"; is_not = ( \"x\", \"enabled\" ); }", false },
		{ "{ file = \"state\"; is = \"*\"; is_not = \"enabled\"; }", false },
		/* What is not there is not that value, unless it must be there. */
		{ "{ file = \"absent\"; is_not = \"x\"; }", true },
		{ "{ file = \"absent\"; is = \"*\"; is_not = \"x\"; }", false },
		{ "{ property = \"ABSENT\"; is_not = \"x\"; }", true },
		{ "{ file = \"number\"; is = \"16\"; }", true },
		{ "{ file = \"number\"; is = \"0x10\"; }", true },
		{ "{ file = \"number\"; is = \"0X010\"; }", true },
		{ "{ file = \"number\"; is = \"0x11\"; }", false },
		{ "{ file = \"number\"; is = \"10\"; }", false },
		{ "{ file = \"number\"; is_not = \"16\"; }", false },
		{ "{ file = \"state\"; is = \"0\"; }", false },
		{ "{ file = \"power/control\"; is = \"auto\"; }", true },
		/* A directory is there. */
		{ "{ file = \"power\"; }", true },
		{ "{ file = \"power\"; exists = false; }", false },
		{ "{ property = \"DEVTYPE\"; is = \"idxd_wq\"; }", true },
		{ "{ property = \"MODEL\"; is = \"queue 1\"; }", true },
		{ "{ property = \"MODE\"; }", false },
		{ "{ property = \"TAGS\"; is = \"*:seat:*\"; }", true },
		{ "{ property = \"TAGS\"; is = \"*:eat:*\"; }", false },
		{ "{ file = \"state\"; }, { file = \"absent\"; }", false },
		/* A pattern is about all files that match it, at least one. */
		{ "{ file = \"rom*/VBNV\"; }", true },
		{ "{ file = \"rom*/VBNV\"; exists = false; }", false },
		{ "{ file = \"rom*/absent\"; exists = false; }", true },
		{ "{ file = \"rom*/VBNV\"; is = \"shell-?\"; }", true },
		{ "{ file = \"r?m.[01]/VBN*\"; is = \"shell-2\"; }", true },
		{ "{ file = \"rom*/VBNV\"; is = \"shell-3\"; }", false },
		{ "{ file = \"rom*/VBNV\"; is_not = \"shell-2\"; }", false },
		{ "{ file = \"rom*/VBNV\"; is_not = \"shell-3\"; }", true },
		{ "{ file = \"mor*/VBNV\"; is_not = \"shell-3\"; }", true },
	};

	make_queue(0, "enabled\n", "user\n", "shared\n");
	sys_write(DSA "/dsa0/wq0.0", "number", "0x10\n");
	host_mkdir("/sys/devices/" DSA "/dsa0/wq0.0/power");
	sys_write(DSA "/dsa0/wq0.0", "power/control", "auto\n");
	host_mkdir("/sys/devices/" DSA "/dsa0/wq0.0/rom.0");
	host_mkdir("/sys/devices/" DSA "/dsa0/wq0.0/rom.1");
	host_mkdir("/sys/devices/" DSA "/dsa0/wq0.0/rom.2");
	sys_write(DSA "/dsa0/wq0.0", "rom.0/VBNV", "shell-1\n");
	sys_write(DSA "/dsa0/wq0.0", "rom.1/VBNV", "shell-2\n");
	host_mkdir("/run/udev/data");
	host_write("/run/udev/data/+dsa:wq0.0",
		"I:123\nE:MODELL=other\nE:MODEL=queue 1\nG:seat\nG:systemd\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text,
				    "driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; "
				    "attributes = ( %s ); } );",
				    cases[i].rule) > 0);
		list(text);
		if (scan.n_devices != (cases[i].holds ? 1 : 0))
			fail_msg("%s: %zu devices", cases[i].rule, scan.n_devices);
	}
}

static void test_own_conditions(void **state)
{
	sys_device(DSA, "bus/pci", "");
	sys_device(DSA "/dsa0", "bus/dsa", "");
	make_queue(0, "enabled\n", "user\n", "shared\n");
	make_queue(1, "disabled\n", "user\n", "shared\n");
	expect_found(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; devtype = \"idxd_*\"; } );",
		"0000:6a:01.0:dsa.0:wq.0 0000:6a:01.0:dsa.0:wq.1 ");
	expect_found(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; devtype = \"disk\"; } );",
		"");
	expect_found("driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; "
		     "name = ( \"x\", \"*.1\" ); } );",
		"0000:6a:01.0:dsa.0:wq.1 ");
	expect_found("driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; "
		     "path = \"*/0000:6a:01.0/*.0\"; } );",
		"0000:6a:01.0:dsa.0:wq.0 ");
	expect_found(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; driver = \"*\"; } );", "");
	expect_found("driver = \"sysfs\"; match = ( \"none\" );", "");
}

/* Work queues as Intel's plugin serves them. */
static void test_queue_nodes(void **state)
{
	char path[512];

	sys_device(DSA, "bus/pci", "");
	sys_device(DSA "/dsa0", "bus/dsa", "");
	make_queue(0, "enabled\n", "user\n", "shared\n");
	make_queue(3, "enabled\n", "user\n", "dedicated\n");
	host_remove("/dev/dsa/wq0.0");
	host_remove("/dev/dsa/wq0.3");
	host_touch("/dev/dsa/wq0.3");
	host_path(path, "/dev/dsa/wq0.0");
	if (mknod(path, S_IFCHR | 0600, makedev(240, 5)) < 0)
		skip();
	host_mkdir("/dev/char");
	host_symlink("../dsa/wq0.0", "/dev/char/240:5");
	list("driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; name = \"wq*\"; permissions = "
	     "\"rwm\"; "
	     "nodes = ( \"/dev/dsa/${kernel_name}\", \"/dev/char/${major}:${minor}\", "
	     "\"?/dev/none/${kernel_name}\", \"?/dev/${attr:absent}\" ); } );");
	assert_int_equal(scan.n_devices, 2);
	expect_nodes("0000:6a:01.0:dsa.0:wq.0", "/dev/dsa/wq0.0 /dev/char/240:5 ");
	assert_string_equal(scan.devices[0]->nodes[0].permissions, "rwm");
	assert_null(scan.devices[0]->problem);
	/* The other's node is no device, so that there is no number. */
	assert_string_equal(scan.devices[1]->problem,
		"its node /dev/dsa/wq0.3 is not a device node: remove it and load its driver");

	list("driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; name = \"wq*\"; "
	     "nodes = \"/dev/absent/${kernel_name}\"; } );");
	assert_string_equal(scan.devices[0]->problem, "its node /dev/absent/wq0.0 is missing");
}

/* Nodes of devices below it, which its driver makes. */
static void test_no_child_nodes(void **state)
{
	static const char match[] =
		"driver = \"sysfs\"; match = ( { subsystem = \"fpga_region\"; child_nodes = true; } );";

	sys_device("pci0000:00/0000:03:00.0/fpga_region/region0", "class/fpga_region", "");
	list(match);
	assert_string_equal(scan.devices[0]->problem,
		"neither it nor a device below it has a node: load its driver");
	sys_device("pci0000:00/0000:03:00.0/fpga_region/region0/dfl-port.0", "bus/platform",
		"DEVNAME=dfl-port.0\n");
	host_node("/dev/dfl-port.0");
	list(match);
	assert_null(scan.devices[0]->problem);
	/* No node is asked for. */
	list("driver = \"sysfs\"; match = ( { subsystem = \"fpga_region\"; } );");
	assert_null(scan.devices[0]->problem);
}

static void test_parents(void **state)
{
	static const char match[] =
		"driver = \"sysfs\"; match = ( { subsystem = \"tty\"; id = \"${serial}\"; parents = ( "
		"{ subsystem = \"usb\"; attributes = ( { file = \"idVendor\"; is = \"%s\"; }, "
		"{ file = \"serial\"; is = \"A*\"; } ); }, { name = \"%s\"; } ); } );";
	static const struct {
		const char *vendor, *above, *ids;
	} cases[] = {
		{ "0403", "usb*", "A1 " },
		{ "0404", "usb*", "" },
		{ "0403", "ttyUSB*", "" }, /* not itself */
		{ "0403", "pci*", "" },
	};

	sys_device("pci0000:00/0000:00:14.0", "bus/pci", "");
	sys_device("pci0000:00/0000:00:14.0/usb1", "bus/usb", "DEVTYPE=usb_device\n");
	make_serial_port("1-1", "ttyUSB0", "A1\n");
	make_serial_port("1-2", "ttyUSB1", "B1\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text, match, cases[i].vendor, cases[i].above) > 0);
		expect_found(text, cases[i].ids);
	}
	/* Both conditions hold above it, but not for one device. */
	expect_found("driver = \"sysfs\"; match = ( { subsystem = \"tty\"; parents = ( "
		     "{ subsystem = \"pci\"; attributes = \"serial\"; } ); } );",
		"");
	list("driver = \"sysfs\"; match = ( { subsystem = \"tty\"; name = \"ttyUSB1\"; } );");
	assert_string_equal(device_variable(scan.devices[0], "serial"), "B1");
}

static void test_children(void **state)
{
	sys_device("pci0000:00/0000:00:14.0", "bus/pci", "");
	sys_device("pci0000:00/0000:00:14.0/usb1", "bus/usb", "DEVTYPE=usb_device\n");
	make_serial_port("1-1", "ttyUSB0", "A1\n");
	make_serial_port("1-2", "ttyACM0", "B1\n");
	host_node("/dev/bus/usb/001/002");
	sys_write("pci0000:00/0000:00:14.0/usb1/1-1", "uevent",
		"DEVTYPE=usb_device\nDEVNAME=bus/usb/001/002\n");
	expect_found(
		"driver = \"sysfs\"; match = ( { subsystem = \"usb\"; devtype = \"usb_device\"; name = \"[0-9]*\"; "
		"children = ( { subsystem = \"tty\"; name = \"ttyUSB*\"; } ); child_nodes = "
		"true; } );",
		"usb-0000:00:14.0-0:1 ");
	expect_nodes("usb-0000:00:14.0-0:1", "/dev/bus/usb/001/002 /dev/ttyUSB0 ");
	expect_found(
		"driver = \"sysfs\"; match = ( { subsystem = \"usb\"; devtype = \"usb_device\"; name = \"[0-9]*\"; "
		"children = ( \"tty\", \"block\" ); } );",
		"");
}

static void test_group(void **state)
{
	make_npu();
	sys_device(NPU "/accel/accel1", "class/accel", "DEVNAME=accel/accel1\n");
	host_node("/dev/accel/accel1");
	sys_device("virtual/accel/fake", "class/accel", "");
	expect_found(
		"driver = \"sysfs\"; match = ( { subsystem = \"accel\"; group = \"parent\"; } );",
		"0000:00:0b.0 accel:fake ");
	expect_nodes("0000:00:0b.0", "/dev/accel/accel0 /dev/accel/accel1 ");
	expect_variable("0000:00:0b.0", "kernel_name", "0000:00:0b.0");
}

/* Each device is asked about, before several become one. */
static void test_exclusions(void **state)
{
	static const char group[] =
		"driver = \"sysfs\"; match = ( { subsystem = \"accel\"; group = \"parent\"; } ); "
		"exclude = ( { match = ( { subsystem = \"accel\"; name = \"accel1\"; }, \"drm\" ); } );";

	make_npu();
	sys_device(NPU "/accel/accel1", "class/accel", "DEVNAME=accel/accel1\n");
	host_node("/dev/accel/accel1");
	expect_found(group, "0000:00:0b.0 ");
	expect_nodes("0000:00:0b.0", "/dev/accel/accel0 ");
	expect_explained(group,
		"exclude[0].match[1] leaves out none of 2 devices: subsystem refused 2 (accel0 has \"accel\")\n");
	expect_found(
		"driver = \"sysfs\"; match = ( { subsystem = \"accel\"; id = \"${kernel_name}\"; } ); "
		"exclude = ( { match = \"a*\"; } );",
		"");
	/* A device that two entries select counts once. */
	expect_explained(
		"driver = \"sysfs\"; match = ( { subsystem = \"accel\"; name = \"accel0\"; }, \"accel\" ); "
		"exclude = ( { match = \"accel\"; } );",
		"exclude[0].match[0] leaves out 2 devices, so that no device is left\n");
}

/* Devices with the same values never become one, in any order. */
static void test_ids(void **state)
{
	static const char match[] = "driver = \"sysfs\"; match = ( { subsystem = \"tty\"; id = "
				    "\"port-${serial}\"; } );";
	char hostile[DEVICE_ID_MAX + 1];

	sys_device("pci0000:00/0000:00:14.0", "bus/pci", "");
	sys_device("pci0000:00/0000:00:14.0/usb1", "bus/usb", "DEVTYPE=usb_device\n");
	make_serial_port("1-1", "ttyUSB0", "same\n");
	make_serial_port("1-3", "ttyUSB2", "other\n");
	expect_found(match, "port-same port-other ");
	make_serial_port("1-2", "ttyUSB1", "same\n");
	expect_found(match,
		"usb-0000:00:14.0-0:1:1.0:ttyUSB.0 usb-0000:00:14.0-0:2:1.0:ttyUSB.0 "
		"port-other ");
	assert_int_equal(scan.notes.count, 2);
	assert_non_null(strstr(scan.notes.items[0], "because several devices would be port-same"));

	/* One that has none is called after its place. */
	host_remove("/sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/serial");
	expect_found(match, "port-same usb-0000:00:14.0-0:2:1.0:ttyUSB.0 port-other ");
	assert_non_null(strstr(scan.notes.items[0], "${serial}"));

	/* Any bytes: an id is of harmless ones, the same each time, and another for another. */
	sys_write("pci0000:00/0000:00:14.0/usb1/1-2", "serial", "a b/../$(c)\n");
	list(match);
	(void)strcpy(hostile, scan.devices[1]->id);
	assert_true(strncmp(hostile, "port-a-b-..---c--", 17) == 0);
	list(match);
	assert_string_equal(scan.devices[1]->id, hostile);
	sys_write("pci0000:00/0000:00:14.0/usb1/1-2", "serial", "a\001b\n");
	expect_found(match, "port-same usb-0000:00:14.0-0:2:1.0:ttyUSB.0 port-other ");
}

static void expect_problem(const char *match, const char *expected)
{
	_cleanup_free_ char *text = NULL, *problem = NULL;

	assert_true(asprintf(&text, "driver = \"sysfs\"; match = ( %s );", match) > 0);
	problem = declare_problem(text);
	if (!strstr(problem, expected))
		fail_msg("\"%s\" is not in: %s", expected, problem);
}

static void test_check(void **state)
{
	expect_problem("{ name = \"x\"; }", "subsystem");
	expect_problem("\"../x\"", "must be a directory of /sys/class or /sys/bus");
	expect_problem("{ subsystem = \"a\"; attributes = ( { is = \"1\"; } ); }", "has neither");
	expect_problem(
		"{ subsystem = \"a\"; attributes = ( { file = \"f\"; property = \"P\"; } ); }",
		"has both");
	expect_problem("{ subsystem = \"a\"; attributes = ( { file = \"f\"; exists = false; is = "
		       "\"1\"; } ); }",
		"has no value");
	expect_problem(
		"{ subsystem = \"a\"; attributes = \"/etc/shadow\"; }", "not \"/etc/shadow\"");
	expect_problem("{ subsystem = \"a\"; attributes = \"a/../b\"; }", "\"..\"");
	expect_problem("{ subsystem = \"a\"; parents = ( { } ); }", "without a condition");
	expect_problem("{ subsystem = \"a\"; not = ( { } ); }", "match[0].not[0]: an entry");
	expect_problem(
		"{ subsystem = \"a\"; not = ( { name = \"x\"; exists = false; } ); }", "exists");
	expect_problem(
		"{ subsystem = \"a\"; upwards = ( { } ); }", "match[0].upwards[0]: an entry");
	expect_problem("{ subsystem = \"a\"; children = ( { } ); }", "without a condition");
	expect_problem("{ subsystem = \"a\"; attributes = ( \"f\", { } ); }",
		"match[0].attributes[1]: an");
	expect_problem("{ subsystem = \"a\"; parents = ( \"b\", { } ); }",
		"match[0].parents[1]: an entry");
	expect_problem(
		"{ subsystem = \"a\"; parents = ( \"b\", { name = \"c\"; attributes = ( \"f\", { file = "
		"\"g\"; is = \"1\"; exists = false; } ); } ); }",
		"match[0].parents[1].attributes[1].exists: an absent file");
	expect_problem(
		"{ subsystem = \"a\"; children = ( { attributes = ( \"f\", \"g\", { } ); } ); }",
		"match[0].children[0].attributes[2]: an entry");
	expect_problem("{ subsystem = \"a\"; path = \"/devices/pci*\"; }",
		"path: must be a pattern of a directory below /sys/devices");
	expect_problem(
		"{ subsystem = \"a\"; path = \"/sys/class/tty/*\"; }", "path: must be a pattern");
	expect_problem("{ subsystem = \"a\"; id = \"${id}\"; }", "must not use ${id}");
	expect_problem("{ subsystem = \"a\"; id = \"${index}\"; }", "must not use ${index}");
	expect_problem("{ subsystem = \"a\"; id = \"a\"; }", "must distinguish devices");
	expect_problem("{ subsystem = \"a\"; id = \"${seral}\"; }", "did you mean \"${serial}\"");
	expect_problem("{ subsystem = \"a\"; id = \"${n}\"; }", "must not use ${ids}");
	expect_problem("{ subsystem = \"a\"; nodes = \"dev/x\"; }", "absolute path");
	expect_problem(
		"{ subsystem = \"a\"; nodes = \"/dev/${replica}\"; }", "must not use ${ids}");
	expect_problem("{ subsystem = \"a\"; permissions = \"x\"; }", "must consist of");
}

static void test_few_descriptors(void **state)
{
	make_npu();
	expect_whole_or_failure(
		"driver = \"sysfs\"; match = ( { subsystem = \"acc*\"; attributes = ( { file = "
		"\"device/vendor\"; is = \"0x8086\"; } ); id = \"${kernel_name}\"; } );");
}

/* Why entries find nothing. */
static void test_explanations(void **state)
{
	host_mkdir("/sys");
	expect_explained("driver = \"sysfs\"; match = \"dsa\";",
		"match[0]: the host has no device: none is in /sys/class/dsa or /sys/bus/dsa\n");
	sys_device("pci0000:00/0000:00:01.0", "bus/pci", "");
	sys_device("pci0000:00/0000:00:01.0/dsa0", "bus/dsa", "DEVTYPE=engine\n");
	sys_write("pci0000:00/0000:00:01.0/dsa0", "state", "disabled\n");
	expect_explained(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; name = \"wq*\"; } );",
		"match[0]: 1 device, none left: name refused 1 (dsa0 has \"dsa0\")\n");
	expect_explained(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; devtype = \"queue\"; } );",
		"match[0]: 1 device, none left: devtype refused 1 (dsa0 has \"engine\")\n");
	expect_explained(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; driver = \"idxd\"; } );",
		"match[0]: 1 device, none left: driver refused 1 (dsa0 has none)\n");
	expect_explained(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; attributes = ( { file = \"state\"; is = \"enabled\"; } ); } );",
		"match[0]: 1 device, none left: attributes refused 1 (dsa0 has \"disabled\" in file state)\n");
	expect_explained(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; attributes = ( { file = \"size\"; } ); } );",
		"match[0]: 1 device, none left: attributes refused 1 (dsa0 has no file size)\n");
	/* A directory has no value. */
	expect_explained(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; attributes = ( { file = \"subsystem\"; exists = false; } ); } );",
		"match[0]: 1 device, none left: attributes refused 1 (dsa0 has file subsystem)\n");
	expect_explained(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; parents = ( { subsystem = \"usb\"; } ); } );",
		"match[0]: 1 device, none left: parents refused 1 (dsa0 differs in the devices above it)\n");
	expect_explained(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; not = ( { name = \"dsa*\"; } ); } );",
		"match[0]: 1 device, none left: not refused 1 (dsa0 meets one of them)\n");
}

/* What cannot be read neither holds nor fails, and the reason is noted once. */
static void test_no_database(void **state)
{
	static const char *const rules[] = { "property = \"MODEL\"; is = \"*\";",
		"property = \"MODEL\"; is_not = \"x\";", "property = \"MODEL\"; exists = false;",
		"property = \"TAGS\"; is_not = \"*:seat:*\";" };
	char expected[320];

	sys_device(DSA, "bus/pci", "");
	sys_device(DSA "/dsa0", "bus/dsa", "");
	make_queue(0, "enabled\n", "user\n", "shared\n");
	make_queue(1, "enabled\n", "user\n", "shared\n");
	(void)snprintf(expected, sizeof(expected),
		"host_root %s has no /run/udev/data, so properties of udev's rules are unknown, and "
		"devices with conditions on them are left out: mount it from the host",
		host_root);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		char text[256];

		(void)snprintf(text, sizeof(text),
			"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; attributes = ( { %s } ); } );",
			rules[i]);
		expect_found(text, "");
		assert_int_equal(scan.notes.count, 1);
		assert_string_equal(scan.notes.items[0], expected);
		/* No device is offered that may be excluded. */
		(void)snprintf(text, sizeof(text),
			"driver = \"sysfs\"; match = \"dsa\"; exclude = ( { match = ( { subsystem = \"dsa\"; attributes = ( { %s } ); } ); } );",
			rules[i]);
		expect_found(text, "");
		assert_int_equal(scan.notes.count, 1);
		assert_string_equal(scan.notes.items[0], expected);
	}
	expect_found(
		"driver = \"sysfs\"; match = \"dsa\"; exclude = ( { match = ( { subsystem = \"dsa\"; "
		"name = \"wq0.0\"; attributes = ( { property = \"MODEL\"; is = \"x\"; } ); } ); } );",
		"0000:6a:01.0:dsa.0 0000:6a:01.0:dsa.0:wq.1 ");
	/* The kernel's own properties are known. */
	expect_found(
		"driver = \"sysfs\"; match = ( { subsystem = \"dsa\"; attributes = ( { property = \"DEVTYPE\"; is = \"idxd_wq\"; } ); } );",
		"0000:6a:01.0:dsa.0:wq.0 0000:6a:01.0:dsa.0:wq.1 ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_accelerator),
		HOST_TEST(test_rules),
		HOST_TEST(test_own_conditions),
		HOST_TEST(test_queue_nodes),
		HOST_TEST(test_no_child_nodes),
		HOST_TEST(test_parents),
		HOST_TEST(test_children),
		HOST_TEST(test_group),
		HOST_TEST(test_exclusions),
		HOST_TEST(test_ids),
		HOST_TEST(test_check),
		HOST_TEST(test_few_descriptors),
		HOST_TEST(test_explanations),
		HOST_TEST(test_no_database),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
