/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes that look once in an interval: "exists", "sysfs" and "pci", of a card in a tree.
 * docs/complaints.md: W6.
 */
#include "inventory-fixture.h"

#include "common/log.h"

#define CARD "/sys/devices/pci0000:00/0000:03:00.0"

static int setup(void **state)
{
	int r = host_setup(state);

	log_setup("test-health-poll", LOG_TARGET_TEXT, LOG_CRIT);
	host_mkdir(CARD "/drm/card0");
	host_symlink("../..", CARD "/drm/card0/device");
	host_write(CARD "/drm/card0/uevent", "DEVNAME=dri/card0\n");
	host_mkdir("/sys/class/drm");
	host_symlink("../../devices/pci0000:00/0000:03:00.0/drm/card0", "/sys/class/drm/card0");
	host_mkdir("/sys/bus/pci/devices");
	host_symlink(
		"../../../devices/pci0000:00/0000:03:00.0", "/sys/bus/pci/devices/0000:03:00.0");
	return r;
}

static void start_with(const char *driver, const char *probe)
{
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, "%s health = ( { interval = 0.1; %s } );", driver, probe) > 0);
	start(text);
}

static void start_probe(const char *probe)
{
	start_with("driver = \"drm\"; match = ( {} );", probe);
}

/* Why the card is not healthy; "" if it is. */
static const char *reason(void)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	static char text[512];

	assert_int_equal(snapshot->n_units, 1);
	(void)snprintf(text, sizeof(text), "%s", snapshot->units[0].reason ?: "");
	return text;
}

static void test_exists(void **state)
{
	start_probe("probe = \"exists\"; path = \"/run/ready/${bdf}\";");
	assert_string_equal(reason(), "/run/ready/0000:03:00.0 is missing");
	host_mkdir("/run/ready/0000:03:00.0");
	RUN_UNTIL(streq(reason(), ""));
	host_remove("/run/ready/0000:03:00.0");
	RUN_UNTIL(streq(reason(), "/run/ready/0000:03:00.0 is missing"));
}

static void test_attribute(void **state)
{
	static char mebibyte[1 << 20];

	start_probe("probe = \"sysfs\"; file = \"enable\"; healthy = \"1\";");
	assert_string_equal(reason(), "enable is missing");
	host_write(CARD "/enable", "1\n");
	RUN_UNTIL(streq(reason(), ""));
	host_write(CARD "/enable", "0\n");
	RUN_UNTIL(streq(reason(), "enable is 0"));
	host_write(CARD "/enable", "\n");
	RUN_UNTIL(streq(reason(), "enable is empty"));
	host_write(CARD "/enable", "a\033[1mb\n");
	RUN_UNTIL(strstr(reason(), "enable cannot be read: "));
	memset(mebibyte, '1', sizeof(mebibyte) - 1);
	host_write(CARD "/enable", mebibyte);
	RUN_UNTIL(streq(reason(), "enable cannot be read: File too large"));
	host_write(CARD "/enable", "1");
	RUN_UNTIL(streq(reason(), ""));
}

static void test_bad_content(void **state)
{
	start_probe(
		"probe = \"sysfs\"; file = \"../0000:03:00.0/status\"; unhealthy = \"-1\"; missing = "
		"\"healthy\";");
	assert_string_equal(reason(), "");
	host_write(CARD "/status", "-1\n");
	RUN_UNTIL(streq(reason(), "../0000:03:00.0/status is -1"));
	host_write(CARD "/status", "anything\n");
	RUN_UNTIL(streq(reason(), ""));
}

static void test_without_directory(void **state)
{
	start_with("driver = \"static\"; match = \"a\";", "probe = \"sysfs\"; file = \"x\";");
	assert_string_equal(reason(), "it has no directory in /sys");
	start_with("driver = \"static\"; match = \"a\";", "probe = \"pci\";");
	assert_string_equal(reason(), "it has no PCI address");
}

#define FELL_OFF \
	"0000:03:00.0 does not answer on the PCI bus: reseat it or power the host off and on"

static void test_pci(void **state)
{
	host_write(CARD "/config", "\x02\x10\xa1\x74 and so on");
	start_probe("probe = \"pci\"; fail_after = 2;");
	assert_string_equal(reason(), "");
	host_write(CARD "/config", "\xff\xff\xff\xff\xff\xff");
	RUN_UNTIL(streq(reason(), FELL_OFF));
	host_write(CARD "/config", "\x02\x10\xa1\x74");
	RUN_UNTIL(streq(reason(), ""));

	/* One that sleeps is not woken. */
	host_mkdir(CARD "/power");
	host_write(CARD "/power/runtime_status", "suspended\n");
	host_write(CARD "/config", "\xff\xff\xff\xff");
	run_for(500 * USEC_PER_MSEC);
	assert_string_equal(reason(), "");
	host_write(CARD "/power/runtime_status", "active\n");
	RUN_UNTIL(streq(reason(), FELL_OFF));
	host_remove(CARD "/config");
	RUN_UNTIL(strstr(reason(), "/config cannot be read: No such file"));
}

static void test_keys(void **state)
{
	static const struct {
		const char *probe, *problem;
	} cases[] = {
		{ "probe = \"sysfs\";", "health[0].file: is missing" },
		{ "probe = \"pci\"; healthy = \"1\";",
			"health[0].healthy: is only for probe = \"file\" or \"sysfs\", remove it" },
		{ "probe = \"file\"; path = \"/x\"; unhealthy = \"1\";",
			"health[0].unhealthy: is only for probe = \"sysfs\", remove it" },
		{ "probe = \"exists\"; path = \"x\";", "health[0].path: must be an absolute path" },
		{ "probe = \"sysfs\"; file = \"${ids}\";", "health[0].file: must not use ${ids}" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL, *problem = NULL;

		assert_true(
			asprintf(&text, "driver = \"drm\"; match = ( {} ); health = ( { %s } );",
				cases[i].probe) > 0);
		problem = declare_problem(text);
		if (!strstr(problem, cases[i].problem))
			fail_msg("%s: %s", cases[i].probe, problem);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_exists, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_attribute, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_bad_content, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_without_directory, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_pci, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_keys, setup, inventory_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
