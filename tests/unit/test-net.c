/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "net": which functions and interfaces a declaration finds, and what is known of them.
 */
#include "explained-fixture.h"
#include "net-fixture.h"

#include "common/log.h"
#include "drivers/host/function-interfaces.h"

static void test_selection(void **state)
{
	static const struct {
		const char *match, *ids;
	} cases[] = {
		{ "( { vendor = 0x8086; } )",
			"0000:3b:00.1 0000:3b:02.0 0000:3b:02.1 0000:3b:02.2! 0000:3b:02.3! " },
		{ "( { vendor = [ 0x8086, 0x15b3 ]; device = [ 0x158b, 0x1017 ]; } )",
			"0000:3b:00.1 0000:d8:00.0 " },
		{ "( { driver = \"iavf\"; } )", "0000:3b:02.0 0000:3b:02.1 " },
		{ "( { address = \"*:02.[13]\"; } )", "0000:3b:02.1 0000:3b:02.3! " },
		{ "( { role = \"pf\"; vendor = 0x8086; } )", "0000:3b:00.0 0000:3b:00.1 " },
		{ "( { role = \"vf\"; } )",
			"0000:3b:02.0 0000:3b:02.1 0000:3b:02.2! 0000:3b:02.3! " },
		{ "( { pf = \"ens785f0\"; } )",
			"0000:3b:02.0 0000:3b:02.1 0000:3b:02.2! 0000:3b:02.3! " },
		{ "( { pf = \"ens785f*\"; functions = \"0,2-9\"; } )",
			"0000:3b:02.0 0000:3b:02.2! 0000:3b:02.3! " },
		{ "( { pf = \"0000:3b:00.0\"; functions = \"1\"; }, { pf = \"ens785f1\"; } )",
			"0000:3b:00.1 0000:3b:02.1 " },
		{ "( { interface = \"ens785f0v?\"; } )", "0000:3b:02.0 0000:3b:02.1 " },
		{ "( { kind = \"infiniband\"; } )", "0000:d8:00.0 " },
		{ "( { kind = \"ether\"; vendor = 0x15b3; } )", "" },
		{ "( { rdma = true; } )", "0000:d8:00.0 " },
		{ "( { type = \"subfunction\"; } )", "mlx5_core.sf.4 " },
		{ "( { type = \"subfunction\"; vendor = 0x15b3; functions = \"88\"; rdma = true; } )",
			"mlx5_core.sf.4 " },
		{ "( { type = \"subfunction\"; functions = \"4\"; } )", "" },
		{ "( { type = \"subfunction\"; pf = \"ib0\"; driver = \"mlx5_core.sf\"; } )",
			"mlx5_core.sf.4 " },
		{ "( { type = \"interface\"; kind = \"can\"; } )", "can0 vcan0 " },
		{ "( { type = \"interface\"; kind = \"can\"; driver = \"mcp251x\"; } )", "can0 " },
		{ "( { type = \"interface\"; interface = [ \"dummy*\", \"ib0\" ]; } )",
			"dummy0 ib0 " },
		{ "( { type = \"interface\"; interface = \"lo\"; } )", "" },
		{ "( { vendor = 0x1002; } )", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("%s\n", cases[i].match);
		assert_string_equal(net_found(made(NET "%s;", cases[i].match)), cases[i].ids);
	}
}

static void check_variables(const struct device *device, const char *const *expected)
{
	for (; *expected; expected += 2) {
		const char *value = device_variable(device, expected[0]);

		print_message("%s %s\n", device->id, expected[0]);
		assert_non_null(value);
		assert_string_equal(value, expected[1]);
	}
}

static void check_claims(const struct device *device, const char *expected)
{
	size_t used = 0;

	fixture_text[0] = '\0';
	for (size_t i = 0; i < device->claims.count; i++)
		used += (size_t)snprintf(fixture_text + used, sizeof(fixture_text) - used, "%s ",
			device->claims.items[i]);
	assert_string_equal(fixture_text, expected);
}

static void test_variables(void **state)
{
	_cleanup_config_ struct config *config =
		declare(NET "( { address = \"*:02.1\"; vhost_net = true; }, "
			    "{ type = \"subfunction\"; rdma = true; }, "
			    "{ type = \"interface\"; interface = \"can0\"; } );");
	_cleanup_scan_ struct scan scan = { 0 };

	net_scan(config, &scan);
	assert_int_equal(scan.n_devices, 3);
	check_variables(scan.devices[0],
		(const char *const[]){ "interface", "ens785f0v1", "bdf", "0000:3b:02.1", "pf",
			"0000:3b:00.0", "pf_interface", "ens785f0", "vf", "1", "sf", "", "driver",
			"iavf", "rdma", "", "info",
			"{\"generic\":{\"deviceID\":\"0000:3b:02.1\"},\"vhost\":{\"net-mount\":"
			"\"/dev/vhost-net\",\"tun-mount\":\"/dev/net/tun\"}}",
			NULL });
	assert_int_equal(scan.devices[0]->n_numa, 1);
	assert_int_equal(scan.devices[0]->numa[0], 1);
	assert_int_equal(scan.devices[0]->n_nodes, 2);
	assert_true(scan.devices[0]->nodes[0].shared && scan.devices[0]->nodes[1].shared);
	assert_string_equal(scan.devices[0]->info,
		"{\"type\":\"pci\",\"version\":\"1.1.0\",\"pci\":{\"pci-address\":"
		"\"0000:3b:02.1\",\"vhost-net\":\"/dev/vhost-net\",\"pf-pci-address\":"
		"\"0000:3b:00.0\"}}");
	check_claims(scan.devices[0], "pci:0000:3b:02.1 <pci:0000:3b:00.0 net:ens785f0v1 ");

	check_variables(scan.devices[1],
		(const char *const[]){ "interface", "can0", "mac", "02:00:00:00:00:13", "driver",
			"mcp251x", "sysfs", SPI "/net/can0", "pf_interface", "", NULL });
	assert_int_equal(scan.devices[1]->n_nodes, 0);
	assert_null(scan.devices[1]->info);
	check_claims(scan.devices[1], "net:can0 ");

	check_variables(scan.devices[2],
		(const char *const[]){ "interface", "enp216s0f0s88", "bdf", "0000:d8:00.0", "pf",
			"0000:d8:00.0", "pf_interface", "ib0", "vf", "", "sf", "88", "rdma",
			"mlx5_2", "info",
			"{\"generic\":{\"deviceID\":\"mlx5_core.sf.4\"},\"rdma\":{\"issm\":"
			"\"/dev/infiniband/issm2\",\"rdma_cm\":\"/dev/infiniband/rdma_cm\","
			"\"rdma_dev\":\"mlx5_2\",\"umad\":\"/dev/infiniband/umad2\",\"uverbs\":"
			"\"/dev/infiniband/uverbs2\"}}",
			NULL });
	assert_int_equal(scan.devices[2]->n_nodes, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(scan.devices[2]->nodes[i].shared,
			streq(scan.devices[2]->nodes[i].host, "/dev/infiniband/rdma_cm"));
	assert_null(scan.devices[2]->info);
	check_claims(
		scan.devices[2], "auxiliary:mlx5_core.sf.4 <pci:0000:d8:00.0 net:enp216s0f0s88 ");
}

/* Cards whose ports share one PCI function have several interfaces for it. */
static void test_several_interfaces(void **state)
{
	static const struct {
		const char *match, *interface, *pf_interface;
	} cases[] = {
		{ "pf = \"ens785f0d1\"", "ens785f0v1,ens785f0v1d1", "ens785f0d1" },
		{ "pf = \"ens785f0\"", "ens785f0v1,ens785f0v1d1", "ens785f0" },
		{ "pf = \"ens785*\"; interface = \"*v1d1\"", "ens785f0v1d1",
			"ens785f0,ens785f0d1" },
		{ "pf = \"0000:3b:00.0\"; interface = \"*v1\"", "ens785f0v1",
			"ens785f0,ens785f0d1" },
	};

	plant_interface(BRIDGE "/0000:3b:00.0", "ens785f0d1", 1);
	plant_interface(BRIDGE "/0000:3b:02.1", "ens785f0v1d1", 1);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_config_ struct config *config =
			declare(made(NET "( { functions = \"1\"; %s; } );", cases[i].match));
		_cleanup_scan_ struct scan scan = { 0 };

		net_scan(config, &scan);
		assert_int_equal(scan.n_devices, 1);
		check_variables(scan.devices[0],
			(const char *const[]){ "interface", cases[i].interface, "pf_interface",
				cases[i].pf_interface, NULL });
	}
}

/* What the host talks through stays the host's. */
static void test_permissions(void **state)
{
	_cleanup_config_ struct config *config =
		declare(NET "( { address = \"*:02.1\"; vhost_net = true; permissions = \"rwm\"; }, "
			    "{ type = \"subfunction\"; rdma = true; permissions = \"r\"; } );");
	_cleanup_scan_ struct scan scan = { 0 };

	net_scan(config, &scan);
	assert_int_equal(scan.n_devices, 2);
	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < scan.devices[i]->n_nodes; k++)
			assert_string_equal(
				scan.devices[i]->nodes[k].permissions, i == 0 ? "rwm" : "r");
}

/* A VLAN of an interface; `links` are its names in the directories of the two. */
static void plant_vlan(const char *directory, const char *interface, const char *name)
{
	plant_interface("/sys/devices/virtual", name, 1);
	host_symlink(made("../%s", name), made("%s/net/%s/upper_%s", directory, interface, name));
	host_symlink(made("../%s", interface),
		made("/sys/devices/virtual/net/%s/lower_%s", name, interface));
}

static void test_uplinks(void **state)
{
	_cleanup_config_ struct config *config = declare(
		NET "( { vendor = 0x1af4; }, { type = \"interface\"; interface = \"*\"; } );");
	_cleanup_scan_ struct scan before = { 0 }, vlan = { 0 }, port = { 0 };

	net_scan(config, &before);
	for (size_t i = 0; i < before.n_devices; i++) {
		assert_string_not_equal(before.devices[i]->id, "eth0");
		assert_string_not_equal(before.devices[i]->id, "0000:00:03.0");
	}
	assert_int_equal(before.n_devices, 9);
	assert_int_equal(before.notes.count, 2);
	assert_string_equal(before.notes.items[0],
		"\"0000:00:03.0\" is left out, because the host needs interface eth0: the host's "
		"default route leads through it");

	/* A VLAN, and only IPv6. */
	host_write("/proc/net/route", "");
	host_write("/proc/net/ipv6_route",
		"00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
		"fe800000000000000000000000000001 00000400 00000001 00000000 00000003 vlan7\n"
		"00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
		"00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 dummy0\n");
	plant_vlan(BRIDGE "/0000:3b:00.1", "ens785f1", "vlan7");
	net_scan(config, &vlan);
	assert_int_equal(vlan.notes.count, 2);
	assert_non_null(strstr(vlan.notes.items[0], "interface ens785f1"));
	assert_non_null(strstr(vlan.notes.items[1], "interface vlan7"));
	assert_non_null(map_get(&vlan.by_id, "dummy0"));

	host_write("/proc/net/ipv6_route", "");
	host_symlink("../vlan7", "/sys/devices/virtual/net/dummy0/master");
	net_scan(config, &port);
	assert_int_equal(port.notes.count, 1);
	assert_non_null(strstr(port.notes.items[0], "a port of a bridge or bond"));
}

/* A trunk with more VLANs than any limit; the route is on a VLAN of the last one. */
static void test_many_vlans(void **state)
{
	_cleanup_config_ struct config *config =
		declare(NET "( { type = \"interface\"; interface = [ \"e*\", \"dummy0\" ]; } );");
	_cleanup_scan_ struct scan scan = { 0 };

	for (unsigned i = 0; i < 70; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "vlan%u", i);
		plant_vlan(BRIDGE "/0000:3b:00.1", "ens785f1", name);
	}
	plant_vlan("/sys/devices/virtual", "vlan69", "inner");
	/* Links lead in a circle. */
	host_symlink("../inner", BRIDGE "/0000:3b:00.1/net/ens785f1/lower_inner");
	host_write("/proc/net/route", "inner\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n");
	net_scan(config, &scan);
	assert_int_equal(scan.notes.count, 1);
	assert_non_null(strstr(scan.notes.items[0],
		"the host needs interface ens785f1: the host's default route leads through it"));
	assert_null(map_get(&scan.by_id, "ens785f1"));
	assert_non_null(map_get(&scan.by_id, "dummy0"));
}

/* The host's uplink, named on purpose; not a port of its bridge. */
static void test_uplink_on_purpose(void **state)
{
	assert_string_equal(net_found(NET "( { address = \"0000:00:03.0\"; } );"), "");
	assert_string_equal(
		net_found(NET "( { address = \"0000:00:03.0\"; default_route = true; } );"),
		"0000:00:03.0 ");
	assert_string_equal(net_found(NET "( { driver = \"iavf\"; }, { type = \"interface\"; "
					  "interface = \"eth0\"; default_route = true; } );"),
		"0000:3b:02.0 0000:3b:02.1 eth0 ");
	/* The first entry that selects it decides. */
	assert_string_equal(net_found(NET "( { vendor = 0x1af4; }, { interface = \"eth0\"; "
					  "default_route = true; } );"),
		"");
	plant_interface("/sys/devices/virtual", "br0", 1);
	host_symlink("../../../../../../../../../../../sys/devices/virtual/net/br0",
		BRIDGE "/0000:00:03.0/virtio2/net/eth0/master");
	assert_string_equal(
		net_found(NET "( { interface = \"eth0\"; default_route = true; } );"), "");
}

/* In a container, /proc/net leads to the routes of the pod. */
static void test_uplinks_of_host(void **state)
{
	_cleanup_config_ struct config *config =
		declare(NET "( { vendor = 0x1af4; }, { driver = \"iavf\"; } );");
	_cleanup_scan_ struct scan host = { 0 }, unknown = { 0 };

	host_mkdir("/proc/1/net");
	host_write("/proc/1/net/route",
		"ens785f0v1\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n");
	net_scan(config, &host);
	assert_int_equal(host.n_devices, 2);
	assert_string_equal(host.devices[0]->id, "0000:00:03.0");
	assert_string_equal(host.devices[1]->id, "0000:3b:02.0");
	assert_int_equal(host.notes.count, 1);
	assert_non_null(strstr(host.notes.items[0], "needs interface ens785f0v1"));

	host_remove("/proc/1/net/route");
	host_remove("/proc/net/route");
	net_scan(config, &unknown);
	assert_int_equal(unknown.n_devices, 3);
	assert_int_equal(unknown.notes.count, 1);
	assert_non_null(
		strstr(unknown.notes.items[0], "so interfaces that the host needs may be offered"));
}

/* An entry of `exclude` is about functions, sub-functions or interfaces, as in `match`. */
static void test_exclusions(void **state)
{
	static const struct {
		const char *exclude, *ids;
	} cases[] = {
		{ "{ type = \"interface\"; interface = \"*\"; }",
			"0000:3b:02.0 0000:3b:02.1 mlx5_core.sf.4 " },
		{ "{ interface = \"*v1\"; }", "0000:3b:02.0 can0 mlx5_core.sf.4 vcan0 " },
		{ "{ type = \"subfunction\"; address = \"*\"; }",
			"0000:3b:02.0 0000:3b:02.1 can0 vcan0 " },
		{ "{ pf = \"ens785f0\"; }, { type = \"interface\"; kind = \"can\"; driver = \"mcp*\"; }",
			"mlx5_core.sf.4 vcan0 " },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(
			net_found(made(NET "( { driver = \"iavf\"; }, { type = \"subfunction\"; }, "
					   "{ type = \"interface\"; kind = \"can\"; } ); "
					   "exclude = ( { match = ( %s ); } );",
				cases[i].exclude)),
			cases[i].ids);
	assert_string_equal(net_found(NET "( { role = \"pf\"; vendor = 0x8086; } ); "
					  "exclude = ( { match = ( { address = \"*.0\"; } ); } );"),
		"0000:3b:00.1 ");
}

static void test_problems(void **state)
{
	_cleanup_config_ struct config *config = declare(NET "( { role = \"vf\"; rdma = true; }, "
							     "{ role = \"vf\"; } );");
	_cleanup_scan_ struct scan scan = { 0 }, without_cm = { 0 };

	host_mkdir(BRIDGE "/0000:3b:02.0/infiniband/irdma0");
	net_scan(config, &scan);
	assert_string_equal(scan.devices[0]->problem,
		"has no uverbs node: load the module ib_uverbs and the RDMA driver of the card");
	assert_null(scan.devices[1]->problem);
	assert_non_null(strstr(scan.devices[2]->problem, "bound to vfio-pci"));
	assert_non_null(strstr(scan.devices[3]->problem, "bound to no driver"));

	host_mkdir("/sys/class/infiniband_verbs/uverbs7");
	host_write("/sys/class/infiniband_verbs/uverbs7/ibdev", "irdma0\n");
	host_write(BRIDGE "/0000:3b:02.0/infiniband/irdma0/node_type", "4: RNIC\n");
	host_symlink(made("../..%s/0000:3b:02.0/infiniband/irdma0", &BRIDGE[strlen("/sys")]),
		"/sys/class/infiniband/irdma0");
	host_remove("/dev/infiniband/rdma_cm");
	net_scan(config, &without_cm);
	assert_null(without_cm.devices[0]->problem);
	assert_int_equal(without_cm.devices[0]->n_nodes, 1);
	assert_int_equal(without_cm.notes.count, 1);
	assert_non_null(strstr(without_cm.notes.items[0], "load the module rdma_ucm"));
}

/* The names of the kernel's net/devlink/port.c, and of drivers before it. */
static void test_port_names(void **state)
{
	static const struct {
		const char *name;
		bool is_representor;
	} cases[] = {
		{ "p0", false },
		{ "p12", false },
		{ "p0s1", false },
		{ "l1p2", false },
		{ "l1p2s3", false },
		{ "n0", false },
		{ "", false },
		{ "pf", false },
		{ "pf0x", false },
		{ "pf0vf", false },
		{ "pfvf0", false },
		{ "c1", false },
		{ "pf0", true },
		{ "pf1vf12", true },
		{ "pf0sf88", true },
		{ "c1pf0", true },
		{ "c1pf0vf3", true },
		{ "c12pf3sf4", true },
		{ "p0pf0vf1", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("%s\n", cases[i].name);
		assert_int_equal(port_name_is_representor(cases[i].name), cases[i].is_representor);
	}
}

/* Gives the interface of the physical function a name of a port. */
static void set_port(const char *interface, const char *port)
{
	host_write(
		made(BRIDGE "/0000:3b:00.0/net/%s/phys_port_name", interface), made("%s\n", port));
}

/* A card in switchdev mode, whose representors come first by name. */
static void test_representors(void **state)
{
	static const char *const ports[] = { "p0", "p0s1", "l1p2", "l1p2s3", "n0" };
	_cleanup_config_ struct config *config =
		declare(NET "( { role = \"vf\"; driver = \"iavf\"; } );");

	plant_interface(BRIDGE "/0000:3b:00.0", "a0", 1);
	plant_interface(BRIDGE "/0000:3b:00.0", "a1", 1);
	set_port("a0", "pf0vf0");
	set_port("a1", "c1pf0sf1");
	for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
		_cleanup_scan_ struct scan scan = { 0 };

		set_port("ens785f0", ports[i]);
		assert_string_equal(
			net_found(NET
				"( { role = \"vf\"; pf = \"ens785f0\"; driver = \"iavf\"; } );"),
			"0000:3b:02.0 0000:3b:02.1 ");
		assert_string_equal(
			net_found(NET "( { role = \"vf\"; pf = [ \"a0\", \"a1\" ]; } );"), "");
		net_scan(config, &scan);
		check_variables(
			scan.devices[0], (const char *const[]){ "pf_interface", "ens785f0", NULL });
	}
}

/* The physical function itself has the interface of its port, but claims all. */
static void test_representors_of_function(void **state)
{
	_cleanup_config_ struct config *config =
		declare(NET "( { role = \"pf\"; address = \"0000:3b:00.0\"; } );");
	_cleanup_scan_ struct scan scan = { 0 };

	plant_interface(BRIDGE "/0000:3b:00.0", "a0", 1);
	set_port("a0", "pf0vf0");
	net_scan(config, &scan);
	assert_int_equal(scan.n_devices, 1);
	check_variables(scan.devices[0], (const char *const[]){ "interface", "ens785f0", NULL });
	check_claims(scan.devices[0], "pci:0000:3b:00.0 net:ens785f0 net:a0 ");
	assert_string_equal(net_found(NET "( { role = \"pf\"; interface = \"a0\"; } );"), "");
	/* A port of a bridge. */
	host_symlink("../ens785f0", BRIDGE "/0000:3b:00.0/net/a0/master");
	assert_string_equal(
		net_found(NET "( { address = \"0000:3b:00.0\"; role = \"pf\"; } );"), "");
}

/* A kind that `kind` has no word for, such as that of a modem (ARPHRD_RAWIP), has no value. */
static void test_unknown_kind(void **state)
{
	plant_interface("/sys/devices/virtual", "wwan0", 519);
	assert_string_equal(
		net_found(NET "( { type = \"interface\"; interface = \"wwan*\"; } );"), "wwan0 ");
	assert_string_equal(
		net_found(NET "( { type = \"interface\"; kind = [ \"ether\", \"none\" ]; "
			      "interface = \"wwan*\"; } );"),
		"");
}

/* The example of an interface that has a master. */
static void test_masters(void **state)
{
	static const struct {
		const char *directory, *text;
	} cases[] = {
		{ "bonding", "top0 is a bond of it" },
		{ "bridge", "top0 is a bridge of it" },
		{ "statistics", "top0 is its master" },
	};

	host_mkdir("/sys/class/net/top0");
	host_symlink("../../../../../../class/net/top0", "/sys/class/net/ens785f1/master");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		host_mkdir(made("/sys/class/net/top0/%s", cases[i].directory));
		expect_explained(NET "( { address = \"0000:3b:00.1\"; interface = \"top0\"; } );",
			made("match[0]: 8 network functions, none left: role refused 1 (0000:3b:00.0 has "
			     "virtual functions), address refused 6 (0000:00:03.0 has "
			     "\"0000:00:03.0\"), interface refused 1 (0000:3b:00.1 has ens785f1: %s)\n",
				cases[i].text));
		host_remove(made("/sys/class/net/top0/%s", cases[i].directory));
	}
}

static void test_checks(void **state)
{
	static const struct {
		const char *match, *problem;
	} cases[] = {
		{ "( { vendor = 0x18086; } )", "must be from 0 to 65535" },
		{ "( { vendor = \"8086\"; } )",
			"must be a whole number or a list of them, ( 0x8086, 0x15b3 )" },
		{ "( { vendor = ( 1, \"2\" ); } )", "vendor[1]: must be a whole number" },
		{ "( { functions = \"1-\"; } )", "must be numbers and ranges" },
		{ "( { functions = \"3-1\"; } )", "must be numbers and ranges" },
		{ "( { functions = \"1,,2\"; } )", "must be numbers and ranges" },
		{ "( { functions = \" 1\"; } )", "must be numbers and ranges" },
		{ "( { functions = \"1x\"; } )", "must be numbers and ranges" },
		{ "( { device = 0x154c; } )", "device: has no meaning without \"vendor\"" },
		{ "( { kind = \"cam\"; } )", "did you mean \"can\"?" },
		{ "( { type = \"interface\"; } )", "needs \"interface\" or \"kind\"" },
		{ "( { type = \"interface\"; kind = \"can\"; rdma = true; } )",
			"match[0].rdma: is not for type = \"interface\"" },
		{ "( { role = \"vf\"; }, { type = \"interface\"; } )",
			"match[1].interface: is missing" },
		{ "( { type = \"interface\"; interface = \"a\"; pf = \"b\"; } )",
			"pf: is not for type" },
		{ "( { type = \"subfunction\"; role = \"vf\"; } )", "role: is for type" },
		{ "( { address = \"3b:02.1\"; } )",
			"match[0].address: must be a whole PCI address with its domain" },
		{ "( { address = ( \"0000:3b:*\", \"0000:3B:02.1\" ); } )",
			"match[0].address[1]: must be a PCI address" },
		{ "( { address = \"ens785f0\"; } )", "the name of a sub-function, such as" },
		{ "( { type = \"subfunction\"; address = \"mlx5_core.sf\"; } )",
			"the name of a sub-function, such as" },
		{ "( { address = \"mlx5_core.sf.4\"; } )",
			"is the name of a sub-function: set type = \"subfunction\"" },
		{ "( { type = \"subfunction\"; address = \"0000:3b:02.1\"; } )",
			"is a PCI address, but a sub-function has a name" },
		{ "( { pf = \"3b:00.0\"; } )", "must be a whole PCI address with its domain" },
		{ "( { permissions = \"x\"; } )", "permissions: must consist of" },
		{ "( { default_route = true; } )",
			"match[0].default_route: needs \"interface\" or \"address\" without patterns" },
		{ "( { default_route = true; interface = ( \"eth0\", \"en*\" ); } )",
			"default_route: needs" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *problem = declare_problem(made(NET "%s;", cases[i].match));

		print_message("%s: %s\n", cases[i].match, problem);
		assert_non_null(strstr(problem, cases[i].problem));
	}
}

static void test_hostile(void **state)
{
	/* A loop, a name that is no address, an attribute of a megabyte, one with control
	 * characters, files for directories and the other way round. */
	static char megabyte[1024 * 1024];

	memset(megabyte, '0', sizeof(megabyte) - 1);
	host_symlink("0000:ff:00.0", "/sys/bus/pci/devices/0000:ff:00.0");
	host_symlink("../../../../etc", "/sys/bus/pci/devices/0000:ff:00.1");
	host_symlink("../../../devices/virtual", "/sys/bus/pci/devices/not an address\n");
	host_symlink("nowhere", "/sys/bus/auxiliary/devices/a.sf.\x1b[2J");
	host_symlink("../../../devices/virtual", "/sys/bus/auxiliary/devices/x.sf.1");
	host_write(BRIDGE "/0000:3b:02.0/class", megabyte);
	host_write(BRIDGE "/0000:3b:02.1/vendor", "0x8086\x1b[2J\n");
	host_remove("/sys/class/net/dummy0");
	host_write("/sys/class/net/bonding_masters", "\n");
	host_write("/sys/devices/virtual/net/vcan0/type", "280280280280280280280280\n");
	host_write("/proc/net/route", megabyte);
	host_mkdir("/proc/net/ipv6_route");
	host_write("/sys/class/infiniband_verbs/uverbs0/ibdev", megabyte);
	host_remove("/sys/class/infiniband_verbs/uverbs2/ibdev");
	host_mkdir("/sys/class/infiniband_verbs/uverbs2/ibdev");
	host_symlink("virtfn4", BRIDGE "/0000:3b:00.0/virtfn4");
	assert_string_equal(net_found(NET "( { vendor = 0x8086; }, { type = \"subfunction\"; }, "
					  "{ type = \"interface\"; kind = \"can\"; } );"),
		"0000:3b:00.1 0000:3b:02.2! 0000:3b:02.3! can0 mlx5_core.sf.4 ");
	assert_string_equal(net_found(NET "( { rdma = true; } );"), "0000:d8:00.0! ");
	assert_string_equal(
		net_found(NET "( { type = \"interface\"; interface = \"bonding*\"; } );"), "");
}

/* Why entries find nothing: the name of an interface that was renamed, and that of a bond. */
static void test_explanations(void **state)
{
	host_mkdir("/sys/class/net/bond0/bonding");
	host_symlink("../../../../../../class/net/bond0", "/sys/class/net/ens785f1/master");
	expect_explained(NET "( { pf = \"p2p1\"; role = \"vf\"; } );",
		"match[0]: 8 network functions, none left: role refused 4 (0000:00:03.0 is not a virtual "
		"function), pf refused 4 (0000:3b:02.0 has 0000:3b:00.0, interface ens785f0)\n");
	expect_explained(NET "( { interface = \"bond0\"; } );",
		"match[0]: 8 network functions, none left: role refused 1 (0000:3b:00.0 has virtual "
		"functions), interface refused 7 (0000:3b:00.1 has ens785f1: bond0 is a bond of it)\n");
	expect_explained(NET "( { pf = \"ens785f0\"; functions = \"7\"; } );",
		"match[0]: 8 network functions, none left: role refused 1 (0000:3b:00.0 has virtual "
		"functions), pf refused 3 (0000:00:03.0 has 0000:00:03.0, interface eth0), functions refused 4 (0000:3b:02.0 has number 0)\n");
	expect_explained(NET "( { kind = \"can\"; } );",
		"match[0]: 8 network functions, none left: role refused 1 (0000:3b:00.0 has virtual "
		"functions), kind refused 7 (0000:00:03.0 has ether)\n");
	expect_explained(NET "( { rdma = true; vendor = 0x8086; role = \"pf\"; } );",
		"match[0]: 8 network functions, none left: role refused 4 (0000:3b:02.0 is a virtual function "
		"of 0000:3b:00.0), vendor refused 2 (0000:00:03.0 has 0x1af4), rdma refused 2 (0000:3b:00.0 has no RDMA device on the host)\n");
	expect_explained(NET "( { type = \"subfunction\"; driver = \"mlx4*\"; } );",
		"match[0]: 1 sub-function, none left: driver refused 1 (mlx5_core.sf.4 has "
		"\"mlx5_core.sf\")\n");
	expect_explained(NET "( { type = \"interface\"; interface = \"CAN*\"; kind = \"can\"; } );",
		"match[0]: 10 interfaces, none left: interface refused 10 (can0 has \"can0\": write that)\n");
	expect_explained(NET "( { type = \"interface\"; interface = \"vcan0\"; } );", "");

	/* Candidates of another type do not count for an entry of `exclude`. */
	expect_explained(NET
		"( { type = \"interface\"; interface = \"vcan0\"; }, { type = \"subfunction\"; } ); "
		"exclude = ( { match = ( { type = \"subfunction\"; driver = \"mlx4*\"; } ); } );",
		"exclude[0].match[0] leaves out none of 1 sub-function: driver refused 1 (mlx5_core.sf.4 has \"mlx5_core.sf\")\n");

	host_mkdir("/run/udev/data");
	host_write("/run/udev/control", "");
	expect_explained(NET "( { type = \"interface\"; interface = \"vcan0\"; } );",
		"match[0]: 10 interfaces, none left: interface refused 9 (can0 has \"can0\"), interface refused 1 (vcan0 waits for udev to name it)\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_selection, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_variables, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_several_interfaces, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_permissions, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_uplinks, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_many_vlans, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_uplink_on_purpose, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_uplinks_of_host, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_exclusions, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_problems, net_setup, host_teardown),
		cmocka_unit_test(test_port_names),
		cmocka_unit_test_setup_teardown(test_representors, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(
			test_representors_of_function, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_unknown_kind, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_masters, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_checks, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_hostile, net_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_explanations, net_setup, host_teardown),
	};

	log_setup("test-net", LOG_TARGET_TEXT, LOG_CRIT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
