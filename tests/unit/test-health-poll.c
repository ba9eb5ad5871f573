/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes that read once in an interval: "exists", "sysfs" and "pci", of a card in a tree.
 * complaints.md: W6.
 */
#include "health-fixture.h"

#include "common/log.h"
#include "drivers/host/sysfs.h"

static int setup(void **state)
{
	int r = host_setup(state);

	log_setup("test-health-poll", LOG_TARGET_TEXT, LOG_CRIT);
	health_make_card();
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

static void test_exists(void **state)
{
	start_probe("probe = \"exists\"; path = \"/run/ready/${bdf}\";");
	assert_string_equal(reason(0), "/run/ready/0000:03:00.0 is missing");
	host_mkdir("/run/ready/0000:03:00.0");
	RUN_UNTIL(streq(reason(0), ""));
	host_remove("/run/ready/0000:03:00.0");
	RUN_UNTIL(streq(reason(0), "/run/ready/0000:03:00.0 is missing"));
}

static void test_attribute(void **state)
{
	static char mebibyte[1 << 20];

	start_probe("probe = \"sysfs\"; file = \"enable\"; healthy = \"1\";");
	assert_string_equal(reason(0), "enable is missing");
	host_write(CARD "/enable", "1\n");
	RUN_UNTIL(streq(reason(0), ""));
	host_write(CARD "/enable", "0\n");
	RUN_UNTIL(streq(reason(0), "enable is 0"));
	host_write(CARD "/enable", "\n");
	RUN_UNTIL(streq(reason(0), "enable is empty"));
	host_write(CARD "/enable", "a\033[1mb\n");
	RUN_UNTIL(strstr(reason(0), "enable cannot be read: "));
	memset(mebibyte, '1', sizeof(mebibyte) - 1);
	host_write(CARD "/enable", mebibyte);
	RUN_UNTIL(streq(reason(0), "enable cannot be read: File too large"));
	host_write(CARD "/enable", "1");
	RUN_UNTIL(streq(reason(0), ""));
}

static void test_bad_content(void **state)
{
	start_probe(
		"probe = \"sysfs\"; file = \"../0000:03:00.0/status\"; unhealthy = \"-1\"; missing = "
		"\"healthy\";");
	assert_string_equal(reason(0), "");
	host_write(CARD "/status", "-1\n");
	RUN_UNTIL(streq(reason(0), "../0000:03:00.0/status is -1"));
	host_write(CARD "/status", "anything\n");
	RUN_UNTIL(streq(reason(0), ""));
}

/* AMD's counters of uncorrectable errors: drivers/gpu/drm/amd/amdgpu/amdgpu_ras.c. */
static void test_patterns(void **state)
{
	start_probe("probe = \"sysfs\"; file = \"ras/*_err_count\"; healthy = \"ue: 0 *\";");
	assert_string_equal(reason(0), "ras/*_err_count is missing");
	host_mkdir(CARD "/ras");
	host_write(CARD "/ras/gfx_err_count", "ue: 0\nce: 12\n");
	host_write(CARD "/ras/umc_err_count", "ue: 0\nce: 0\n");
	host_write(CARD "/ras/features", "feature mask: 0x0\n");
	RUN_UNTIL(streq(reason(0), ""));
	host_write(CARD "/ras/umc_err_count", "ue: 1\nce: 0\n");
	RUN_UNTIL(streq(reason(0), "ras/umc_err_count is ue: 1 ce: 0"));
	host_write(CARD "/ras/umc_err_count", "ue: 0\nce: 0\n");
	RUN_UNTIL(streq(reason(0), ""));
}

/* Errors of the link to a card: Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats. */
static void test_bad_pattern(void **state)
{
	start_probe("probe = \"sysfs\"; file = \"aer_dev_fatal\"; unhealthy = \"*TOTAL_ERR_FATAL "
		    "[1-9]*\"; missing = \"healthy\";");
	assert_string_equal(reason(0), "");
	host_write(CARD "/aer_dev_fatal", "Undefined 0\nDLP 0\nTOTAL_ERR_FATAL 0\n");
	RUN_UNTIL(streq(reason(0), ""));
	host_write(CARD "/aer_dev_fatal", "Undefined 0\nDLP 1\nTOTAL_ERR_FATAL 1\n");
	RUN_UNTIL(streq(reason(0), "aer_dev_fatal is Undefined 0 DLP 1 TOTAL_ERR_FATAL 1"));
}

static void test_too_many_files(void **state)
{
	host_mkdir(CARD "/counters");
	for (int i = 0; i <= SYSFS_MATCHES_MAX; i++) {
		char name[128];

		(void)snprintf(name, sizeof(name), CARD "/counters/c%d", i);
		host_write(name, "0\n");
	}
	start_probe("probe = \"sysfs\"; file = \"counters/c*\"; healthy = \"0\";");
	assert_string_equal(reason(0), "counters/c* cannot be listed: Argument list too long");
	host_remove(CARD "/counters/c0");
	RUN_UNTIL(streq(reason(0), ""));
}

/* Limits of Intel's GPU plugin: -temp-limit. */
static void test_maximum(void **state)
{
	start_probe("probe = \"sysfs\"; file = \"hwmon/hwmon*/temp*_input\"; maximum = 100000;");
	assert_string_equal(reason(0), "hwmon/hwmon*/temp*_input is missing");
	host_mkdir(CARD "/hwmon/hwmon2");
	RUN_UNTIL(streq(reason(0), "hwmon/hwmon*/temp*_input is missing"));
	host_write(CARD "/hwmon/hwmon2/temp2_input", "100000\n");
	host_write(CARD "/hwmon/hwmon2/temp3_input", "-5000\n");
	RUN_UNTIL(streq(reason(0), ""));
	host_write(CARD "/hwmon/hwmon2/temp3_input", "100001\n");
	RUN_UNTIL(streq(reason(0), "hwmon/hwmon2/temp3_input is 100001, the maximum is 100000"));
	host_write(CARD "/hwmon/hwmon2/temp3_input", "hot\n");
	RUN_UNTIL(streq(reason(0), "hwmon/hwmon2/temp3_input is hot, the maximum is 100000"));
	host_remove(CARD "/hwmon/hwmon2/temp3_input");
	RUN_UNTIL(streq(reason(0), ""));
}

static void test_alternatives(void **state)
{
	start_probe("probe = \"sysfs\"; file = \"state\"; healthy = [ \"1\", \"[3-5]\" ];");
	assert_string_equal(reason(0), "state is missing");
	for (int i = 0; i < 8; i++) {
		bool healthy = i == 1 || (i >= 3 && i <= 5);

		host_write(CARD "/state", made("%d\n", i));
		RUN_UNTIL(streq(reason(0), healthy ? "" : made("state is %d", i)));
	}
}

static void test_changes(void **state)
{
	host_write(CARD "/heartbeat", "1\n");
	start_probe("probe = \"sysfs\"; file = \"heart*\"; changes_within = 0.5;");
	assert_string_equal(reason(0), "");
	RUN_UNTIL(streq(reason(0), "heart* has not changed for 0.5 s"));
	host_write(CARD "/heartbeat", "2\n");
	RUN_UNTIL(streq(reason(0), ""));
	RUN_UNTIL(streq(reason(0), "heart* has not changed for 0.5 s"));
	host_write(CARD "/heart2", "2\n");
	RUN_UNTIL(streq(reason(0), ""));
	host_remove(CARD "/heart2");
	host_remove(CARD "/heartbeat");
	RUN_UNTIL(streq(reason(0), "heart* is missing"));
	host_write(CARD "/heartbeat", "2\n");
	/* It is not healthy before it changes. */
	RUN_UNTIL(streq(reason(0), "heart* has not changed for 0.5 s"));
	host_write(CARD "/heartbeat", "3\n");
	RUN_UNTIL(streq(reason(0), ""));
}

static void on_scanned(struct inventory *scanned, void *userdata)
{
}

/* A device that changes all the time. */
static void test_changes_of_the_device(void **state)
{
	host_write(CARD "/heartbeat", "1\n");
	start_probe("probe = \"sysfs\"; file = \"heartbeat\"; changes_within = 1;");
	for (unsigned i = 0; !*reason(0); i++) {
		assert_true(i < 100);
		host_write(CARD "/device", made("0x%04x\n", i));
		inventory_scan(inventory, on_scanned);
		run_for(200 * USEC_PER_MSEC);
	}
	assert_string_equal(reason(0), "heartbeat has not changed for 1 s");
}

static void test_without_directory(void **state)
{
	start_with("driver = \"static\"; match = \"a\";", "probe = \"sysfs\"; file = \"x\";");
	assert_string_equal(reason(0), "it has no directory in /sys");
}

#define FELL_OFF \
	"0000:03:00.0 does not answer on the PCI bus: reseat it or power the host off and on"

static void test_pci(void **state)
{
	host_write(CARD "/config", "\x02\x10\xa1\x74 and so on");
	start_probe("probe = \"pci\"; fail_after = 2;");
	assert_string_equal(reason(0), "");
	host_write(CARD "/config", "\xff\xff\xff\xff\xff\xff");
	RUN_UNTIL(streq(reason(0), FELL_OFF));
	host_write(CARD "/config", "\x02\x10\xa1\x74");
	RUN_UNTIL(streq(reason(0), ""));
	host_write(CARD "/config", "\xff\xff\xff\xff");
	RUN_UNTIL(streq(reason(0), FELL_OFF));
	/* The ids of a virtual function are ones while it answers. */
	host_write(CARD "/config", "\xff\xff\xff\xff\x06\x04\x10");
	RUN_UNTIL(streq(reason(0), ""));

	/* One that sleeps is not woken. */
	host_mkdir(CARD "/power");
	host_write(CARD "/power/runtime_status", "suspended\n");
	host_write(CARD "/config", "\xff\xff\xff\xff");
	run_for(500 * USEC_PER_MSEC);
	assert_string_equal(reason(0), "");
	host_write(CARD "/power/runtime_status", "active\n");
	RUN_UNTIL(streq(reason(0), FELL_OFF));
	host_remove(CARD "/config");
	RUN_UNTIL(strstr(reason(0), "/config cannot be read: No such file"));
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
		cmocka_unit_test_setup_teardown(test_patterns, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_bad_pattern, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_maximum, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_alternatives, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_changes, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_changes_of_the_device, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_too_many_files, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_without_directory, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_pci, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_keys, setup, inventory_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
