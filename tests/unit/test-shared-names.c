/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that two resources give to different things in one container.
 */
#include "config-fixture.h"

#include "configuration/shared-names.h"
#include "configuration/warnings.h"

/* "kind name key" of each, a line each. */
static void on_name(const struct shared_name *shared, void *userdata)
{
	char *text = userdata;
	size_t length = strlen(text);

	assert_string_equal(shared->other->name, "v.e/a");
	assert_string_equal(shared->declaration->name, "v.e/b");
	assert_non_null(shared->origin->file);
	(void)snprintf(
		text + length, 512 - length, "%s %s %s\n", shared->kind, shared->name, shared->key);
}

static void expect(const char *first, const char *second, const char *expected)
{
	_cleanup_config_ struct config *config = NULL;
	char text[2048], found[512] = "";

	(void)snprintf(text, sizeof(text),
		"resources = ( { name = \"v.e/a\"; %s }, { name = \"v.e/b\"; %s } );", first,
		second);
	config = load(text);
	assert_int_equal(shared_names_find(config, on_name, found), 0);
	assert_string_equal(found, expected);
}

#define ENV(id, env) \
	"driver = \"static\"; match = \"" id "\"; container = { env = ( \"" env "\" ); };"

static void test_variables(void **state)
{
	static const char qat[] = "preset = \"qat-vf\"; overlap = true;";

	expect(ENV("x", "FPGA=${id}"), ENV("y", "FPGA=${id}"), "variable FPGA container.env[0]\n");
	expect(ENV("x", "FPGA=a"), ENV("y", "FPGA=b"), "variable FPGA container.env[0]\n");
	expect(ENV("x", "FPGA=${n}"), ENV("y", "FPGA=1"), "variable FPGA container.env[0]\n");
	/* The original's names. A container has a device at position 0, at least. */
	expect(ENV("x", "QAT${position}=${id}"), ENV("y", "QAT${position}=${id}"),
		"variable QAT0 container.env[0]\n");
	expect(ENV("x", "QAT${position}=${id}"), ENV("y", "QAT0=${id}"),
		"variable QAT0 container.env[0]\n");

	expect(ENV("x", "FPGA=a"), ENV("y", "FPGA=a"), "");
	expect(ENV("x", "FPGA=${id}"), ENV("y", "FPGA_2=${id}"), "");
	expect(ENV("x", "${env_name}=${id}"), ENV("y", "${env_name}=${id}"), "");
	expect(ENV("x", "V_E_B=${id}"), ENV("y", "${env_name}=${id}"),
		"variable V_E_B container.env[0]\n");
	/* Whether these are equal depends on the devices. */
	expect(ENV("x", "D_${hash}=${id}"), ENV("y", "D_${hash}=${id}"), "");
	expect(qat, qat, "");
}

static void test_annotations(void **state)
{
	expect("driver = \"static\"; match = \"x\"; container = { annotations = ( \"v.e/card=${ids}\" ); };",
		"driver = \"static\"; match = \"y\"; container = { annotations = ( \"v.e/card=${ids}\" ); };",
		"annotation v.e/card container.annotations[0]\n");
}

static void test_variables_of_the_driver(void **state)
{
	static const char runtime[] = "driver = \"nvidia\"; match = ( { expose = \"runtime\"; } );";
	static const char nodes[] = "driver = \"nvidia\"; match = ( { } );";
	static const char cdi[] = "driver = \"nvidia\"; match = ( { expose = \"cdi\"; } );";

	expect(runtime, runtime, "variable NVIDIA_VISIBLE_DEVICES match\n");
	expect(nodes, runtime, "variable NVIDIA_VISIBLE_DEVICES match\n");
	expect(nodes, nodes, "");
	expect(cdi, runtime, "");
	/* The configuration takes precedence. */
	expect(runtime,
		"driver = \"nvidia\"; match = ( { expose = \"runtime\"; } ); container = { env = ( \"NVIDIA_VISIBLE_DEVICES=all\" ); };",
		"variable NVIDIA_VISIBLE_DEVICES container.env[0]\n");
}

#define AS(path, as) "driver = \"path\"; match = ( { path = \"" path "\"; as = \"" as "\"; } );"

static void test_paths(void **state)
{
	expect(AS("/dev/serial/by-id/*A*", "/dev/ttyS0"), AS("/dev/serial/by-id/*B*", "/dev/ttyS0"),
		"path /dev/ttyS0 match[0]\n");
	expect(AS("/dev/ttyUSB0", "/dev/ttyS0"), AS("/dev/ttyUSB1", "/dev/ttyS0"),
		"path /dev/ttyS0 match[0]\n");
	expect(AS("/dev/ttyUSB0", "/dev/ttyS0"), AS("/dev/ttyUSB1", "/dev/ttyS1"), "");
	expect(AS("/dev/ttyUSB0", "/dev/"), AS("/dev/ttyUSB1", "/dev/"), "");
	/* A path that may be many is not compared. */
	expect("driver = \"path\"; match = \"/dev/a*\";", "driver = \"path\"; match = \"/dev/b*\";",
		"");
	/* The same node, of any driver's devices. */
	expect("driver = \"static\"; match = \"x\"; container = { nodes = ( \"/dev/kfd\", \"?/dev/b\" ); };",
		"driver = \"static\"; match = \"y\"; container = { nodes = ( \"?/dev/kfd\", { host = \"/dev/c\"; path = \"/dev/b\"; } ); };",
		"path /dev/b container.nodes[1]\n");
	expect("driver = \"static\"; match = \"x\"; container = { mounts = ( { host = \"/a\"; path = \"/m\"; } ); };",
		"driver = \"static\"; match = \"y\"; container = { mounts = ( { host = \"/b\"; path = \"/m\"; } ); };",
		"path /m container.mounts[0]\n");
}

static void test_warning(void **state)
{
	_cleanup_report_ struct report report = { 0 };
	_cleanup_config_ struct config *config = load(
		"resources = (\n{ name = \"v.e/a\"; driver = \"static\"; match = \"x\"; container = { env = ( \"F=${id}\" ); }; },\n"
		"{ name = \"v.e/b\"; driver = \"static\"; match = \"y\"; container = { env = ( \"F=${id}\" ); }; } );");
	char expected[512];

	assert_int_equal(config_warnings(config, &report), 0);
	assert_int_equal(report.count, 1);
	(void)snprintf(expected, sizeof(expected),
		"resources[1] \"v.e/b\": container.env[0]: resources[0] \"v.e/a\" at %s:2 also uses the variable \"F\": a container with devices of both gets only one of the two, so choose another name, such as one with ${env_name}",
		main_file);
	assert_string_equal(report.entries[0].text, expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_variables),
		cmocka_unit_test(test_annotations),
		cmocka_unit_test(test_variables_of_the_driver),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_warning),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
