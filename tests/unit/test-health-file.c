/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of health probes: which changes are noticed, when they are read and when they are not.
 * complaints.md: W6.
 */
#include "health-fixture.h"

#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/vfs.h>

#include "common/log.h"

static int setup(void **state)
{
	int r = host_setup(state);

	log_setup("test-health-file", LOG_TARGET_TEXT, LOG_CRIT);
	host_mkdir("/run");
	return r;
}

#define FILE_PROBE                                         \
	"driver = \"static\"; match = ( \"a\", \"b\" );\n" \
	"health = ( { probe = \"file\"; path = \"/run/h/${id}\"; healthy = \"ok\"; interval = 3600; "

static void test_file(void **state)
{
	host_mkdir("/run/h");
	host_write("/run/h/a", " ok\n");
	host_write("/run/h/b", "too hot\n");
	start(FILE_PROBE "} );");
	assert_string_equal(reason(0), "");
	assert_string_equal(reason(1), "too hot");
	assert_int_equal(told, 0);

	host_write("/run/h/b", "ok");
	RUN_UNTIL(streq(reason(1), ""));
	host_replace("/run/h/a", "worn out");
	RUN_UNTIL(streq(reason(0), "worn out"));
	host_replace("/run/h/a", "worn\nout\x1b");
	RUN_UNTIL(streq(reason(0), "worn?out?"));
	host_replace("/run/h/a", "OK\n");
	RUN_UNTIL(streq(reason(0), "/run/h/a contains \"OK\", not \"ok\""));
	host_remove("/run/h/a");
	RUN_UNTIL(streq(reason(0), "/run/h/a is missing"));
	host_write("/run/h/a", "");
	RUN_UNTIL(streq(reason(0), "/run/h/a is empty"));
	host_remove("/run/h/a");
	host_mkfifo("/run/h/a");
	RUN_UNTIL(strstr(reason(0), "not a regular file"));
	host_remove("/run/h/a");
	host_write("/run/h/a", "ok");
	RUN_UNTIL(streq(reason(0), ""));
	assert_string_equal(reason(1), "");
}

static void test_file_directory_comes_and_goes(void **state)
{
	start(FILE_PROBE "} );");
	assert_string_equal(reason(0), "/run/h/a is missing");
	host_mkdir("/run/h");
	host_write("/run/h/a", "ok");
	RUN_UNTIL(streq(reason(0), ""));
	host_rename("/run/h", "/run/old");
	RUN_UNTIL(streq(reason(0), "/run/h/a is missing"));
	host_mkdir("/run/new");
	host_write("/run/new/a", "ok");
	host_write("/run/new/b", "ok");
	host_rename("/run/new", "/run/h");
	RUN_UNTIL(streq(reason(0), "") && streq(reason(1), ""));
	/* A whole set of files may be switched by one link. */
	host_mkdir("/run/h/v1");
	host_mkdir("/run/h/v2");
	host_write("/run/h/v1/a", "ok");
	host_write("/run/h/v2/a", "second");
	host_symlink("v1", "/run/h/now");
	host_remove("/run/h/a");
	host_symlink("now/a", "/run/h/a");
	run_for(50 * USEC_PER_MSEC);
	host_symlink("v2", "/run/h/next");
	host_rename("/run/h/next", "/run/h/now");
	RUN_UNTIL(streq(reason(0), "second"));
}

static void test_file_kept_open(void **state)
{
	char path[512];
	int fd;

	host_mkdir("/run/h");
	host_write("/run/h/a", "ok");
	host_write("/run/h/b", "ok");
	start(FILE_PROBE "} );");
	host_path(path, "/run/h/a");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "no", 2, 0), 2);
	RUN_UNTIL(streq(reason(0), "no"));
	close_fd(fd);
}

/* One directory under two paths, of which one is wanted for its entries only. */
static void test_file_in_scanned_directory(void **state)
{
	char path[512];
	int fd;

	host_mkdir("/run/h");
	host_mknod("/run/h/x");
	host_write("/run/h/health", "ok");
	host_symlink("../run/h", "/dev/link");
	start("driver = \"path\"; match = \"/dev/link/x*\"; health = ( { probe = \"file\"; "
	      "path = \"/run/h/health\"; healthy = \"ok\"; interval = 3600; } );");
	host_mknod("/run/h/x2");
	RUN_UNTIL(told == 1);
	host_path(path, "/run/h/health");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "no", 2, 0), 2);
	RUN_UNTIL(streq(reason(0), "no") && streq(reason(1), "no"));
	close_fd(fd);
}

static void test_file_missing_is_healthy(void **state)
{
	start(FILE_PROBE "missing = \"healthy\"; } );");
	assert_string_equal(reason(0), "");
	host_mkdir("/run/h");
	host_write("/run/h/a", "bad");
	RUN_UNTIL(streq(reason(0), "bad"));
	host_remove("/run/h/a");
	RUN_UNTIL(streq(reason(0), ""));
}

/* The findings of a unit, as "SEVERITY REASON: TEXT" each. */
static const char *findings(size_t unit)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	const struct finding *finding;
	static char text[512];
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; (finding = finding_set_get(snapshot->units[unit].findings, i)); i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s %s: %s",
			i > 0 ? ", " : "", probe_severities[finding->severity],
			finding->reason ?: "-", finding->text);
	return text;
}

/* A notice leaves the device healthy, is found at once and goes with its cause; another probe of
 * the device counts as before. */
static void test_notice(void **state)
{
	_cleanup_snapshot_ struct snapshot *before = NULL;

	host_mkdir("/run/h");
	host_write("/run/h/a", "warm");
	host_mkdir("/run/i");
	host_write("/run/i/a", "ok");
	host_write("/run/i/b", "ok");
	start("driver = \"static\"; match = ( { id = \"a\"; }, { id = \"b\"; } ); health = ( "
	      "{ probe = \"file\"; path = \"/run/h/${id}\"; missing = \"healthy\"; severity = "
	      "\"notice\"; reason = \"temperature\"; }, { probe = \"file\"; path = "
	      "\"/run/i/${id}\"; } );");
	assert_string_equal(reason(0), "");
	assert_string_equal(findings(0), "notice temperature: warm");
	assert_string_equal(findings(1), "");
	before = inventory_snapshot(inventory);
	host_write("/run/h/a", "hot");
	RUN_UNTIL(streq(findings(0), "notice temperature: hot"));
	host_write("/run/i/a", "dead");
	RUN_UNTIL(streq(reason(0), "dead"));
	assert_string_equal(findings(0), "no-new-pods -: dead, notice temperature: hot");
	host_write("/run/i/a", "ok");
	RUN_UNTIL(streq(reason(0), ""));
	host_remove("/run/h/a");
	RUN_UNTIL(streq(findings(0), ""));
	/* A snapshot never changes. */
	assert_string_equal(finding_set_get(before->units[0].findings, 0)->text, "warm");
}

/* Devices do not wait for the first result of a probe that only makes notices. */
static void test_notice_is_not_awaited(void **state)
{
	start("driver = \"static\"; match = ( { count = 1; } ); health = ( { probe = \"exec\"; command "
	      "= ( \"/bin/sleep\", \"1000\" ); timeout = 300; severity = \"notice\"; } );");
	assert_string_equal(reason(0), "");
	assert_string_equal(findings(0), "");
}

/* Only as many as are reported, the ones that make the device unhealthy first. */
static void test_many_findings(void **state)
{
	_cleanup_free_ char *text = NULL;
	char probes[4096] = "";
	const struct finding *finding;
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;

	for (size_t i = 0; i < FINDINGS_MAX + 4; i++)
		(void)snprintf(probes + strlen(probes), sizeof(probes) - strlen(probes),
			"%s{ probe = \"file\"; path = \"/none/%zu\"; reason = \"r%zu\"; severity = \"%s\"; }",
			i > 0 ? ", " : "", i, i, i < FINDINGS_MAX ? "notice" : "no-new-pods");
	assert_true(format_text(&text,
			    "driver = \"static\"; match = ( { count = 1; } ); health = ( %s );",
			    probes) >= 0);
	start(text);
	snapshot = inventory_snapshot(inventory);
	for (size_t i = 0; i < FINDINGS_MAX; i++) {
		finding = finding_set_get(snapshot->units[0].findings, i);
		assert_non_null(finding);
		assert_int_equal(finding->severity, i < 4 ? SEVERITY_NO_NEW_PODS : SEVERITY_NOTICE);
	}
	assert_null(finding_set_get(snapshot->units[0].findings, FINDINGS_MAX));
}

/* Writing a file is one result, however many events it makes. */
static void test_file_threshold(void **state)
{
	host_mkdir("/run/h");
	host_write("/run/h/a", "ok");
	host_write("/run/h/b", "ok");
	start(FILE_PROBE "fail_after = 2; } );");
	host_write("/run/h/a", "bad");
	run_for(300 * USEC_PER_MSEC);
	assert_string_equal(reason(0), "");
	host_write("/run/h/a", "bad");
	RUN_UNTIL(streq(reason(0), "bad"));
}

/* How often a file has been opened since. */
static size_t count_opened(int fd)
{
	char buffer[4096];
	ssize_t n = read(fd, buffer, sizeof(buffer));

	return n > 0 ? (size_t)n / sizeof(struct inotify_event) : 0;
}

static void test_file_that_is_watched_is_let_alone(void **state)
{
	_cleanup_close_ int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char path[512];
	struct statfs file_system;

	host_path(path, "/run/h");
	host_mkdir("/run/h");
	assert_int_equal(statfs(path, &file_system), 0);
	if (file_system.f_type != TMPFS_MAGIC && file_system.f_type != EXT4_SUPER_MAGIC)
		skip();
	host_write("/run/h/a", "ok");
	start("driver = \"static\"; match = ( \"a\" );\n"
	      "health = ( { probe = \"file\"; path = \"/run/h/${id}\"; healthy = \"ok\"; "
	      "interval = 0.1; } );");
	host_path(path, "/run/h/a");
	assert_true(inotify_add_watch(fd, path, IN_OPEN) >= 0);
	run_for(2 * USEC_PER_SEC);
	assert_int_equal(count_opened(fd), 0);
	host_write("/run/h/a", "bad");
	RUN_UNTIL(streq(reason(0), "bad"));
	assert_true(count_opened(fd) > 0);
}

/* Its directory does not report writes to the file that it links to. */
static void test_file_behind_a_link_is_read_by_interval(void **state)
{
	char path[512];

	host_mkdir("/run/h");
	host_write("/run/real", "ok");
	host_path(path, "/run/h/a");
	assert_int_equal(symlink("../real", path), 0);
	start("driver = \"static\"; match = ( \"a\" );\n"
	      "health = ( { probe = \"file\"; path = \"/run/h/${id}\"; healthy = \"ok\"; "
	      "interval = 0.1; } );");
	assert_string_equal(reason(0), "");
	host_write("/run/real", "bad");
	RUN_UNTIL(streq(reason(0), "bad"));
}

static void test_file_threshold_by_interval(void **state)
{
	host_mkdir("/run/h");
	host_write("/run/h/a", "ok");
	host_write("/run/h/b", "ok");
	start("driver = \"static\"; match = ( \"a\" );\n"
	      "health = ( { probe = \"file\"; path = \"/run/h/${id}\"; healthy = \"ok\"; "
	      "interval = 1; fail_after = 3; } );");
	host_write("/run/h/a", "bad");
	RUN_UNTIL(streq(reason(0), "bad"));
}

/* An empty file is awaited, not asked again and again. */
static void test_file_emptied(void **state)
{
	uint64_t before, after;

	host_mkdir("/run/h");
	host_write("/run/h/a", "ok");
	host_write("/run/h/b", "ok");
	start(FILE_PROBE "} );");
	assert_int_equal(sd_event_get_iteration(host_event, &before), 0);
	host_write("/run/h/a", "");
	RUN_UNTIL(streq(reason(0), "/run/h/a is empty"));
	assert_int_equal(sd_event_get_iteration(host_event, &after), 0);
	assert_true(after > before && after <= before + 10);
}

/* Empties a file and writes it again. Returns whether less than the time passed in between after
 * which an empty file is believed. */
static bool rewrite(const char *file)
{
	uint64_t begin = now_usec(CLOCK_MONOTONIC);
	char path[512];
	int fd, r;

	host_path(path, file);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_true(sd_event_run(host_event, 500) >= 0);
	assert_int_equal(write(fd, "ok", 2), 2);
	close_fd(fd);
	/* All of it is seen, or the next truncation would continue this one. */
	do
		r = sd_event_run(host_event, 500);
	while (r > 0);
	assert_int_equal(r, 0);
	return now_usec(CLOCK_MONOTONIC) - begin < 40 * USEC_PER_MSEC;
}

/* Programs that write by truncating do not make a healthy unit flicker. */
static void test_file_rewritten(void **state)
{
	bool in_time = true;

	host_mkdir("/run/h");
	host_write("/run/h/a", "ok");
	host_write("/run/h/b", "ok");
	start(FILE_PROBE "} );");
	for (unsigned i = 0; i < 300 && in_time; i++)
		in_time = rewrite("/run/h/a");
	if (in_time)
		run_for(200 * USEC_PER_MSEC);
	assert_true(told == 0 || !in_time);
}

/* Nor does one that is written in two steps, if they are not too far apart: on a busy machine they
 * may be, so one time out of many must do. */
static void test_file_in_two_steps(void **state)
{
	host_mkdir("/run/h");
	host_write("/run/h/a", "ok");
	host_write("/run/h/b", "ok");
	start(FILE_PROBE "} );");
	for (unsigned i = 0; i < 40; i++) {
		char path[512];
		int fd;

		told = 0;
		host_path(path, "/run/h/a");
		fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, "o", 1), 1);
		run_for(USEC_PER_MSEC);
		assert_int_equal(write(fd, "k", 1), 1);
		close_fd(fd);
		run_for(2 * INVENTORY_QUIET);
		assert_string_equal(reason(0), "");
		if (told == 0)
			return;
	}
	fail_msg("it was always read in between");
}

static void test_files_by_the_thousand(void **state)
{
	char name[64];

	host_mkdir("/run/h");
	for (unsigned i = 0; i < 3000; i++) {
		(void)snprintf(name, sizeof(name), "/run/h/unit-%u", i);
		host_write(name, "ok");
	}
	start("driver = \"static\"; match = ( { count = 3000; } );\n"
	      "health = ( { probe = \"file\"; path = \"/run/h/${id}\"; healthy = \"ok\"; } );");
	for (unsigned i = 0; i < 3000; i++) {
		(void)snprintf(name, sizeof(name), "/run/h/unit-%u", i);
		host_write(name, "off");
	}
	for (size_t i = 0; i < 3000; i++)
		RUN_UNTIL(streq(reason(i), "off"));
}

/* Devices that go leave the others' file watched. */
static void test_file_of_several_devices(void **state)
{
	static const char *const paths[] = { "/dev/p0", "/dev/p1", "/dev/p2", "/dev/p3" };

	host_mkdir("/run/h");
	host_write("/run/h/all", "ok");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		host_mknod(paths[i]);
	start("driver = \"path\"; match = \"/dev/p*\";\n"
	      "health = ( { probe = \"file\"; path = \"/run/h/all\"; healthy = \"ok\"; "
	      "interval = 3600; } );");
	for (size_t left = ARRAY_SIZE(paths); left > 0; left--) {
		host_write("/run/h/all", "off");
		for (size_t i = 0; i < left; i++)
			RUN_UNTIL(streq(reason(i), "off"));
		host_write("/run/h/all", "ok");
		for (size_t i = 0; i < left; i++)
			RUN_UNTIL(streq(reason(i), ""));
		host_remove(paths[left - 1]);
		RUN_UNTIL(!is_present(paths[left - 1] + strlen("/dev/")));
	}
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, inventory_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_file),
		TEST(test_file_directory_comes_and_goes),
		TEST(test_file_kept_open),
		TEST(test_file_in_scanned_directory),
		TEST(test_file_missing_is_healthy),
		TEST(test_notice),
		TEST(test_notice_is_not_awaited),
		TEST(test_many_findings),
		TEST(test_file_threshold),
		TEST(test_file_that_is_watched_is_let_alone),
		TEST(test_file_behind_a_link_is_read_by_interval),
		TEST(test_file_threshold_by_interval),
		TEST(test_file_rewritten),
		TEST(test_file_emptied),
		TEST(test_file_in_two_steps),
		TEST(test_files_by_the_thousand),
		TEST(test_file_of_several_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
