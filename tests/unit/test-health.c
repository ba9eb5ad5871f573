/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probe results counted alone, then of units that come and go and of programs, through an
 * inventory. complaints.md: W6, M5.
 */
#include "health-fixture.h"

#include <sys/mman.h>

#include "common/log.h"
#include "drivers/health/probe-result.h"

static int setup(void **state)
{
	int r = host_setup(state);

	log_setup("test-health", LOG_TARGET_TEXT, LOG_CRIT);
	host_mkdir("/run");
	return r;
}

/* Feeds '+' and '-' and compares the state after each. */
static void expect_results(
	const struct declared_probe *probe, const char *results, const char *expected)
{
	struct probe_result result = { 0 };

	for (size_t i = 0; results[i]; i++) {
		bool before = result.healthy;
		int r = probe_result_feed(&result, probe, results[i] == '+', "broken");

		assert_int_equal(result.healthy, expected[i] == '+');
		assert_int_equal(r, i == 0 || before != result.healthy);
		assert_int_equal(result.reason == NULL, result.healthy);
	}
	probe_result_done(&result);
}

static void test_hysteresis(void **state)
{
	struct declared_probe probe = { .fail_after = 1, .recover_after = 1 };

	expect_results(&probe, "+-+--+", "+-+--+");
	expect_results(&probe, "-+", "-+");
	probe.fail_after = 3;
	probe.recover_after = 2;
	expect_results(&probe, "+--+--+---", "+++++++++-");
	expect_results(&probe, "-+-+-++-", "------++");
	probe.recover = RECOVER_NEVER;
	expect_results(&probe, "+---++++", "+++-----");
	probe.recover = RECOVER_REBOOT;
	expect_results(&probe, "-+++", "----");
}

static void test_reason_is_presentable(void **state)
{
	char text[REASON_MAX], longer[2 * REASON_MAX];

	reason_copy("hot \x1b[31m\xff\xc3\xa4", text);
	assert_string_equal(text, "hot ?[31m?\xc3\xa4");
	longer[0] = 'x';
	for (size_t i = 1; i + 2 < sizeof(longer); i += 2)
		(void)memcpy(longer + i, "\xc3\xa4", 3);
	reason_copy(longer, text);
	assert_int_equal(strlen(text), REASON_MAX - 1);
	longer[0] = '\xc3';
	longer[1] = '\xa4';
	for (size_t i = 2; i + 2 < sizeof(longer); i += 2)
		(void)memcpy(longer + i, "\xc3\xa4", 3);
	reason_copy(longer, text);
	assert_int_equal(strlen(text), REASON_MAX - 2);
	assert_null(strchr(text, '?'));
}

static void test_removed_and_back(void **state)
{
	host_mkdir("/run/h");
	host_mknod("/dev/x");
	host_write("/run/h/x", "bad");
	start("driver = \"path\"; match = \"/dev/x\"; health = ( { probe = \"file\"; "
	      "path = \"/run/h/${id}\"; healthy = \"ok\"; recover = \"never\"; } );");
	assert_string_equal(reason(0), "bad");
	host_remove("/dev/x");
	RUN_UNTIL(streq(reason(0), "/dev/x has disappeared"));
	host_write("/run/h/x", "ok");
	host_mknod("/dev/x");
	RUN_UNTIL(streq(reason(0), "bad"));
	run_for(200 * USEC_PER_MSEC);
	assert_string_equal(reason(0), "bad");
}

#define EXEC_PROBE(script)                                                                    \
	"health = ( { probe = \"exec\"; interval = 1; timeout = 1; command = [ \"/bin/sh\", " \
	"\"-c\", \"" script "\", \"sh\", \"${id}\" ]; } );"

static void test_exec(void **state)
{
	static char text[1024];

	(void)snprintf(text, sizeof(text),
		"driver = \"static\"; match = ( { count = 9; } );\n" EXEC_PROBE(
			"test ! -e %s/run/$$1 || { echo $$1 broke; exit 3; }"),
		host_root);
	host_write("/run/unit-4", "");
	start(text);
	assert_string_equal(reason(0), "not probed yet");
	for (size_t i = 0; i < 9; i++)
		if (i != 4)
			RUN_UNTIL(streq(reason(i), ""));
	RUN_UNTIL(streq(reason(4), "/bin/sh failed with exit status 3: unit-4 broke"));
	host_remove("/run/unit-4");
	RUN_UNTIL(streq(reason(4), ""));
	host_write("/run/unit-8", "");
	RUN_UNTIL(strstr(reason(8), "unit-8 broke"));
}

static void test_exec_hangs(void **state)
{
	start("driver = \"static\"; match = ( { count = 5; } );\n" EXEC_PROBE("sleep 1000"));
	for (size_t i = 0; i < 5; i++)
		RUN_UNTIL(strstr(reason(i), "did not exit within 1 s"));
}

static size_t lines_of_log(void)
{
	char path[512];
	size_t n = 0;
	FILE *stream;

	host_path(path, "/run/log");
	stream = fopen(path, "re");
	for (int c = stream ? fgetc(stream) : EOF; c != EOF; c = fgetc(stream))
		n += c == '\n';
	if (stream)
		(void)fclose(stream);
	return n;
}

/* The next process of the resource, which reads the file that outlives a process. */
static void restart(void)
{
	_cleanup_close_ int fd = memfd_create("saved-state", MFD_CLOEXEC);
	struct saved_state *saved;
	struct error error;

	assert_int_equal(inventory_write(inventory, 0, fd), 0);
	assert_int_equal(saved_state_read(fd, &saved), 0);
	inventory = inventory_free(inventory);
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, on_change,
				 &told, &inventory),
		0);
	inventory_restore(inventory, saved);
	assert_int_equal(inventory_start(inventory, &error), 0);
}

/* A program that initialises a device, such as one that programs an FPGA. */
static void test_once(void **state)
{
	static char text[1024];
	size_t n;

	(void)snprintf(text, sizeof(text),
		"driver = \"path\"; match = \"/dev/x\"; health = ( { probe = \"exec\"; once = true; "
		"interval = 0.2; command = [ \"/bin/sh\", \"-c\", \"cd %s/run; echo >> log; test -e "
		"ready\" ]; } );",
		host_root);
	host_mknod("/dev/x");
	start(text);
	assert_string_equal(reason(0), "not probed yet");
	RUN_UNTIL(lines_of_log() >= 2);
	assert_string_equal(reason(0), "/bin/sh failed with exit status 1");
	host_write("/run/ready", "");
	RUN_UNTIL(streq(reason(0), ""));
	/* It does not run again, also not for the next process, unless the device was away. */
	n = lines_of_log();
	host_remove("/run/ready");
	run_for(USEC_PER_SEC);
	restart();
	run_for(USEC_PER_SEC);
	assert_string_equal(reason(0), "");
	assert_int_equal(lines_of_log(), n);
	host_remove("/dev/x");
	RUN_UNTIL(streq(reason(0), "/dev/x has disappeared"));
	host_mknod("/dev/x");
	RUN_UNTIL(streq(reason(0), "/bin/sh failed with exit status 1"));
	assert_true(lines_of_log() > n);
}

/* A device that has failed is tested before it is offered again: after a probe has failed, after it
 * was away, and after a restart of the process. */
static void start_tested(const char *keys)
{
	static char text[1024];

	host_mkdir("/run/h");
	host_mknod("/dev/x");
	host_write("/run/h/x", "ok");
	(void)snprintf(text, sizeof(text),
		"driver = \"path\"; match = \"/dev/x\"; health = ( { probe = \"exec\"; on_recovery "
		"= true; interval = 0.1; %s command = [ \"/bin/sh\", \"-c\", \"cd %s/run; echo >> "
		"log; test -e ready\" ]; }, { probe = \"file\"; path = \"/run/h/${id}\"; } );",
		keys, host_root);
	start(text);
	assert_string_equal(reason(0), "");
}

static void test_recovery(void **state)
{
	size_t n;

	start_tested("attempts = 1000;");
	host_write("/run/h/x", "bad");
	RUN_UNTIL(streq(reason(0), "bad"));
	run_for(300 * USEC_PER_MSEC);
	host_write("/run/log", "");
	host_write("/run/h/x", "ok");
	RUN_UNTIL(lines_of_log() >= 2);
	RUN_UNTIL(strstr(reason(0), " of 1000: /bin/sh failed with exit status 1"));
	/* Not while it fails. */
	host_write("/run/h/x", "bad again");
	RUN_UNTIL(streq(reason(0), "bad again"));
	n = lines_of_log();
	restart();
	assert_string_equal(reason(0), "bad again");
	run_for(300 * USEC_PER_MSEC);
	assert_int_equal(lines_of_log(), n);
	host_write("/run/h/x", "ok");
	RUN_UNTIL(strstr(reason(0), " of 1000: /bin/sh failed with exit status 1"));
	host_write("/run/ready", "");
	RUN_UNTIL(streq(reason(0), ""));
	n = lines_of_log();
	host_remove("/run/ready");
	run_for(300 * USEC_PER_MSEC);
	restart();
	run_for(300 * USEC_PER_MSEC);
	assert_string_equal(reason(0), "");
	assert_int_equal(lines_of_log(), n);
}

/* Not while a pod uses it. */
static void test_recovery_waits(void **state)
{
	start_tested("");
	host_write("/run/log", "");
	host_write("/run/ready", "");
	assert_true(set_booked(inventory, "x", 0) >= 0);
	host_write("/run/h/x", "bad");
	RUN_UNTIL(streq(reason(0), "bad"));
	host_write("/run/h/x", "ok");
	RUN_UNTIL(
		streq(reason(0), "has failed, and must pass its test before it is offered again"));
	run_for(300 * USEC_PER_MSEC);
	assert_int_equal(lines_of_log(), 0);
	assert_true(set_booked(inventory, "", 0) >= 0);
	RUN_UNTIL(streq(reason(0), ""));
	assert_int_equal(lines_of_log(), 1);
}

static void test_recovery_fails(void **state)
{
	start_tested("attempts = 2;");
	host_write("/run/log", "");
	host_write("/run/h/x", "bad");
	RUN_UNTIL(streq(reason(0), "bad"));
	host_write("/run/h/x", "ok");
	RUN_UNTIL(streq(reason(0),
		"needs an administrator (devplugctl resume): its test has failed, attempt 2 of 2: "
		"/bin/sh failed with exit status 1"));
	run_for(300 * USEC_PER_MSEC);
	assert_int_equal(lines_of_log(), 2);
	restart();
	run_for(300 * USEC_PER_MSEC);
	assert_int_equal(lines_of_log(), 2);
	/* Two more attempts. */
	assert_int_equal(inventory_resume(inventory, "y", false), 0);
	assert_int_equal(inventory_resume(inventory, "x", false), 1);
	RUN_UNTIL(lines_of_log() == 4);
	RUN_UNTIL(strstr(reason(0), "attempt 2 of 2"));
	assert_int_equal(inventory_resume(inventory, "x", true), 1);
	RUN_UNTIL(streq(reason(0), ""));
	assert_int_equal(inventory_resume(inventory, "x", true), 0);
}

static void fail_and_recover(void)
{
	host_write("/run/h/x", "bad");
	RUN_UNTIL(streq(reason(0), "bad"));
	host_write("/run/h/x", "ok");
	RUN_UNTIL(!streq(reason(0), "bad") && !strstr(reason(0), "test"));
}

static void test_recovery_returns(void **state)
{
	start_tested("returns = 2; returns_within = 86400;");
	host_write("/run/ready", "");
	fail_and_recover();
	assert_string_equal(reason(0), "");
	restart();
	fail_and_recover();
	assert_string_equal(reason(0), "");
	fail_and_recover();
	assert_non_null(strstr(reason(0),
		"needs an administrator (devplugctl resume): it has failed again after 2 returns "
		"within "));
	assert_int_equal(inventory_resume(inventory, "x", false), 1);
	RUN_UNTIL(streq(reason(0), ""));
}

static void test_recovery_after_absence(void **state)
{
	start_tested("");
	host_write("/run/log", "");
	host_remove("/dev/x");
	RUN_UNTIL(streq(reason(0), "/dev/x has disappeared"));
	host_mknod("/dev/x");
	RUN_UNTIL(strstr(reason(0), "its test has failed"));
	host_write("/run/ready", "");
	RUN_UNTIL(streq(reason(0), ""));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, inventory_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hysteresis),
		cmocka_unit_test(test_reason_is_presentable),
		TEST(test_removed_and_back),
		TEST(test_exec),
		TEST(test_exec_hangs),
		TEST(test_once),
		TEST(test_recovery),
		TEST(test_recovery_waits),
		TEST(test_recovery_fails),
		TEST(test_recovery_returns),
		TEST(test_recovery_after_absence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
