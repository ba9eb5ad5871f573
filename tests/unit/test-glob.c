/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns over a tree: what matches, in which order, and what cannot be seen.
 */
#include "host-fixture.h"

#include <sys/wait.h>

#include "drivers/host/glob.h"
#include "drivers/host/scan-run.h"

/* All matches with a space behind each. */
static char *matches(struct scan *scan, const char *pattern)
{
	_cleanup_strings_ struct strings paths = { 0 };
	struct error error;
	char *text = NULL;
	size_t size;
	FILE *stream;

	scan->root = host_root;
	if (glob_expand(scan, pattern, &paths, &error) < 0)
		fail_msg("%s", error.message);
	stream = open_memstream(&text, &size);
	assert_non_null(stream);
	for (size_t i = 0; i < paths.count; i++)
		(void)fprintf(stream, "%s ", paths.items[i]);
	assert_int_equal(fclose(stream), 0);
	return text;
}

static void expect(const char *pattern, const char *expected)
{
	_cleanup_scan_ struct scan scan = { 0 };
	_cleanup_free_ char *found = matches(&scan, pattern);

	assert_string_equal(found, expected);
	assert_int_equal(scan.notes.count, 0);
}

static void test_matching(void **state)
{
	static const char *const names[] = { "/dev/ttyUSB10", "/dev/ttyUSB2", "/dev/ttyACM0",
		"/dev/.hidden", "/dev/snd/pcmC0D0p", "/dev/snd/pcmC1D0p", "/dev/a*b", "/dev/aXb" };

	host_mkdir("/dev/snd");
	host_mkdir("/dev/empty");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		host_mknod(names[i]);
	expect("/dev/ttyUSB*", "/dev/ttyUSB2 /dev/ttyUSB10 ");
	expect("/dev/tty[UA]*[02]", "/dev/ttyACM0 /dev/ttyUSB2 /dev/ttyUSB10 ");
	expect("/dev/ttyACM?", "/dev/ttyACM0 ");
	expect("/dev/*hidden", "");
	expect("/dev/.hid*", "/dev/.hidden ");
	expect("/dev/*p", "");
	expect("/dev/*/pcmC*D0p", "/dev/snd/pcmC0D0p /dev/snd/pcmC1D0p ");
	expect("/dev/snd/../ttyACM0", "/dev/snd/../ttyACM0 ");
	expect("/dev/snd", "/dev/snd ");
	expect("/dev//snd/", "/dev/snd ");
	expect("/dev/none", "");
	expect("/dev/none/*", "");
	expect("/dev/ttyACM0/*", "");
	expect("/*/ttyACM0", "/dev/ttyACM0 ");
	expect("/dev/a\\*b", "/dev/a*b ");
	expect("/dev/[", "");
}

/* It must not hide the others, nor reach the kubelet or a JSON document. */
static void test_name_that_is_not_text(void **state)
{
	_cleanup_scan_ struct scan scan = { 0 };
	_cleanup_free_ char *found = NULL;

	host_mkdir("/dev");
	host_mknod("/dev/card0");
	host_mknod("/dev/card\xff");
	host_mknod("/dev/card\xc3\xa4");
	found = matches(&scan, "/dev/card*");
	assert_string_equal(found, "/dev/card0 /dev/card\xc3\xa4 ");
	assert_int_equal(scan.notes.count, 1);
	assert_string_equal(scan.notes.items[0],
		"/dev/card? is left out: its name is not valid UTF-8; rename it");
}

static void test_too_many(void **state)
{
	_cleanup_scan_ struct scan scan = { .root = host_root };
	_cleanup_strings_ struct strings paths = { 0 };
	struct error error;
	char name[128];

	host_mkdir("/many");
	for (unsigned i = 0; i <= GLOB_MATCHES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "%s/many/%u", host_root, i);
		assert_int_equal(mknod(name, S_IFREG | 0600, 0), 0);
	}
	assert_int_equal(glob_expand(&scan, "/many/*", &paths, &error), -E2BIG);
	assert_non_null(strstr(error.message, "more than 100000 paths"));
	(void)snprintf(name, sizeof(name), "%s/many/0", host_root);
	assert_int_equal(unlink(name), 0);
	strings_done(&paths);
	assert_int_equal(glob_expand(&scan, "/many/*", &paths, &error), 0);
	assert_int_equal(paths.count, GLOB_MATCHES_MAX);
}

static void test_links_stay_inside(void **state)
{
	host_mkdir("/dev/by-id");
	host_mknod("/dev/real");
	host_symlink("/dev/real", "/dev/by-id/absolute");
	host_symlink("../real", "/dev/by-id/relative");
	host_symlink("/proc/self/stat", "/dev/by-id/outside");
	host_symlink("/dev/gone", "/dev/by-id/dangling");
	host_symlink("loop", "/dev/by-id/loop");
	host_symlink("/dev/by-id", "/dev/also");
	expect("/dev/by-id/*", "/dev/by-id/absolute /dev/by-id/relative ");
	expect("/dev/also/a*", "/dev/also/absolute ");
}

static void test_unreadable(void **state)
{
	_cleanup_scan_ struct scan scan = { 0 };
	_cleanup_free_ char *found = NULL, *listed = NULL;
	char path[512];

	if (geteuid() == 0)
		skip();
	host_mkdir("/dev/closed");
	host_mknod("/dev/closed/x");
	host_path(path, "/dev/closed");
	assert_int_equal(chmod(path, 0100), 0);
	listed = matches(&scan, "/dev/closed/*");
	assert_string_equal(listed, "");
	assert_int_equal(scan.notes.count, 1);
	assert_non_null(strstr(scan.notes.items[0], "/dev/closed"));
	found = matches(&scan, "/dev/closed/x");
	assert_string_equal(found, "/dev/closed/x ");
	assert_int_equal(chmod(path, 0700), 0);
}

/* One of several directories whose content cannot be had: that of a process which has ended. */
static void test_unreadable_among_others(void **state)
{
	_cleanup_strings_ struct strings paths = { 0 };
	_cleanup_scan_ struct scan scan = { .root = "" };
	char pattern[64], task[64];
	struct error error;
	siginfo_t info;
	pid_t pid;
	int r;

	pid = fork();
	assert_int_not_equal(pid, -1);
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	(void)snprintf(pattern, sizeof(pattern), "/proc/%d/[nt]*/*", (int)pid);
	(void)snprintf(task, sizeof(task), "/proc/%d/task/%d", (int)pid, (int)pid);
	r = glob_expand(&scan, pattern, &paths, &error);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED), 0);
	if (r < 0)
		fail_msg("%s", error.message);
	assert_true(strings_contain(&paths, task));
}

static void test_watched_before_read(void **state)
{
	_cleanup_(watcher_freep) struct watcher *watcher = NULL;
	_cleanup_scan_ struct scan scan = { 0 };
	_cleanup_free_ char *found = NULL;

	host_mkdir("/dev/a/b");
	host_mknod("/dev/file");
	assert_int_equal(watcher_new(host_event, host_root, &watcher), 0);
	scan.watcher = watcher;
	found = matches(&scan, "/dev/*/b/*");
	assert_int_equal(scan.watched_names.count, 2);
	assert_string_equal(scan.watched_names.items[0], "/dev");
	assert_string_equal(scan.watched_names.items[1], "/dev/a/b");
	assert_int_equal(scan.n_watches, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_matching, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(
			test_name_that_is_not_text, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_too_many, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_links_stay_inside, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_unreadable, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(
			test_unreadable_among_others, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(
			test_watched_before_read, host_setup, host_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
