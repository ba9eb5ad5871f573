/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a log record goes and its form there.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/text.h"

static char output[16384];

static int saved_stderr;
static int capture[2];

static void begin(void)
{
	assert_int_equal(pipe2(capture, O_CLOEXEC | O_NONBLOCK), 0);
	saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	assert_true(dup2(capture[1], STDERR_FILENO) >= 0);
}

static const char *end(void)
{
	ssize_t n;

	assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
	n = read(capture[0], output, sizeof(output) - 1);
	output[n > 0 ? n : 0] = '\0';
	saved_stderr = close_fd(saved_stderr);
	capture[0] = close_fd(capture[0]);
	capture[1] = close_fd(capture[1]);
	return output;
}

static void test_text(void **state)
{
	const struct log_fields fields = { .resource = "vendor.example/gpu" };
	const struct log_fields named = { .resource = "vendor.example/gpu", .named = true };

	log_setup("devplugd", LOG_TARGET_TEXT, LOG_INFO);
	begin();
	log_info("hello %d", 1);
	log_full(LOG_ERR, &fields, "it burns");
	log_full(LOG_ERR, &named, "= keep vendor.example/gpu");
	log_debug("not shown");
	assert_string_equal(end(),
		"devplugd: hello 1\ndevplugd: vendor.example/gpu: it burns\n"
		"devplugd: = keep vendor.example/gpu\n");
	log_set_max_level(LOG_DEBUG);
	begin();
	log_debug("shown");
	assert_string_equal(end(), "devplugd: shown\n");
}

static void test_parent(void **state)
{
	const struct log_fields fields = { .resource = "vendor.example/gpu", .device = "a" };
	const struct log_fields event = { .device = "a", .message_id = "0123" };

	log_setup("devplugd-plugin", LOG_TARGET_PARENT, LOG_INFO);
	begin();
	log_full(LOG_WARNING, &fields, "it burns");
	log_error("and\n<0>breaks\033[31m lines\xff");
	assert_string_equal(end(), "<4>it burns\n<3>and?<0>breaks?[31m lines?\n");
	begin();
	log_full(LOG_WARNING, &event, "it burns");
	assert_string_equal(end(), "<4;a>it burns\n");
}

static void test_long_record(void **state)
{
	char text[8192];
	size_t length;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_setup("devplugd", LOG_TARGET_PARENT, LOG_INFO);
	begin();
	log_info("%s", text);
	length = strlen(end());
	assert_true(length > 1024 && length < 4096); /* cut, but one line, written at once */
	assert_int_equal(output[length - 1], '\n');
	assert_null(memchr(output, '\n', length - 1));
}

/* JOURNAL_STREAM is inherited by programs whose stderr has been redirected since. */
static void test_budget(void **state)
{
	struct log_budget budget = { 0 };
	unsigned admitted = 0;

	log_setup("devplugd", LOG_TARGET_TEXT, LOG_INFO);
	begin();
	for (unsigned i = 0; i < 3 * LOG_BUDGET_BURST; i++)
		admitted += log_budget_admits(&budget, NULL);
	assert_int_equal(admitted, LOG_BUDGET_BURST);
	assert_string_equal(end(),
		"devplugd: more than 100 messages of this kind in 10 s: further ones are not "
		"logged\n");
	budget.begun -= LOG_BUDGET_INTERVAL;
	assert_true(log_budget_admits(&budget, NULL));
}

static void test_once(void **state)
{
	struct log_once once = { 0 };
	char text[16];

	assert_true(log_once_admits(&once, "a"));
	assert_true(log_once_admits(&once, "line 3 of x: b"));
	assert_false(log_once_admits(&once, "a"));
	assert_false(log_once_admits(&once, "line 14 of x: b"));
	assert_true(log_once_admits(&once, "line 3 of x: c"));
	/* Everything is well in between. */
	assert_false(log_once_admits(&once, NULL));
	assert_true(log_once_admits(&once, "a"));
	/* Something that has long been forgotten, and something old. */
	for (unsigned i = 0; i < LOG_ONCE_MAX; i++) {
		(void)snprintf(text, sizeof(text), "%u", i);
		assert_true(log_once_admits(&once, text));
	}
	assert_true(log_once_admits(&once, "a"));
	for (unsigned i = 0; i < LOG_ONCE_MAX; i++)
		once.texts[i].logged_at -= MIN_OF(LOG_ONCE_AGE, once.texts[i].logged_at);
	assert_true(log_once_admits(&once, "a"));
}

/* What finds no room in the budget is logged when there is room again. */
static void test_once_within_a_budget(void **state)
{
	struct log_budget budget = { 0 };
	struct log_once once = { 0 };

	begin();
	assert_true(log_once_admits_within(&once, &budget, NULL, "a"));
	assert_false(log_once_admits_within(&once, &budget, NULL, "a"));
	assert_int_equal(budget.used, 1);
	while (log_budget_admits(&budget, NULL))
		;
	assert_false(log_once_admits_within(&once, &budget, NULL, "b"));
	budget.begun -= LOG_BUDGET_INTERVAL;
	assert_false(log_once_admits_within(&once, &budget, NULL, "a"));
	assert_true(log_once_admits_within(&once, &budget, NULL, "b"));
	assert_false(log_once_admits_within(&once, &budget, NULL, "b"));
	assert_false(log_once_admits_within(&once, &budget, NULL, NULL));
	assert_true(log_once_admits_within(&once, &budget, NULL, "a"));
	assert_non_null(strstr(end(), "further ones are not logged"));
}

static void test_journal_only_if_connected(void **state)
{
	struct stat st;
	char stream[64];

	begin();
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	(void)snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino + 1);
	assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
	log_setup("devplugd", LOG_TARGET_AUTO, LOG_INFO);
	log_info("as text");
	(void)snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino);
	assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
	log_setup("devplugd", LOG_TARGET_AUTO, LOG_INFO);
	log_debug("to the journal, if it were not below the level");
	log_info("test record of devplugd's test-log");
	assert_string_equal(end(), "devplugd: as text\n");
	assert_int_equal(unsetenv("JOURNAL_STREAM"), 0);
}

static void test_errno_is_kept(void **state)
{
	log_setup("devplugd", LOG_TARGET_TEXT, LOG_INFO);
	begin();
	errno = ENOSPC;
	log_info("%m");
	assert_int_equal(errno, ENOSPC);
	assert_true(dup2(capture[0], STDERR_FILENO) >= 0); /* not open for writing */
	log_info("lost");
	assert_int_equal(errno, ENOSPC);
	assert_string_equal(end(), "devplugd: No space left on device\n");
}

static void test_sanitize(void **state)
{
	static const struct {
		const char *before, *after;
	} cases[] = {
		{ "plain", "plain" },
		{ "", "" },
		{ "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x94\xa5",
			"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x94\xa5" },
		{ "a\tb\x7f", "a?b?" },
		{ "\xc2\x9b"
		  "31m",
			"??31m" },
		{ "cut \xe2\x82", "cut ??" },
		{ "\xed\xa0\x80", "???" },
		{ "\xc0\x80", "??" },
	};
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		(void)snprintf(text, sizeof(text), "%s", cases[i].before);
		text_sanitize(text);
		assert_string_equal(text, cases[i].after);
	}
	text_time(86400 * USEC_PER_SEC + 999999, text);
	assert_string_equal(text, "1970-01-02T00:00:00Z");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_parent),
		cmocka_unit_test(test_long_record),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_once_within_a_budget),
		cmocka_unit_test(test_journal_only_if_connected),
		cmocka_unit_test(test_errno_is_kept),
		cmocka_unit_test(test_sanitize),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
