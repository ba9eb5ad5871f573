/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes and explanations of scans: which are kept, and which are logged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/host/scan-notes.h"

static struct scan_notes notes;

/* Takes over a scan with an explanation and, unless NULL, a note. Returns what is logged. */
static const char *logged(const char *explanation, const char *note, bool expect_change)
{
	_cleanup_close_ int fd = memfd_create("log", MFD_CLOEXEC);
	_cleanup_close_ int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	_cleanup_scan_ struct scan scan = { .root = "" };
	static char text[4096];
	ssize_t n;

	if (explanation)
		scan_explain(&scan, "%s", explanation);
	if (note) {
		scan_note(&scan, "%s", note);
		scan_note(&scan, "%s", note);
	}
	assert_true(fd >= 0 && saved >= 0);
	assert_true(dup2(fd, STDERR_FILENO) >= 0);
	log_setup("t", LOG_TARGET_TEXT, LOG_INFO);
	assert_int_equal(scan_notes_take(&notes, &scan), expect_change);
	log_setup("t", LOG_TARGET_TEXT, LOG_CRIT);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	assert_true(n >= 0);
	text[n] = '\0';
	return text;
}

#define TWO   "match[0]: 2 GPUs, none left: vendor refused 2 (0000:03:00.0 has 0x1002)"
#define TEN   "match[0]: 10 GPUs, none left: vendor refused 10 (0000:03:00.0 has 0x1002)"
#define OTHER "match[0]: 2 GPUs, none left: vendor refused 2 (0000:04:00.0 has 0x1002)"

/* Devices that come and go do not fill the log. */
static void test_counts_are_not_logged_again(void **state)
{
	assert_string_equal(logged(TWO, NULL, true), "t: " TWO "\n");
	assert_string_equal(logged(TWO, NULL, false), "");
	assert_string_equal(logged(TEN, NULL, true), "");
	assert_string_equal(notes.notes.items[0], TEN);
	assert_string_equal(logged(OTHER, NULL, true), "t: " OTHER "\n");
	assert_string_equal(logged(NULL, NULL, true), "");
	assert_int_equal(notes.notes.count, 0);
	assert_string_equal(logged(OTHER, NULL, true), "t: " OTHER "\n");
	scan_notes_done(&notes);
}

/* Problems come first, each once. */
static void test_with_a_note(void **state)
{
	assert_string_equal(logged(TWO, "/dev/x cannot be read", true),
		"t: /dev/x cannot be read\nt: " TWO "\n");
	assert_int_equal(notes.notes.count, 2);
	assert_string_equal(notes.notes.items[1], TWO);
	assert_string_equal(logged(TEN, "/dev/x cannot be read", true), "");
	scan_notes_done(&notes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_are_not_logged_again),
		cmocka_unit_test(test_with_a_note),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
