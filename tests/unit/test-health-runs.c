/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of probes while their device changes, fails or is removed, also by the program itself:
 * each reaches its end, and its result counts only for the device that it was about.
 */
#include "health-fixture.h"

#include <signal.h>

#include "common/log.h"

static int setup(void **state)
{
	int r = host_setup(state);

	log_setup("test-health-runs", LOG_TARGET_TEXT, LOG_CRIT);
	host_mkdir("/run");
	host_write("/run/log", "");
	return r;
}

/* How often the programs have written the line. */
static size_t logged(const char *line)
{
	return host_count_lines("/run/log", line);
}

/* Starts a resource whose probe's program runs the script in the directory of the test. */
static void start_script(const char *driver, const char *keys, const char *script)
{
	host_write("/run/script", script);
	start(made("%s health = ( { probe = \"exec\"; interval = 0.2; timeout = 60; %s command = [ "
		   "\"/bin/sh\", \"-c\", \"cd %s; . ./run/script\" ]; } );",
		driver, keys, host_root));
}

#define PATH_X "driver = \"path\"; match = \"/dev/x\";"

/* A script that waits for a file. */
#define AWAIT(file) "while ! [ -e run/" file " ]; do sleep 0.02; done; "

static size_t count_nodes(size_t unit)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);

	return snapshot->units[unit].device->n_nodes;
}

static void test_second_node(void **state)
{
	host_mknod("/dev/x");
	start_script("driver = \"path\"; match = ( { paths = ( { path = \"/dev/x\"; }, { path = "
		     "\"/dev/y\"; optional = true; } ); } );",
		"once = true;", "echo start >>run/log; " AWAIT("go") "echo end >>run/log");
	RUN_UNTIL(logged("start") == 1);
	host_mknod("/dev/y");
	RUN_UNTIL(count_nodes(0) == 2);
	host_touch("/run/go");
	RUN_UNTIL(streq(reason(0), ""));
	assert_int_equal(logged("start"), 1);
	assert_int_equal(logged("end"), 1);
}

#define REMOVES "rm dev/x; " AWAIT("gone-$n") "mknod dev/x c 0 0; echo end >>run/log"
#define STARTS  "echo start >>run/log; n=$(grep -c start run/log); "

/* A program that does not change a device that is initialised already. */
static void test_program_removes_its_device(void **state)
{
	host_mknod("/dev/x");
	start_script(PATH_X, "once = true;", STARTS "test $n = 2 || { " REMOVES "; }");
	RUN_UNTIL(streq(reason(0), "/dev/x has disappeared"));
	host_touch("/run/gone-1");
	RUN_UNTIL(streq(reason(0), ""));
	assert_int_equal(logged("start"), 2);
	assert_int_equal(logged("end"), 1);
	run_for(500 * USEC_PER_MSEC);
	assert_int_equal(logged("start"), 2);
}

static void test_program_always_removes_its_device(void **state)
{
	host_mknod("/dev/x");
	start_script(PATH_X, "once = true;", STARTS REMOVES);
	RUN_UNTIL(streq(reason(0), "/dev/x has disappeared"));
	host_touch("/run/gone-1");
	RUN_UNTIL(logged("start") == 2);
	RUN_UNTIL(streq(reason(0), "/dev/x has disappeared"));
	host_touch("/run/gone-2");
	RUN_UNTIL(streq(reason(0), ""));
	run_for(500 * USEC_PER_MSEC);
	assert_string_equal(reason(0), "");
	assert_int_equal(logged("start"), 2);
	assert_int_equal(logged("end"), 2);
}

/* A device that is removed, returns, and is another one. */
static void test_result_is_of_the_former_device(void **state)
{
	host_mknod("/dev/x");
	start_script(PATH_X, "", STARTS AWAIT("go-$n") "test $n != 1 || exit 1");
	RUN_UNTIL(logged("start") == 1);
	host_remove("/dev/x");
	RUN_UNTIL(streq(reason(0), "/dev/x has disappeared"));
	host_mknod("/dev/x");
	RUN_UNTIL(streq(reason(0), "not probed yet"));
	run_for(500 * USEC_PER_MSEC);
	assert_int_equal(logged("start"), 1);
	host_touch("/run/go-1");
	RUN_UNTIL(logged("start") == 2);
	assert_string_equal(reason(0), "not probed yet");
	host_touch("/run/go-2");
	RUN_UNTIL(streq(reason(0), ""));
}

/* The list drops the device meanwhile, and has it again. */
static void test_unit_leaves_the_list(void **state)
{
	host_mknod("/dev/x");
	start_script(PATH_X, "once = true;", STARTS AWAIT("go-$n") "echo end >>run/log");
	RUN_UNTIL(logged("start") == 1);
	host_remove("/dev/x");
	RUN_UNTIL(streq(reason(0), "/dev/x has disappeared"));
	assert_int_equal(set_booked(inventory, "", now_usec(CLOCK_MONOTONIC)), 1);
	assert_string_equal(seen(), "");
	host_mknod("/dev/x");
	RUN_UNTIL(streq(seen(), "x! "));
	run_for(500 * USEC_PER_MSEC);
	assert_int_equal(logged("start"), 1);
	host_touch("/run/go-1");
	RUN_UNTIL(logged("start") == 2);
	assert_int_equal(logged("end"), 1);
	assert_string_equal(reason(0), "not probed yet");
	host_touch("/run/go-2");
	RUN_UNTIL(streq(reason(0), ""));
}

/* The same with a test after a failure: the device is not offered before it. */
static void test_tested_unit_leaves_the_list(void **state)
{
	host_mknod("/dev/x");
	start_script(PATH_X, "on_recovery = true; once = true;", STARTS AWAIT("go-$n") "exit 0");
	RUN_UNTIL(logged("start") == 1);
	host_remove("/dev/x");
	RUN_UNTIL(streq(reason(0), "/dev/x has disappeared"));
	assert_int_equal(set_booked(inventory, "", now_usec(CLOCK_MONOTONIC)), 1);
	host_mknod("/dev/x");
	RUN_UNTIL(streq(seen(), "x! "));
	host_touch("/run/go-1");
	RUN_UNTIL(logged("start") == 2);
	assert_string_equal(seen(), "x! ");
	host_touch("/run/go-2");
	RUN_UNTIL(streq(reason(0), ""));
}

static bool exists(pid_t pid)
{
	return kill(pid, 0) >= 0;
}

static pid_t read_pid(void)
{
	char path[512], text[32] = "";
	FILE *stream;

	host_path(path, "/run/pid");
	stream = fopen(path, "re");
	if (stream) {
		(void)fgets(text, sizeof(text), stream);
		(void)fclose(stream);
	}
	return (pid_t)atoi(text);
}

static void test_stop_ends_programs(void **state)
{
	pid_t pid;

	for (unsigned i = 0; i < 2; i++) {
		host_write("/run/pid", "");
		host_mknod("/dev/x");
		start_script(PATH_X, "", "echo $$ >run/pid; exec sleep 1000");
		RUN_UNTIL(read_pid() > 0);
		pid = read_pid();
		host_remove("/dev/x");
		RUN_UNTIL(streq(reason(0), "/dev/x has disappeared"));
		if (i > 0)
			assert_int_equal(set_booked(inventory, "", now_usec(CLOCK_MONOTONIC)), 1);
		assert_true(exists(pid));
		inventory = inventory_free(inventory);
		RUN_UNTIL(!exists(pid));
	}
}

static void write_property(unsigned value)
{
	host_replace("/run/list",
		made("{\"version\": 1, \"devices\": [{\"id\": \"x\", \"properties\": "
		     "{\"number\": \"%u\"}}]}",
			value));
}

static void start_listed(const char *keys, const char *script)
{
	host_mkdir("/bin");
	host_symlink("/bin/cat", "/bin/cat");
	write_property(0);
	start_script(made("driver = \"exec\"; match = ( { command = [ \"/bin/cat\", "
			  "\"%s/run/list\" ]; interval = 0.1; } );",
			     host_root),
		keys, script);
	RUN_UNTIL(streq(seen(), "x! "));
}

static void test_changes_do_not_starve(void **state)
{
	start_listed("", "echo start >>run/log; sleep 1");
	for (unsigned i = 1; !streq(reason(0), ""); i++) {
		assert_true(i < 100);
		write_property(i);
		run_for(200 * USEC_PER_MSEC);
	}
}

/* Even if the command is another one each time. */
static void test_changed_words_do_not_starve(void **state)
{
	host_mkdir("/bin");
	host_symlink("/bin/cat", "/bin/cat");
	write_property(0);
	start(made("driver = \"exec\"; match = ( { command = [ \"/bin/cat\", \"%s/run/list\" ]; "
		   "interval = 0.1; } ); health = ( { probe = \"exec\"; interval = 0.2; command = "
		   "[ \"/bin/sh\", \"-c\", \"sleep 1\", \"${property:number}\" ]; } );",
		host_root));
	RUN_UNTIL(streq(seen(), "x! "));
	for (unsigned i = 1; !streq(reason(0), ""); i++) {
		assert_true(i < 100);
		write_property(i);
		run_for(200 * USEC_PER_MSEC);
	}
}

/* The program was about a place that the device has left. */
static void test_changed_words(void **state)
{
	host_mknod("/dev/x");
	host_write("/run/script", "echo \"of $1\" >>run/log; " AWAIT("go") "test $1 = 1");
	start(made("driver = \"path\"; match = \"/dev/[ax]\"; health = ( { probe = \"exec\"; "
		   "interval = 0.2; timeout = 60; command = [ \"/bin/sh\", \"-c\", \"cd %s; . "
		   "./run/script\", \"sh\", \"${index}\" ]; } );",
		host_root));
	RUN_UNTIL(logged("of 0") == 1);
	host_mknod("/dev/a");
	RUN_UNTIL(streq(seen(), "a! x! "));
	host_touch("/run/go");
	RUN_UNTIL(!streq(reason(1), "not probed yet"));
	assert_string_equal(reason(1), "");
}

static void on_scanned(struct inventory *scanned, void *userdata)
{
	told += 1000;
}

/* Another card in the slot, which no scan found empty. */
static void test_other_hardware(void **state)
{
	health_make_card();
	host_write(CARD "/device", "0x74a1\n");
	start_script("driver = \"drm\"; match = ( {} );", "once = true;",
		STARTS AWAIT("go-$n") "exit 0");
	RUN_UNTIL(logged("start") == 1);
	host_write(CARD "/device", "0x74a5\n");
	inventory_scan(inventory, on_scanned);
	RUN_UNTIL(told >= 1000);
	host_touch("/run/go-1");
	RUN_UNTIL(logged("start") == 2);
	assert_string_equal(reason(0), "not probed yet");
	host_touch("/run/go-2");
	RUN_UNTIL(streq(reason(0), ""));
}

/* Starts a resource with a device whose test, after a failure, begins. */
static void start_test(const char *script)
{
	host_mkdir("/run/h");
	host_mknod("/dev/x");
	host_write("/run/h/x", "ok");
	host_write("/run/script", script);
	start(made(PATH_X " health = ( { probe = \"exec\"; on_recovery = true; interval = 0.1; "
			  "timeout = 60; attempts = 1; command = [ \"/bin/sh\", \"-c\", \"cd %s; . "
			  "./run/script\" ]; }, { probe = \"file\"; path = \"/run/h/${id}\"; } );",
		host_root));
	host_write("/run/h/x", "bad");
	RUN_UNTIL(streq(reason(0), "bad"));
	host_write("/run/h/x", "ok");
	RUN_UNTIL(logged("start") == 1);
	RUN_UNTIL(streq(reason(0), "being tested after a failure"));
}

/* A test that resets the device, so that it fails for a moment. */
static void test_test_resets_the_device(void **state)
{
	start_test(STARTS AWAIT("go-$n") "echo bad >run/h/x; " AWAIT(
		"seen-$n") "echo ok >run/h/x; " AWAIT("well-$n") "echo end >>run/log");
	for (unsigned n = 1; n <= 2; n++) {
		RUN_UNTIL(logged("start") == n);
		RUN_UNTIL(streq(reason(0), "being tested after a failure"));
		host_touch(made("/run/go-%u", n));
		RUN_UNTIL(streq(reason(0), "bad"));
		host_touch(made("/run/seen-%u", n));
		RUN_UNTIL(!streq(reason(0), "bad"));
		host_touch(made("/run/well-%u", n));
	}
	RUN_UNTIL(streq(reason(0), ""));
	assert_int_equal(logged("start"), 2);
	assert_int_equal(logged("end"), 2);
}

/* The device fails once more while it is tested: neither that test's success nor its failure
 * counts. */
static void test_failure_during_a_test(void **state)
{
	start_test(STARTS AWAIT("go-$n") "test $n != 1");
	host_write("/run/h/x", "bad");
	RUN_UNTIL(streq(reason(0), "bad"));
	run_for(300 * USEC_PER_MSEC);
	host_touch("/run/go-1");
	run_for(300 * USEC_PER_MSEC);
	assert_int_equal(logged("start"), 1);
	host_write("/run/h/x", "ok");
	RUN_UNTIL(logged("start") == 2);
	RUN_UNTIL(streq(reason(0), "being tested after a failure"));
	host_touch("/run/go-2");
	RUN_UNTIL(streq(reason(0), ""));
}

/* The device changes in a way that has no effect on its test. */
static void test_test_goes_on(void **state)
{
	start_listed("on_recovery = true; once = true;", STARTS AWAIT("go") "exit 0");
	for (unsigned i = 1; i < 5; i++) {
		write_property(i);
		run_for(200 * USEC_PER_MSEC);
	}
	assert_int_equal(logged("start"), 1);
	host_touch("/run/go");
	RUN_UNTIL(streq(reason(0), ""));
	assert_int_equal(logged("start"), 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, inventory_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_second_node),
		TEST(test_program_removes_its_device),
		TEST(test_program_always_removes_its_device),
		TEST(test_result_is_of_the_former_device),
		TEST(test_unit_leaves_the_list),
		TEST(test_tested_unit_leaves_the_list),
		TEST(test_stop_ends_programs),
		TEST(test_changes_do_not_starve),
		TEST(test_changed_words_do_not_starve),
		TEST(test_changed_words),
		TEST(test_other_hardware),
		TEST(test_test_resets_the_device),
		TEST(test_failure_during_a_test),
		TEST(test_test_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
