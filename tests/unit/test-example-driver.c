/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver that CONTRIBUTING.md has a contributor copy: it builds, and finds what a tree has.
 * This program has the table of drivers of its own, in place of that of the library.
 */
#include "docs/contributing/example-driver.c"

#include "explained-fixture.h"

#include "drivers/host/scan-run.h"

const struct driver *const drivers[] = { &example_driver, NULL };

const struct driver *driver_find(const char *name)
{
	return streq(name, example_driver.name) ? &example_driver : NULL;
}

#define SENSORS     "driver = \"example\"; match = "
#define SENSORS_DIR "/sys/bus/iio/devices"

static void plant(const char *name, const char *chip, bool node)
{
	host_mkdir(made(SENSORS_DIR "/%s", name));
	host_write(made(SENSORS_DIR "/%s/name", name), chip);
	host_write(made(SENSORS_DIR "/%s/uevent", name), node ? made("DEVNAME=%s\n", name) : "\n");
}

static int setup(void **state)
{
	if (host_setup(state) < 0)
		return -1;
	plant("iio:device0", "bme280\n", true);
	plant("iio:device1", "bme280\n", false);
	plant("iio:device2", "ads1015\n", true);
	return 0;
}

static void test_devices(void **state)
{
	_cleanup_config_ struct config *config =
		declare(SENSORS "\"bme*\"; container = { env = \"SENSOR=${chip}\"; };");
	_cleanup_scan_ struct scan scan = { .root = host_root };
	struct error error;

	assert_int_equal(example_list(declaration_of(config), &scan, &error), 0);
	assert_int_equal(scan.n_devices, 2);
	assert_string_equal(scan.devices[0]->id, "iio:device0");
	assert_string_equal(scan.devices[0]->nodes[0].host, "/dev/iio:device0");
	assert_string_equal(device_variable(scan.devices[0], "chip"), "bme280");
	assert_string_equal(scan.devices[1]->problem, "it has no device node: load its driver");
}

static void test_explanation(void **state)
{
	expect_explained(SENSORS "\"lm75\";",
		"match[0]: 3 sensors, none left: chip refused 3 (iio:device0 has \"bme280\")\n");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_devices, setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_explanation, setup, host_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
