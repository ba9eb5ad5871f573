/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "pci": which functions it selects, and which declarations it refuses.
 */
#include "explained-fixture.h"
#include "pci-machine-fixture.h"

static void test_no_bus(void **state)
{
	expect("{ vendor = 0x8086; }", "");
	expect("{ access = \"mdev\"; vendor = 0x8086; }", "");
}

static void test_what_it_is(void **state)
{
	plant_host();
	expect_ids("pci", "{ vendor = 0x8086; }", "0000:00:01.0 0000:6b:00.1 0000:6b:00.2 ");
	expect_ids("pci", "{ vendor = 0x8086; device = 0x1901; }", "0000:00:01.0 ");
	expect_ids("pci", "{ vendor = [ 0x10ee, 0x10de ]; device = [ 0x5001, 0x10f8, 0x4941 ]; }",
		"0000:03:00.1 0000:af:00.0 ");
	expect_ids("pci", "{ class = 0x12; }, { vendor = 0x10de; class = 0x0403; }",
		"0000:03:00.1 0000:af:00.0 ");
	expect_ids("pci", "{ class = [ 0x030200, 0x120001 ]; }", "0000:03:00.0 ");
	expect_ids("pci", "{ class = 0x0300; }", "");
	expect_ids("pci", "{ subsystem_vendor = 0x10ee; }", "0000:af:00.0 ");
	expect_ids(
		"pci", "{ subsystem_vendor = 0x10ee; subsystem_device = 0x0e; }", "0000:af:00.0 ");
	expect_ids("pci", "{ subsystem_vendor = 0x10ee; subsystem_device = 0x0f; }", "");
	expect_ids("pci", "{ driver = \"pci*\"; }", "0000:00:01.0 ");
	expect_ids("pci", "{ address = [ \"0000:03:*\", \"0000:af:00.0\" ]; }",
		"0000:03:00.0 0000:03:00.1 0000:af:00.0 ");
	expect_ids("pci", "{ address = \"0000:03:00.[1-7]\"; vendor = 0x10de; }", "0000:03:00.1 ");
}

static void test_roles(void **state)
{
	plant_host();
	expect_ids("pci", "{ vendor = 0x8086; role = \"pf\"; }", "0000:6b:00.0 ");
	expect_ids("pci", "{ vendor = 0x8086; role = \"vf\"; }", "0000:6b:00.1 0000:6b:00.2 ");
	assert_true(strings_contain(&scan.devices[0]->claims, "pci:0000:6b:00.1"));
	assert_true(strings_contain(&scan.devices[0]->claims, "<pci:0000:6b:00.0"));
	expect_variable_of(0, "pf", "0000:6b:00.0");
	expect_variable_of(0, "vf", "0");
	expect_variable_of(1, "vf", "1");
	expect_variable_of(0, "vendor", "0x8086");
	expect_variable_of(0, "device", "0x4941");
	expect_variable_of(0, "class", "0x0b4000");
	expect_variable_of(0, "bdf", "0000:6b:00.1");
	expect_variable_of(0, "driver", NULL);
	assert_int_equal(scan.devices[0]->numa[0], 1);
	expect_ids("pci", "{ vendor = 0x8086; role = \"plain\"; }", "0000:00:01.0 ");
	expect_variable_of(0, "driver", "pcieport");
	expect_variable_of(0, "pf", NULL);
	expect_variable_of(0, "vf", NULL);
	expect_ids("pci", "{ pf = \"0000:6b:00.0\"; }", "0000:6b:00.1 0000:6b:00.2 ");
	expect_ids("pci", "{ pf = \"ens6f*\"; functions = \"1-3\"; }", "0000:6b:00.2 ");
	expect_ids("pci", "{ pf = \"ens6f0\"; functions = \"0,2-5\"; role = \"vf\"; }",
		"0000:6b:00.1 ");
	expect_ids("pci", "{ vendor = 0x8086; functions = \"1\"; }", "0000:6b:00.2 ");
	expect_ids("pci", "{ pf = [ \"eth0\", \"0000:6c:*\" ]; }", "");
	/* In switchdev mode: a port of the card's switch, and a physical port that is split. */
	pci_write("0000:6b:00.0", "net/ens6f0/phys_port_name", "p0s1\n");
	pci_write("0000:6b:00.0", "net/ens6f0_0/phys_port_name", "pf0vf0\n");
	expect_ids("pci", "{ pf = \"ens6f0\"; }", "0000:6b:00.1 0000:6b:00.2 ");
	expect_ids("pci", "{ pf = \"ens6f0_0\"; }", "");

	/* Without virtual functions it is a device like others. */
	host_remove(PCI_ROOT "/0000:6b:00.0/virtfn0");
	expect_ids("pci", "{ device = 0x4940; vendor = 0x8086; }", "0000:6b:00.0 ");
}

static void test_attributes(void **state)
{
	plant_host();
	pci_write("0000:6b:00.0", "qat/cfg_services", "sym;asym\n");
	expect_ids("pci",
		"{ vendor = 0x8086; attributes = ( { file = \"physfn/qat/cfg_services\"; "
		"is = ( \"asym;sym\", \"sym;asym\" ); } ); }",
		"0000:6b:00.1 0000:6b:00.2 ");
	expect_ids("pci",
		"{ vendor = 0x8086; attributes = ( { file = \"physfn/qat/cfg_services\"; "
		"is = \"dc\"; } ); }, { class = 0x12; }",
		"0000:af:00.0 ");
}

static void test_check(void **state)
{
	static const struct {
		const char *match, *problem;
	} cases[] = {
		{ "{ access = \"vfio\"; }",
			"match[0]: would match any function of the bus: add a vendor" },
		{ "{ device = 0x10; class = 3; }", "device: has no meaning without \"vendor\"" },
		{ "{ subsystem_device = 0x10; class = 3; }",
			"subsystem_device: has no meaning without \"subsystem_vendor\"" },
		{ "{ vendor = 0x10000; }", "vendor: must be from 0 to 65535, not 65536" },
		{ "{ vendor = \"8086\"; }", "vendor: must be a whole number or a list of them" },
		{ "{ class = 0; }", "class: must be from 1 to 16777215, not 0" },
		{ "{ address = \"03:00.0\"; }", "must be a whole PCI address with its domain" },
		{ "{ address = \"0000:AF:00.0\"; }", "in lower case, not \"0000:AF:00.0\"" },
		{ "{ pf = \"eth0\"; role = \"pf\"; }", "role: must be \"vf\" or absent" },
		{ "{ vendor = 1; functions = \"0\"; role = \"plain\"; }",
			"role: must be \"vf\" or absent" },
		{ "{ pf = \"eth0\"; functions = \"0-\"; }",
			"must be numbers and ranges such as \"0-3,5\", without spaces, not \"0-\"" },
		{ "{ pf = \"eth0\"; functions = \"3-1\"; }", "not \"3-1\"" },
		{ "{ pf = \"eth0\"; functions = \"1,\"; }", "not \"1,\"" },
		{ "{ pf = \"eth0\"; functions = \"1;2\"; }", "not \"1;2\"" },
		{ "{ pf = \"eth0\"; functions = \"-1\"; }", "not \"-1\"" },
		{ "{ pf = \"eth0\"; functions = \"4294967296\"; }", "not \"4294967296\"" },
		{ "{ vendor = 1; iommu_group = \"ignore\"; }",
			"iommu_group: is only for access = \"vfio\" and \"vfio-cdev\", remove it" },
		{ "{ vendor = 1; access = \"vfio\"; nodes = \"/dev/x\"; }",
			"is only for access = \"nodes\", remove it" },
		{ "{ vendor = 1; nodes = \"dev/x\"; }", "must be an absolute path" },
		{ "{ vendor = 1; mdev_type = \"x\"; }",
			"is only for access = \"mdev\", remove it" },
		{ "{ vendor = 1; attributes = ( { file = \"a\"; property = \"b\"; is = \"c\"; } ); }",
			"\"file\"" },
		{ "{ vendor = 1; attributes = ( \"a\", { } ); }",
			"match[0].attributes[1]: an entry has either" },
		{ "{ pf = \"3b:00.0\"; }", "must be a whole PCI address with its domain" },
		{ "{ vendor = 1; permissions = \"x\"; }", "permissions: must consist of" },
		{ "{ vendor = 1; access = \"vfoi\"; }", "did you mean \"vfio\"?" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *problem = NULL, *text = NULL;

		assert_true(
			asprintf(&text, "driver = \"pci\"; match = ( %s );", cases[i].match) > 0);
		problem = declare_problem(text);
		if (!strstr(problem, cases[i].problem))
			fail_msg("%s: %s", cases[i].match, problem);
	}
}

static void test_claims(void **state)
{
	_cleanup_strings_ struct strings claims = { 0 };

	config = declare(
		"driver = \"pci\"; match = (\n"
		"{ address = [ \"0000:03:00.0\", \"0000:0[4-5]:00.0\", \"0000:06:00.0\" ]; },\n"
		"{ address = \"0000:07:00.0\"; driver = \"vfio-pci\"; },\n"
		"{ address = \"0000:08:00.0\"; access = \"mdev\"; } );");
	assert_int_equal(
		declaration_of(config)->driver->claims(declaration_of(config), &claims), 0);
	assert_int_equal(claims.count, 2);
	assert_string_equal(claims.items[0], "0000:03:00.0");
	assert_string_equal(claims.items[1], "0000:06:00.0");
}

/* Why entries find nothing. */
static void test_explanations(void **state)
{
	host_mkdir("/sys");
	expect_explained("driver = \"pci\"; match = ( { vendor = 0x8086; } );",
		"match[0]: the host has no PCI function\n");
	pci_plant("0000:03:00.0", "0x8086", "0x1572", "0x020000");
	pci_plant("0000:04:00.0", "0x10de", "0x2204", "0x030000");
	pci_plant("0000:03:02.0", "0x8086", "0x154c", "0x020000");
	pci_make_virtual("0000:03:02.0", "0000:03:00.0", 0);
	pci_write("0000:03:00.0", "sriov_totalvfs", "4\n");
	pci_write("0000:03:00.0", "net/enp3s0/x", "");
	pci_bind("0000:04:00.0", "nouveau");
	pci_write("0000:04:00.0", "enable", "0\n");
	expect_explained("driver = \"pci\"; match = ( { class = 300; } );",
		"match[0]: 3 PCI functions, none left: class refused 3 (0000:04:00.0 has 0x030000: write "
		"0x)\n");
	expect_explained(
		"driver = \"pci\"; match = ( { vendor = 0x10de; driver = \"vfio-pci\"; } );",
		"match[0]: 3 PCI functions, none left: vendor refused 2 (0000:03:00.0 has 0x8086), driver "
		"refused 1 (0000:04:00.0 has \"nouveau\")\n");
	expect_explained("driver = \"pci\"; match = ( { address = \"0000:03:00.0\"; } );",
		"match[0]: 3 PCI functions, none left: address refused 2 (0000:03:02.0 has \"0000:03:02.0\"), "
		"role refused 1 (0000:03:00.0 has virtual functions)\n");
	expect_explained(
		"driver = \"pci\"; match = ( { vendor = 0x8086; pf = \"p2p1\"; role = \"vf\"; } );",
		"match[0]: 3 PCI functions, none left: vendor refused 1 (0000:04:00.0 has 0x10de), role "
		"refused 1 (0000:03:00.0 has virtual functions), pf refused 1 (0000:03:02.0 has 0000:03:00.0, interface enp3s0)\n");
	expect_explained(
		"driver = \"pci\"; match = ( { vendor = 0x8086; functions = \"1-3\"; }, { vendor = 0x10de; attributes = ( { file = \"enable\"; is = \"1\"; } ); } );",
		"match[0]: 3 PCI functions, none left: vendor refused 1 (0000:04:00.0 has 0x10de), role "
		"refused 1 (0000:03:00.0 has virtual functions), functions refused 1 (0000:03:02.0 has number 0)\n"
		"match[1]: 3 PCI functions, none left: vendor refused 2 (0000:03:00.0 has 0x8086), attributes refused 1 (0000:04:00.0 has \"0\" in file enable)\n");
	expect_explained("driver = \"pci\"; match = ( { access = \"mdev\"; vendor = 0x10de; } );",
		"match[0]: the host has no mediated device\n");
	expect_explained(
		"driver = \"pci\"; match = ( { driver = \"nouveau\"; address = \"*\"; }, { address = \"0000:04:00.0\"; } );",
		"match[1]: 2 PCI functions, none left: address refused 2 (0000:03:00.0 has \"0000:03:00.0\")\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_no_bus),
		TEST(test_what_it_is),
		TEST(test_roles),
		TEST(test_attributes),
		TEST(test_check),
		TEST(test_claims),
		TEST(test_explanations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
