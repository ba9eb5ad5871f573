/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "rdma": adapters one by one and all together, and the nodes that are theirs.
 */
#include "explained-fixture.h"
#include "net-fixture.h"

#include "common/log.h"

#define RDMA "driver = \"rdma\"; match = "

static int setup(void **state)
{
	if (net_setup(state) < 0)
		return -1;
	/* A second adapter, and one that is software. */
	plant_function("0000:5e:00.0", "0x020000", "8086:1593", "ice");
	plant_interface(BRIDGE "/0000:5e:00.0", "ens2", 1);
	plant_infiniband(BRIDGE "/0000:5e:00.0", "irdma0", 1);
	plant_infiniband("/sys/devices/virtual", "rxe0", 3);
	host_remove("/sys/devices/virtual/infiniband/rxe0/device");
	host_mkdir("/sys/devices/virtual/infiniband/rxe0/ports/1/gid_attrs/ndevs");
	host_write(
		"/sys/devices/virtual/infiniband/rxe0/ports/1/gid_attrs/ndevs/0", "ens785f0v1\n");
	return 0;
}

static void test_selection(void **state)
{
	static const struct {
		const char *match, *ids;
	} cases[] = {
		{ "( { name = \"*\"; } )", "0000:5e:00.0 0000:d8:00.0 mlx5_core.sf.4 rxe0 " },
		{ "( { vendor = 0x15b3; } )", "0000:d8:00.0 mlx5_core.sf.4 " },
		{ "( { vendor = 0x15b3; }, { name = \"irdma*\"; } )",
			"0000:5e:00.0 0000:d8:00.0 mlx5_core.sf.4 " },
		{ "( { kind = \"infiniband\"; } )", "0000:d8:00.0 " },
		{ "( { kind = \"ether\"; } )", "0000:5e:00.0 mlx5_core.sf.4 rxe0 " },
		{ "( { interface = \"ens*\"; } )", "0000:5e:00.0 rxe0 " },
		{ "( { interface = \"ens785f0v1\"; } )", "rxe0 " },
		{ "( { driver = \"mlx5_core\"; } )", "0000:d8:00.0 " },
		/* What is software has no numbers. */
		{ "( { vendor = 0; device = 0; } )", "" },
		{ "( { name = \"mlx5_0\"; vendor = 0x8086; } )", "" },
		/* A sub-function is neither a physical nor a virtual function. */
		{ "( { role = \"pf\"; } )", "0000:5e:00.0 0000:d8:00.0 " },
		{ "( { role = \"vf\"; } )", "" },
		{ "( { combine = true; } )", "unit " },
		{ "( { combine = true; vendor = 0x1002; } )", "" },
		{ "( { combine = true; vendor = 0x15b3; }, { name = \"*\"; } )",
			"0000:5e:00.0 rxe0 unit " },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("%s\n", cases[i].match);
		assert_string_equal(net_found(made(RDMA "%s;", cases[i].match)), cases[i].ids);
	}
}

/* Nodes of a device, each with its permissions and a space behind it. */
static const char *nodes_of(const struct device *device)
{
	size_t used = 0;

	fixture_text[0] = '\0';
	for (size_t i = 0; i < device->n_nodes; i++) {
		assert_string_equal(device->nodes[i].host, device->nodes[i].path);
		used += (size_t)snprintf(fixture_text + used, sizeof(fixture_text) - used, "%s:%s ",
			device->nodes[i].host + strlen("/dev/infiniband/"),
			device->nodes[i].permissions);
	}
	return fixture_text;
}

static void test_nodes(void **state)
{
	_cleanup_config_ struct config *single = declare(RDMA "( { name = \"mlx5_2\"; } );");
	_cleanup_config_ struct config *all =
		declare(RDMA "( { combine = true; permissions = \"rwm\"; } );");
	_cleanup_scan_ struct scan one = { 0 }, together = { 0 };

	net_scan(single, &one);
	assert_int_equal(one.n_devices, 1);
	assert_string_equal(nodes_of(one.devices[0]), "uverbs2:rw issm2:rw umad2:rw rdma_cm:rw ");
	assert_string_equal(device_variable(one.devices[0], "rdma"), "mlx5_2");
	assert_string_equal(device_variable(one.devices[0], "sf"), "88");
	assert_int_equal(one.devices[0]->n_numa, 1);

	net_scan(all, &together);
	assert_int_equal(together.n_devices, 1);
	assert_string_equal(nodes_of(together.devices[0]),
		"uverbs0:rwm uverbs1:rwm uverbs2:rwm uverbs3:rwm issm0:rwm issm1:rwm issm2:rwm "
		"issm3:rwm umad0:rwm umad1:rwm umad2:rwm umad3:rwm rdma_cm:rwm ");
	assert_null(together.devices[0]->problem);
	for (size_t i = 0; i < together.devices[0]->n_nodes; i++)
		assert_true(together.devices[0]->nodes[i].shared);
}

/* RDMA in software has no PCI function, but the interface that it uses, or that is in a container.
 */
static void test_software(void **state)
{
	_cleanup_config_ struct config *declared =
		declare(RDMA "( { interface = \"ens785f0v1\"; } );");
	_cleanup_scan_ struct scan one = { 0 }, moved = { 0 };
	const struct device *device;

	net_scan(declared, &one);
	assert_int_equal(one.n_devices, 1);
	device = one.devices[0];
	assert_null(device->problem);
	assert_string_equal(nodes_of(device), "uverbs3:rw issm3:rw umad3:rw rdma_cm:rw ");
	assert_string_equal(device_variable(device, "rdma"), "rxe0");
	assert_string_equal(device_variable(device, "interface"), "ens785f0v1");
	assert_string_equal(
		device_variable(device, "sysfs"), "/sys/devices/virtual/infiniband/rxe0");
	assert_int_equal(device->n_numa, 1);
	assert_int_equal(device->numa[0], 1);

	host_remove("/sys/devices/virtual/infiniband/rxe0/ports/1/gid_attrs/ndevs/0");
	net_scan(declared, &moved);
	assert_int_equal(moved.n_devices, 0);
	assert_string_equal(net_found(RDMA "( { name = \"rxe*\"; } );"), "rxe0 ");
}

/* Each adapter is asked about, before several become one device. */
static void test_exclusions(void **state)
{
	_cleanup_config_ struct config *some = declare(RDMA
		"( { combine = true; } ); exclude = ( { match = ( { driver = \"mlx5*\"; } ); } );");
	_cleanup_scan_ struct scan scan = { 0 };

	net_scan(some, &scan);
	assert_int_equal(scan.n_devices, 1);
	assert_string_equal(nodes_of(scan.devices[0]),
		"uverbs1:rw uverbs3:rw issm1:rw issm3:rw umad1:rw umad3:rw rdma_cm:rw ");
	assert_string_equal(
		net_found(RDMA
			"( { name = \"*\"; } ); "
			"exclude = ( { match = ( { combine = true; name = \"mlx5_0\"; } ); } );"),
		"0000:5e:00.0 mlx5_core.sf.4 rxe0 ");
	expect_explained(RDMA
		"( { combine = true; } ); exclude = ( { match = ( { name = \"*\"; } ); } );",
		"exclude[0].match[0] leaves out 4 RDMA devices, so that no device is left\n");
	expect_explained(RDMA
		"( { combine = true; } ); exclude = ( { match = ( { vendor = 0x15b4; }, { name = \"mlx5_0\"; } ); } );",
		"exclude[0].match[0] leaves out none of 4 RDMA devices: vendor refused 4 (irdma0 has 0x8086)\n");

	/* The device that is made of all of them has an id and variables of its own. */
	expect_explained(RDMA "( { combine = true; } ); exclude = \"0000:d8:00.0\";",
		"exclude[0] leaves out no device\n");
	expect_explained(RDMA
		"( { combine = true; } ); exclude = ( { where = \"driver=mlx5_core\"; } );",
		"exclude[0] leaves out no device\n");

	/* The default of a key leaves out what has virtual functions, but not in `exclude`. */
	plant_function("0000:5e:01.0", "0x020000", "8086:1889", "vfio-pci");
	plant_vf("0000:5e:00.0", 0, "0000:5e:01.0");
	assert_string_equal(net_found(RDMA "( { role = \"pf\"; }, { role = \"vf\"; } ); "
					   "exclude = ( { match = ( { vendor = 0x8086; } ); } );"),
		"0000:d8:00.0 ");
}

#define CM_NOTE                                                                           \
	"/dev/infiniband/rdma_cm is missing, so containers get RDMA devices without the " \
	"connection manager: load the module rdma_ucm if their programs use it"

/* Whether a scan finds one healthy device with these nodes, and this note ("": none). */
static void expect_nodes(const char *match, const char *nodes, const char *note)
{
	_cleanup_config_ struct config *declared = declare(made(RDMA "%s;", match));
	_cleanup_scan_ struct scan scan = { 0 };

	net_scan(declared, &scan);
	assert_int_equal(scan.n_devices, 1);
	assert_null(scan.devices[0]->problem);
	assert_string_equal(nodes_of(scan.devices[0]), nodes);
	assert_string_equal(scan.notes.count > 0 ? scan.notes.items[0] : "", note);
}

/* The connection manager is for some programs only. */
static void test_without_connection_manager(void **state)
{
	host_remove("/dev/infiniband/rdma_cm");
	expect_nodes("( { name = \"irdma0\"; } )", "uverbs1:rw issm1:rw umad1:rw ", CM_NOTE);
	expect_nodes("( { combine = true; name = \"irdma0\"; } )", "uverbs1:rw issm1:rw umad1:rw ",
		CM_NOTE);
	host_mknod("/dev/infiniband/rdma_cm");
	expect_nodes("( { name = \"irdma0\"; } )", "uverbs1:rw issm1:rw umad1:rw rdma_cm:rw ", "");
	host_remove("/sys/class/infiniband_verbs/uverbs1/ibdev");
	assert_string_equal(net_found(RDMA "( { name = \"irdma0\"; } );"), "0000:5e:00.0! ");
}

#define EFA BRIDGE "/0000:5f:00.0"

/* Amazon's adapter has neither a connection manager nor a link layer of its own. */
static void plant_efa(void)
{
	plant_function("0000:5f:00.0", "0x020000", "1d0f:efa1", "efa");
	plant_infiniband(EFA, "efa_0", 7);
	host_write(EFA "/infiniband/efa_0/node_type", "7: unspecified\n");
	host_write(EFA "/infiniband/efa_0/ports/1/link_layer", "Unspecified\n");
	for (size_t i = 0; i < 2; i++) {
		const char *node = i == 0 ? "umad7" : "issm7";

		host_remove(made("/sys/class/infiniband_mad/%s/ibdev", node));
		host_remove(made("/dev/infiniband/%s", node));
	}
}

static void test_efa(void **state)
{
	plant_efa();
	expect_nodes("( { driver = \"efa\"; } )", "uverbs7:rw ", "");
	expect_nodes("( { combine = true; driver = \"efa\"; } )", "uverbs7:rw ", "");
	/* The others need it. */
	expect_nodes("( { combine = true; name = [ \"efa_0\", \"irdma0\" ]; } )",
		"uverbs1:rw uverbs7:rw issm1:rw umad1:rw rdma_cm:rw ", "");
	host_remove("/dev/infiniband/rdma_cm");
	expect_nodes("( { driver = \"efa\"; } )", "uverbs7:rw ", "");
	assert_string_equal(
		net_found(RDMA "( { kind = \"ether\"; } );"), "0000:5e:00.0 mlx5_core.sf.4 rxe0 ");
	assert_string_equal(net_found(RDMA "( { kind = \"infiniband\"; } );"), "0000:d8:00.0 ");
	expect_explained(RDMA "( { driver = \"efa\"; kind = \"ether\"; } );",
		"match[0]: 5 RDMA devices, none left: kind refused 2 (efa_0 has link layer "
		"\"Unspecified\"), driver refused 3 (irdma0 has \"ice\")\n");
}

/* What each type of device gets of a connection manager that exists. */
static void test_node_types(void **state)
{
	static const struct {
		const char *type;
		bool given, noted;
	} cases[] = {
		{ "1: CA", true, true },
		{ "4: RNIC", true, true },
		{ "2: switch", false, false },
		{ "5: usNIC", false, false },
		{ "6: usNIC UDP", false, false },
		{ "7: unspecified", false, false },
		/* It is not known. */
		{ NULL, true, false },
	};
	static const char type[] = BRIDGE "/0000:5e:00.0/infiniband/irdma0/node_type";

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (cases[i].type)
			host_write(type, made("%s\n", cases[i].type));
		else
			host_remove(type);
		expect_nodes("( { name = \"irdma0\"; } )",
			made("uverbs1:rw issm1:rw umad1:rw %s",
				cases[i].given ? "rdma_cm:rw " : ""),
			"");
		host_remove("/dev/infiniband/rdma_cm");
		expect_nodes("( { name = \"irdma0\"; } )", "uverbs1:rw issm1:rw umad1:rw ",
			cases[i].noted ? CM_NOTE : "");
		host_mknod("/dev/infiniband/rdma_cm");
	}
}

/* Nodes for subnet management need not exist. */
static void test_missing_management_nodes(void **state)
{
	host_remove("/dev/infiniband/issm1");
	expect_nodes("( { name = \"irdma0\"; } )", "uverbs1:rw umad1:rw rdma_cm:rw ", "");
	host_remove("/dev/infiniband/umad1");
	expect_nodes("( { name = \"irdma0\"; } )", "uverbs1:rw rdma_cm:rw ", "");
}

/* An adapter with a port of each kind. */
static void test_ports(void **state)
{
	host_mkdir(MELLANOX "/infiniband/mlx5_0/ports/2");
	host_write(MELLANOX "/infiniband/mlx5_0/ports/2/link_layer", "Ethernet\n");
	assert_string_equal(net_found(RDMA "( { kind = \"infiniband\"; } );"), "0000:d8:00.0 ");
	assert_string_equal(net_found(RDMA "( { kind = \"ether\"; } );"),
		"0000:5e:00.0 0000:d8:00.0 mlx5_core.sf.4 rxe0 ");
}

/* As long as the node of the adapter itself is not there, either. */
static void test_P20_missing_uverbs(void **state)
{
	_cleanup_config_ struct config *config = declare(RDMA "( { name = \"irdma0\"; } );");
	_cleanup_(inventory_freep) struct inventory *inventory = NULL;
	struct error error;

	host_remove("/dev/infiniband/uverbs1");
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, NULL, NULL,
				 &inventory),
		0);
	assert_int_equal(inventory_start(inventory, &error), 0);
	assert_string_equal(seen_in(inventory), "0000:5e:00.0! ");
	host_mknod("/dev/infiniband/uverbs1");
	RUN_UNTIL(streq(seen_in(inventory), "0000:5e:00.0 "));
	host_remove("/dev/infiniband/uverbs1");
	RUN_UNTIL(streq(seen_in(inventory), "0000:5e:00.0! "));
}

static void test_checks(void **state)
{
	static const struct {
		const char *match, *problem;
	} cases[] = {
		{ "( { combine = true; }, { combine = true; name = \"x\"; } )",
			"forms the device \"unit\"" },
		{ "( { permissions = \"x\"; } )", "permissions: " },
		{ "( { address = \"d8:00.0\"; } )", "must be a whole PCI address with its domain" },
		{ "( { address = \"mlx5_0\"; } )", "the name of a sub-function, such as" },
		{ "( { kind = \"roce\"; } )",
			"unknown kind \"roce\", the kinds are: ether, infiniband" },
		{ "( { device = 0x1017; } )", "device: has no meaning without \"vendor\"" },
		{ "( { vendor = ( ); } )",
			"vendor: must not be empty; remove it to match anything" },
		{ "( { name = ( ); } )", "name: must not be empty; remove it" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *problem = declare_problem(made(RDMA "%s;", cases[i].match));

		print_message("%s: %s\n", cases[i].match, problem);
		assert_non_null(strstr(problem, cases[i].problem));
	}
}

static void test_hostile(void **state)
{
	host_symlink("loop", "/sys/class/infiniband/loop");
	host_mkdir("/sys/devices/evil");
	host_symlink("/etc", "/sys/devices/evil/device");
	host_symlink("../../devices/evil", "/sys/class/infiniband/evil");
	host_remove(MELLANOX "/infiniband/mlx5_0/device");
	host_symlink("device", MELLANOX "/infiniband/mlx5_0/device");
	host_write("/sys/class/infiniband_verbs/uverbs1x", "");
	host_remove(BRIDGE "/0000:5e:00.0/infiniband/irdma0/ports/1/link_layer");
	assert_string_equal(net_found(RDMA "( { kind = \"ether\"; } );"), "mlx5_core.sf.4 rxe0 ");
	assert_string_equal(
		net_found(RDMA "( { name = \"*\"; } );"), "0000:5e:00.0 mlx5_core.sf.4 rxe0 ");
}

/* Why entries find nothing: the device of a bond belongs to one of its ports. */
static void test_explanations(void **state)
{
	host_mkdir("/sys/class/net/bond0/bonding");
	host_symlink("../../../../../../class/net/bond0", "/sys/class/net/ens2/master");
	expect_explained(RDMA "( { interface = \"bond0\"; } );",
		"match[0]: 4 RDMA devices, none left: interface refused 4 (irdma0 has ens2: bond0 is a bond "
		"of it)\n");
	expect_explained(RDMA "( { name = \"mlx5_0\"; vendor = 0x8086; } );",
		"match[0]: 4 RDMA devices, none left: name refused 3 (irdma0 has \"irdma0\"), vendor refused 1 "
		"(mlx5_0 has 0x15b3)\n");
	expect_explained(RDMA "( { combine = true; name = \"irdma*\"; kind = \"infiniband\"; } );",
		"match[0]: 4 RDMA devices, none left: name refused 3 (mlx5_0 has \"mlx5_0\"), kind refused 1 "
		"(irdma0 has \"ether\")\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_selection, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_nodes, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_software, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_exclusions, setup, host_teardown),
		cmocka_unit_test_setup_teardown(
			test_without_connection_manager, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_efa, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_node_types, setup, host_teardown),
		cmocka_unit_test_setup_teardown(
			test_missing_management_nodes, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_ports, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_P20_missing_uverbs, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_checks, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_hostile, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_explanations, setup, host_teardown),
	};

	log_setup("test-rdma", LOG_TARGET_TEXT, LOG_CRIT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
