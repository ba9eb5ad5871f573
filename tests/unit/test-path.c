/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "path": ids, kinds of nodes, several names of one node, zipping, NUMA, claims, and what
 * the check refuses. complaints.md: M4.
 */
#include "driver-fixture.h"
#include "explained-fixture.h"
#include "sysfs-fixture.h"

static void expect_node(
	size_t device, size_t node, const char *host, const char *path, const char *permissions)
{
	assert_true(device < scan.n_devices && node < scan.devices[device]->n_nodes);
	assert_string_equal(scan.devices[device]->nodes[node].host, host);
	assert_string_equal(scan.devices[device]->nodes[node].path, path);
	assert_string_equal(scan.devices[device]->nodes[node].permissions, permissions);
	assert_int_equal(scan.devices[device]->nodes[node].mount, permissions[0] == '\0');
}

static void test_ids(void **state)
{
	char id[DEVICE_ID_MAX + 1];

	host_mkdir("/dev/net");
	host_mkdir("/run/a");
	host_mknod("/dev/net/tun");
	host_mknod("/dev/ttyUSB10");
	host_mknod("/dev/ttyUSB2");
	host_mkfifo("/run/a/socket");
	host_mknod("/dev/net:tun");
	host_mknod("/dev/a+b");
	expect_ids("path", "\"/dev/ttyUSB*\"", "ttyUSB2 ttyUSB10 ");
	expect_ids("path", "{ path = \"/dev/net/tun\"; }, { path = \"/run/a/*\"; }",
		"net:tun run:a:socket ");

	list_entries("path", "\"/dev/net/*\", \"/dev/net:*\", \"/dev/a+*\"");
	assert_int_equal(scan.n_devices, 3);
	assert_true(strncmp(scan.devices[1]->id, "net:tun-", 8) == 0);
	assert_true(strncmp(scan.devices[2]->id, "a+b-", 4) == 0);
	(void)strcpy(id, scan.devices[1]->id);
	expect_ids("path", "\"/dev/absent\"", "");
	list_entries("path", "\"/dev/net:tun\"");
	assert_string_equal(scan.devices[0]->id, id);
}

/* Names that hardware and people choose. Each has an id of its own, which the kubelet accepts. */
static void test_odd_names(void **state)
{
	static const char *const names[] = { "/dev/a:b", "/dev/a%b", "/dev/a b", "/dev/a-b",
		"/dev/a%20b" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		host_mknod(names[i]);
	list_entries("path", "\"/dev/a*\"");
	assert_int_equal(scan.n_devices, ARRAY_SIZE(names));
	assert_int_equal(scan.notes.count, 0);
	for (size_t i = 0; i < scan.n_devices; i++) {
		char id[DEVICE_ID_MAX + 1];

		device_id_make(scan.devices[i]->id, id);
		assert_string_equal(scan.devices[i]->id, id);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(scan.devices[i]->id, scan.devices[k]->id);
	}
}

static void test_same_id_twice(void **state)
{
	host_mknod("/dev/a0");
	host_mknod("/dev/a1");
	expect_ids("path", "\"/dev/a*\", \"/dev/?1\"", "a0 a1 ");
	assert_int_equal(scan.notes.count, 1);
	assert_non_null(strstr(scan.notes.items[0], "\"a1\""));
}

static void test_kinds(void **state)
{
	host_mkdir("/dev/snd");
	host_mkdir("/var/data");
	host_mkdir("/run");
	host_mkfifo("/run/socket");
	host_symlink("socket", "/run/link");
	list_entries("path",
		"\"/dev/snd\", { path = \"/var/data\"; read_only = true; }, \"/run/socket\", "
		"\"/run/link\", { path = \"/run/socke?\"; type = \"device\"; permissions = \"r\"; "
		"as = \"/dev/\"; }");
	expect_node(0, 0, "/dev/snd", "/dev/snd", "rw");
	expect_node(1, 0, "/var/data", "/var/data", "");
	assert_true(scan.devices[1]->nodes[0].read_only);
	expect_node(2, 0, "/run/socket", "/run/socket", "");
	assert_false(scan.devices[2]->nodes[0].read_only);
	/* A mount of a link is a mount of what it leads to, at the link's path. */
	expect_node(3, 0, "/run/socket", "/run/link", "");
	assert_int_equal(scan.n_devices, 4);

	list_entries("path",
		"{ path = \"/run/socke?\"; type = \"device\"; permissions = \"r\"; as = \"/dev/\"; }");
	expect_node(0, 0, "/run/socket", "/dev/socket", "r");
	list_entries("path", "{ path = \"/run/socket\"; type = \"device\"; as = \"/dev/thing\"; }");
	expect_node(0, 0, "/run/socket", "/dev/thing", "rw");
}

static void test_device_nodes(void **state)
{
	char path[512];

	host_path(path, "/dev/card7");
	if (mknod(path, S_IFCHR | 0600, makedev(226, 7)) < 0)
		skip();
	host_path(path, "/dev/disk");
	assert_int_equal(mknod(path, S_IFBLK | 0600, makedev(259, 1)), 0);
	host_mkdir("/dev/by-path");
	host_symlink("../card7", "/dev/by-path/card");
	host_mkdir("/sys/dev/char");
	host_mkdir("/sys/dev/block");
	host_mkdir("/sys/devices/pci0/0000:03:00.0/drm/card7");
	host_symlink("../../devices/pci0/0000:03:00.0/drm/card7", "/sys/dev/char/226:7");
	host_symlink("../../../0000:03:00.0", "/sys/devices/pci0/0000:03:00.0/drm/card7/device");
	host_write("/sys/devices/pci0/0000:03:00.0/numa_node", "1\n");
	host_mkdir("/sys/devices/pci0/nvme/nvme0/nvme0n1");
	host_symlink("../../devices/pci0/nvme/nvme0/nvme0n1", "/sys/dev/block/259:1");
	host_write("/sys/devices/pci0/nvme/numa_node", "-1\n");
	host_write("/sys/devices/pci0/numa_node", "5\n");

	list_entries("path", "\"/dev/by-path/card\", \"/dev/disk\"");
	expect_node(0, 0, "/dev/by-path/card", "/dev/by-path/card", "rw");
	assert_string_equal(scan.devices[0]->id, "by-path:card");
	assert_int_equal(scan.devices[0]->n_numa, 1);
	assert_int_equal(scan.devices[0]->numa[0], 1);
	/* -1 is an answer; a bus further up is not asked. */
	assert_int_equal(scan.devices[1]->n_numa, 0);
	assert_string_equal(device_variable(scan.devices[1], "sysfs"), "/sys/dev/block/259:1");
}

/* A disk has several links in /dev/disk/by-id, and must not be assigned to two pods. */
static void test_two_names_of_a_node(void **state)
{
	char path[512];

	host_path(path, "/dev/sda");
	if (mknod(path, S_IFBLK | 0600, makedev(8, 0)) < 0)
		skip();
	host_path(path, "/dev/sdb");
	assert_int_equal(mknod(path, S_IFBLK | 0600, makedev(8, 16)), 0);
	host_mkdir("/dev/by-id");
	host_symlink("../sda", "/dev/by-id/ata-a");
	host_symlink("../sdb", "/dev/by-id/ata-b");
	host_symlink("../sda", "/dev/by-id/wwn-a");
	expect_ids("path", "\"/dev/by-id/*\"", "by-id:ata-a by-id:ata-b ");
	assert_int_equal(scan.notes.count, 1);
	assert_non_null(strstr(scan.notes.items[0],
		"/dev/by-id/ata-a and /dev/by-id/wwn-a are the same device node; "));
	/* The order of entries decides, and entries know of each other. */
	expect_ids("path", "\"/dev/sda\", \"/dev/by-id/*\", \"/dev/sd?\"", "sda by-id:ata-b ");
	assert_int_equal(scan.notes.count, 2);
	assert_non_null(strstr(scan.notes.items[0], "\"sda\" appears twice"));
	assert_non_null(strstr(scan.notes.items[1], "/dev/by-id/ata-a are the same"));
	assert_non_null(strstr(scan.notes.items[1], "(and 2 more)"));
	/* A name that is excluded leaves its node to the others. */
	expect_found(
		"driver = \"path\"; match = ( \"/dev/by-id/*\" ); exclude = ( \"by-id:ata-*\" );",
		"by-id:ata-a by-id:ata-b by-id:wwn-a ");
	assert_int_equal(scan.notes.count, 0);
	/* A group is left out as a whole, unless what it has in common may be shared. */
	host_mknod("/dev/a0");
	host_mknod("/dev/a1");
	expect_ids("path",
		"{ paths = ( \"/dev/a0\", \"/dev/sda\" ); }, { paths = ( \"/dev/a1\", \"/dev/sd[a]\" ); }",
		"a0+sda ");
	assert_non_null(strstr(scan.notes.items[0], "/dev/sda matches twice"));
	expect_ids("path",
		"{ paths = ( \"/dev/a*\", { path = \"/dev/by-id/*-a\"; limit = 2; } ); }, \"/dev/sda\"",
		"a0+by-id:ata-a a1+by-id:wwn-a sda ");
	assert_int_equal(scan.notes.count, 0);
	expect_ids("path", "{ path = \"/dev/by-id/*-a\"; limit = 2; }", "by-id:ata-a by-id:wwn-a ");
}

static void make_series(const char *name, size_t n)
{
	char path[64];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "/dev/%s%zu", name, i);
		host_mknod(path);
	}
}

static void test_zip(void **state)
{
	make_series("a", 3);
	make_series("b", 2);
	make_series("one", 1);
	expect_ids("path", "{ paths = ( \"/dev/a*\", \"/dev/b*\" ); }", "a0+b0 a1+b1 ");
	assert_int_equal(scan.devices[1]->n_nodes, 2);
	expect_node(1, 1, "/dev/b1", "/dev/b1", "rw");
	expect_ids("path", "{ paths = ( \"/dev/a*\", \"/dev/none\" ); }", "");
	/* A limit lets one match be part of several, but makes no more than there are. */
	expect_ids("path", "{ paths = ( \"/dev/a*\", { path = \"/dev/one0\"; limit = 2; } ); }",
		"a0+one0 a1+one0 ");
	expect_ids("path", "{ paths = ( \"/dev/a*\", { path = \"/dev/one0\"; limit = 100; } ); }",
		"a0+one0 a1+one0 a2+one0 ");
	expect_ids("path", "{ path = \"/dev/one0\"; limit = 5; }", "one0 ");
	expect_ids("path", "{ paths = ( { path = \"/dev/b*\"; limit = 2; }, \"/dev/a*\" ); }",
		"b0+a0 b1+a1 b0+a2 ");
}

static void test_zip_optional(void **state)
{
	make_series("a", 3);
	make_series("b", 2);
	/* Optional members come and go without making another device of it. */
	expect_ids("path", "{ paths = ( \"/dev/a*\", { path = \"/dev/b*\"; optional = true; } ); }",
		"a0 a1 a2 ");
	assert_int_equal(scan.devices[1]->n_nodes, 2);
	assert_false(scan.devices[1]->nodes[0].optional);
	assert_true(scan.devices[1]->nodes[1].optional);
	assert_int_equal(scan.devices[2]->n_nodes, 1);
	expect_ids("path",
		"{ paths = ( \"/dev/a*\", { path = \"/dev/none\"; optional = true; } ); }",
		"a0 a1 a2 ");
	/* They name the device where nothing else can. */
	expect_ids("path",
		"{ paths = ( { path = \"/dev/a0\"; limit = 9; }, "
		"{ path = \"/dev/b*\"; optional = true; } ); }",
		"a0+b0 a0+b1 ");
	assert_false(scan.devices[0]->nodes[1].optional);
	expect_ids("path",
		"{ paths = ( { path = \"/dev/a*\"; optional = true; }, "
		"{ path = \"/dev/b*\"; optional = true; } ); }",
		"a0+b0 a1+b1 a2 ");
	expect_ids("path", "{ path = \"/dev/none\"; optional = true; }", "");
	/* TestDiscoverPaths of generic-device-plugin: "optional paths - all missing". */
	expect_ids("path",
		"{ paths = ( { path = \"/dev/ttyS0\"; optional = true; }, "
		"{ path = \"/dev/ttyUSB0\"; optional = true; } ); }",
		"");
}

#define CAPTURE(more) "{ paths = ( \"/dev/snd/controlC[0-9]*\", " more "); join = \"number\"; }"

/* Cards that the kernel numbers, the first of which cannot record. */
static void test_joined_by_number(void **state)
{
	static const char *const nodes[] = { "controlC0", "controlC2", "pcmC2D0c", "controlC10",
		"pcmC10D0c", "timer" };

	host_mkdir("/dev/snd");
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
		host_mknod(made("/dev/snd/%s", nodes[i]));
	expect_ids("path", CAPTURE("\"/dev/snd/pcmC*D0c\""),
		"snd:controlC2+snd:pcmC2D0c snd:controlC10+snd:pcmC10D0c ");
	assert_string_equal(scan.devices[1]->nodes[1].path, "/dev/snd/pcmC10D0c");
	assert_int_equal(scan.notes.count, 0);
	expect_ids("path", CAPTURE("{ path = \"/dev/snd/pcmC*D0c\"; optional = true; }"),
		"snd:controlC0 snd:controlC2 snd:controlC10 ");
	assert_int_equal(scan.devices[0]->n_nodes, 1);
	assert_string_equal(scan.devices[1]->nodes[1].path, "/dev/snd/pcmC2D0c");
	/* A path without a number is part of each device, up to its limit. */
	expect_ids("path",
		CAPTURE("\"/dev/snd/pcmC*D0c\", { path = \"/dev/snd/timer\"; limit = 8; }"),
		"snd:controlC2+snd:pcmC2D0c+snd:timer snd:controlC10+snd:pcmC10D0c+snd:timer ");
	expect_ids("path", CAPTURE("\"/dev/snd/pcmC*D0c\", \"/dev/snd/timer\""),
		"snd:controlC2+snd:pcmC2D0c+snd:timer ");
	expect_ids("path", CAPTURE("\"/dev/snd/pcmC*D0c\", \"/dev/snd/none\""), "");
	/* None of them is required. */
	expect_ids("path",
		"{ paths = ( { path = \"/dev/snd/pcmC*D0c\"; optional = true; }, "
		"{ path = \"/dev/snd/seq*\"; optional = true; } ); join = \"number\"; }",
		"snd:pcmC2D0c snd:pcmC10D0c ");
	expect_explained("driver = \"path\"; match = ( " CAPTURE("\"/dev/snd/tim*\"") " );",
		"match[0]: no number is in a match of each required pattern\n");
	/* By position, capture would be that of another card. */
	list_entries("path", "{ paths = ( \"/dev/snd/controlC[0-9]*\", \"/dev/snd/pcmC*D0c\" ); }");
	assert_int_equal(scan.notes.count, 1);
	assert_string_equal(scan.notes.items[0],
		"match[0].paths: they match 3 and 2 paths, which are joined by position, not by "
		"what belongs together: set join = \"number\", or narrower patterns");
}

static void test_ambiguous_numbers(void **state)
{
	static const char *const nodes[] = { "ttyACM0", "ttyUSB00", "ttyUSB0", "ttyprintk",
		"cuse0" };

	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
		host_mknod(made("/dev/%s", nodes[i]));
	expect_ids("path", "{ paths = ( \"/dev/cuse*\", \"/dev/tty*\" ); join = \"number\"; }",
		"cuse0+ttyACM0 ");
	assert_int_equal(scan.notes.count, 3);
	assert_string_equal(scan.notes.items[2],
		"/dev/ttyprintk is left out: its name has no number to join it by");
	assert_non_null(strstr(scan.notes.items[0],
		" is left out: /dev/ttyACM0 has the number 0, too; narrow the pattern"));
}

/* Two adapters without a serial number: udev's last link in by-id wins. */
static void test_shared_names(void **state)
{
	static const char by_id[] = "\"/dev/serial/by-id/*\"";

	host_mkdir("/dev/serial/by-id");
	host_mkdir("/dev/serial/by-path");
	for (int i = 0; i < 2; i++) {
		host_mknod(made("/dev/ttyUSB%d", i));
		host_symlink(made("../../ttyUSB%d", i),
			made("/dev/serial/by-path/pci-0000:00:14.0-usb-0:%d:1.0-port0", i));
		host_symlink(made("../../ttyUSB%d", i),
			made("/dev/serial/by-path/pci-0000:00:14.0-usbv2-0:%d:1.0-port0", i));
	}
	host_symlink("../../ttyUSB1", "/dev/serial/by-id/usb-1a86_USB_Serial-if00-port0");
	expect_ids("path", by_id, "serial:by-id:usb-1a86_USB_Serial-if00-port0 ");
	assert_int_equal(scan.explanations.count, 1);
	assert_string_equal(scan.explanations.items[0],
		"no link in /dev/serial/by-id leads to /dev/ttyUSB0, as when equal devices share a "
		"name: match links in /dev/serial/by-path, or use driver = \"usb\"");
	/* One that was meant, and cameras, of which each has a second node. */
	list_entries("path", "\"/dev/serial/by-id/usb-1a86_USB_Serial-if00-port0\"");
	assert_int_equal(scan.explanations.count, 0);
	list_entries("path", "\"/dev/serial/by-id/*-index0\"");
	assert_int_equal(scan.explanations.count, 0);
	/* Patterns without a wildcard behind which names have a common end. */
	list_entries("path", "\"/dev/serial/by-id/[abc\"");
	list_entries("path", "\"/dev/serial/by-id/a\\\\b\"");
	/* A disk without a serial number has no link in by-id. */
	host_mkdir("/dev/disk/by-id");
	host_mkdir("/dev/disk/by-path");
	host_mknod("/dev/vda");
	host_symlink("../../vda", "/dev/disk/by-path/pci-0000:00:04.0");
	list_entries("path", "\"/dev/disk/by-id/nvme-*\"");
	assert_int_equal(scan.explanations.count, 0);
	host_symlink("../../ttyUSB0", "/dev/serial/by-id/usb-FTDI_A9-if00-port0");
	list_entries("path", by_id);
	assert_int_equal(scan.n_devices, 2);
	assert_int_equal(scan.explanations.count, 0);
}

/* A path that is excluded is missing in its device, and moves no other path to another device. */
static void test_zip_without_excluded(void **state)
{
	make_series("a", 3);
	make_series("b", 3);
	make_series("one", 1);
	expect_found("driver = \"path\"; match = ( { paths = ( \"/dev/a*\", \"/dev/b*\" ); } ); "
		     "exclude = ( { match = ( \"/dev/b1\", \"/dev/c*\" ); } );",
		"a0+b0 a2+b2 ");
	expect_found("driver = \"path\"; match = ( { paths = ( \"/dev/a*\", "
		     "{ path = \"/dev/b*\"; optional = true; } ); } ); "
		     "exclude = ( { match = ( { paths = ( \"/dev/c0\", \"/dev/b[01]\" ); } ); } );",
		"a0 a1 a2 ");
	expect_nodes("a1", "/dev/a1 ");
	expect_nodes("a2", "/dev/a2 /dev/b2 ");
	expect_found("driver = \"path\"; match = ( { paths = ( \"/dev/a*\", "
		     "{ path = \"/dev/one0\"; limit = 2; } ); } ); "
		     "exclude = ( { match = \"/dev/o*\"; } );",
		"");
	expect_explained("driver = \"path\"; match = \"/dev/a*\"; "
			 "exclude = ( { match = ( \"/dev/c*\", \"/dev/a1\" ); } );",
		"exclude[0].match[0] leaves out none of 3 paths: path refused 3 (/dev/a0 differs)\n");
	/* A path that several devices have counts once, also in an entry with several. */
	expect_explained(
		"driver = \"path\"; match = ( { paths = ( \"/dev/a*\", "
		"{ path = \"/dev/one0\"; limit = 3; } ); } ); "
		"exclude = ( { match = ( { paths = ( \"/dev/c*\", \"/dev/d*\" ); } ); } );",
		"exclude[0].match[0] leaves out none of 4 paths: path refused 4 (/dev/a0 differs)\n");
	expect_explained("driver = \"path\"; match = ( { paths = ( \"/dev/a*\", "
			 "{ path = \"/dev/one0\"; limit = 3; } ); } ); "
			 "exclude = ( { match = \"/dev/o*\"; } );",
		"exclude[0].match[0] leaves out 1 path, so that no device is left\n");
}

static void expect_problem(const char *match, const char *expected)
{
	_cleanup_free_ char *text = NULL, *problem = NULL;

	assert_true(asprintf(&text, "driver = \"path\"; match = ( %s );", match) > 0);
	problem = declare_problem(text);
	if (!strstr(problem, expected))
		fail_msg("\"%s\" is not in \"%s\"", expected, problem);
}

static void test_check(void **state)
{
	expect_problem("\"dev/kvm\"", "absolute path");
	expect_problem("\"${id}\"", "absolute path");
	expect_problem("\"/dev/../kvm\"", "..");
	expect_problem("\"/\"", "below");
	expect_problem("\"/dev/**/kvm\"", "**");
	expect_problem("{ as = \"/x\"; }", "neither");
	expect_problem("{ path = \"/x\"; paths = ( \"/y\" ); }", "both");
	expect_problem("{ paths = ( \"/y\" ); limit = 2; }", "each of the \"paths\"");
	expect_problem(
		"{ path = \"/y*\"; join = \"number\"; }", "join: has no meaning without \"paths\"");
	expect_problem("{ paths = ( \"/y*\" ); join = \"name\"; }", "match[0].join");
	expect_problem("{ path = \"/x\"; permissions = \"rx\"; }", "permissions");
	expect_problem("{ path = \"/x\"; type = \"device\"; read_only = true; }", "read_only");
	expect_problem("{ path = \"/x\"; limit = 0; }", "limit");
	expect_problem(
		"{ paths = ( \"/x\", { path = \"/y\"; type = \"device\"; read_only = true; } ); }",
		"match[0].paths[1].read_only: is for mounts");
}

static void test_claims(void **state)
{
	_cleanup_strings_ struct strings claims = { 0 };

	list_entries("path",
		"\"/dev/a\", \"/dev/b*\", { paths = ( \"/dev/c\", { path = \"/dev/d\"; limit = 2; } ); }");
	assert_int_equal(
		declaration_of(config)->driver->claims(declaration_of(config), &claims), 0);
	assert_int_equal(claims.count, 2);
	assert_string_equal(claims.items[0], "/dev/a");
	assert_string_equal(claims.items[1], "/dev/c");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, host_setup, driver_teardown)

/* Why patterns match nothing. */
static void test_explanations(void **state)
{
	static const struct {
		const char *path, *expected;
	} cases[] = {
		{ "/dev/video.*",
			"nothing matches \"/dev/video.*\": \"*\" alone stands for any text, so leave out the "
			"\".\"; there is /dev/video0" },
		{ "/dev/video[0-9]+",
			"nothing matches \"/dev/video[0-9]+\": \"+\" stands for itself: write \"*\", or a "
			"pattern for each length; there is /dev/video0" },
		{ "/dev/video\\\\d+",
			"nothing matches \"/dev/video\\d+\": \"\\d\" stands for a \"d\": write \"[0-9]\"; there is "
			"/dev/video0" },
		{ "/dev/video0,/dev/video1",
			"nothing matches \"/dev/video0,/dev/video1\": it is one path: write an entry of "
			"`match` for each; there is /dev/video0" },
		{ "/dev/video[1-9]", "nothing matches \"/dev/video[1-9]\"; there is /dev/video0" },
		{ "/dev/dri/card*",
			"nothing matches \"/dev/dri/card*\": host_root ROOT has no /dev/dri" },
		{ "/dev/kvm", "nothing matches \"/dev/kvm\"" },
		{ "/dev/video*", NULL },
	};

	host_mknod("/dev/video0");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[256], expected[512] = "", *root;

		(void)snprintf(
			text, sizeof(text), "driver = \"path\"; match = \"%s\";", cases[i].path);
		if (cases[i].expected) {
			(void)snprintf(
				expected, sizeof(expected), "match[0]: %s\n", cases[i].expected);
			root = strstr(expected, "ROOT");
			if (root)
				(void)snprintf(root, sizeof(expected) - (size_t)(root - expected),
					"%s%s\n", host_root, strstr(cases[i].expected, "ROOT") + 4);
		}
		expect_explained(text, expected);
	}
}

#define LOCATED \
	"driver = \"path\"; match = ( { path = \"/dev/npu[0-9]*\"; identity = \"location\"; } );"

static void make_npu_node(unsigned number)
{
	char path[512];

	host_path(path, made("/dev/npu%u", number));
	/* Only root may make one. */
	if (mknod(path, S_IFCHR | 0600, makedev(250, number)) < 0)
		skip();
}

/* Nodes that are numbered in the order of discovery. */
static void test_location(void **state)
{
	for (unsigned i = 0; i < 3; i++)
		make_npu_node(i);
	sys_device("pci0000:00/0000:07:00.0", "bus/pci", "");
	sys_device("pci0000:00/0000:07:00.0/npu/npu0", "class/npu", "DEVNAME=npu0\n");
	sys_device("virtual/npu/npu1", "class/npu", "DEVNAME=npu1\n");
	host_mkdir("/sys/dev/char");
	host_symlink("../../devices/pci0000:00/0000:07:00.0/npu/npu0", "/sys/dev/char/250:0");
	host_symlink("../../devices/virtual/npu/npu1", "/sys/dev/char/250:1");
	expect_found(LOCATED, "0000:07:00.0:npu.0 npu1 npu2 ");
	expect_node(0, 0, "/dev/npu0", "/dev/npu0", "rw");
	expect_explained(LOCATED,
		"match[0]: /sys does not show the hardware behind /dev/npu1 and 1 more, so the name is the id: after a reboot or a change of hardware, it may be another device's. If a tool of the vendor lists UUIDs or addresses, use the driver exec\n");
	/* The driver is loaded again, and gives it another number. */
	for (unsigned i = 0; i < 3; i++)
		host_remove(made("/dev/npu%u", i));
	host_remove("/sys/dev/char/250:0");
	host_symlink("../../devices/pci0000:00/0000:07:00.0/npu/npu0", "/sys/dev/char/250:2");
	make_npu_node(2);
	expect_found(LOCATED, "0000:07:00.0:npu.0 ");
	expect_node(0, 0, "/dev/npu2", "/dev/npu2", "rw");
	expect_explained(LOCATED, "");
}

/* A path as a process outside of a container sees it. */
static void test_explained_root(void **state)
{
	char text[256], expected[512];

	host_mknod("/dev/video0");
	(void)snprintf(
		text, sizeof(text), "driver = \"path\"; match = \"%s/dev/video0\";", host_root);
	(void)snprintf(expected, sizeof(expected),
		"match[0]: nothing matches \"%s/dev/video0\": paths are those of the host: write "
		"\"/dev/video0\"\n",
		host_root);
	expect_explained(text, expected);
}

/* A directory of health files that is not mounted. */
static void test_explained_probes(void **state)
{
	static const char text[] =
		"driver = \"path\"; match = \"/dev/video*\"; health = ( { probe = \"file\"; "
		"path = \"/run/health/${id}\"; healthy = \"ok\"; missing = \"healthy\"; } );";
	char expected[256];

	host_mknod("/dev/video0");
	(void)snprintf(expected, sizeof(expected),
		"health[0]: host_root %s has no /run/health/, so there is no file in it and each device counts "
		"as healthy: mount it from the host\n",
		host_root);
	expect_explained(text, expected);
	host_mkdir("/run/health");
	expect_explained(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_ids),
		TEST(test_odd_names),
		TEST(test_same_id_twice),
		TEST(test_kinds),
		TEST(test_device_nodes),
		TEST(test_two_names_of_a_node),
		TEST(test_zip),
		TEST(test_zip_optional),
		TEST(test_joined_by_number),
		TEST(test_ambiguous_numbers),
		TEST(test_shared_names),
		TEST(test_zip_without_excluded),
		TEST(test_check),
		TEST(test_claims),
		HOST_TEST(test_explanations),
		HOST_TEST(test_location),
		HOST_TEST(test_explained_root),
		HOST_TEST(test_explained_probes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
