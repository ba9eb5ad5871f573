/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that fail at Allocate: the errors, and that none of them outlives the inquiry.
 */
#include "inquiry-fixture.h"

#include "common/log.h"

static int setup(void **state)
{
	log_setup("test-allocation-inquiry-failures", LOG_TARGET_TEXT, LOG_CRIT);
	return inquiry_setup(state);
}

static void test_failures(void **state)
{
	static const struct {
		const char *script;
		int status;
		const char *message;
	} cases[] = {
		{ "echo one >&2; echo no seat left >&2; exit 3", -EIO,
			"/allocate failed with exit status 3: no seat left; correct this and" },
		{ "kill -SEGV $$", -EIO, "/allocate was killed by signal 11" },
		{ "echo waiting >&2; exec sleep 100", -ETIMEDOUT,
			"/allocate did not exit within 0.2 s and was killed: waiting; make it faster "
			"or raise allocate_timeout" },
		{ "echo ready", -EBADMSG, "/allocate is invalid: line 1" },
		{ ":", -EBADMSG, "/allocate is invalid: line 1" },
		{ "echo '{\"version\": 1, \"mounts\": [{\"host\": \"x\"}]}'", -EBADMSG,
			"is invalid: mounts[0]: \"host\" must be an absolute path" },
		{ "exec tr '\\000' ' ' < /dev/zero", -EBADMSG,
			"/allocate was killed: its answer exceeded 4194304 bytes" },
		/* A good answer of a program that fails is none. */
		{ "echo '{\"version\": 1}'; exit 1", -EIO, "/allocate failed with exit status 1" },
	};

	names("/list", "{\"id\": \"a\"}");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		program("/allocate", cases[i].script);
		begin(cases[i].status == -ETIMEDOUT
				? "{ command = \"/list\"; interval = 3600; "
				  "allocate = \"/allocate\"; allocate_timeout = 0.2; }"
				: ENTRY,
			"", 1);
		ASK("a");
		RUN_UNTIL(ended > i);
		assert_int_equal(end_status, cases[i].status);
		if (!strstr(end_error.message, cases[i].message))
			fail_msg("\"%s\" is not in \"%s\"", cases[i].message, end_error.message);
		assert_non_null(
			startswith(end_error.message, "device \"a\" of vendor.example/unit: "));
		/* After any result, the handler is called once. */
		run_for(50 * USEC_PER_MSEC);
		assert_int_equal(ended, i + 1);
		inquiry = inquiry_free(inquiry);
	}
}

/* Whether the device was unplugged, only the program knows. */
static void test_device_that_is_not_listed_any_more(void **state)
{
	const char *const ids[] = { "b" };
	struct error error;

	names("/list", "{\"id\": \"a\"}, {\"id\": \"b\", \"nodes\": [{\"host\": \"/dev/b\"}]}");
	host_mknod("/dev/b");
	begin("{ command = \"/list\"; interval = 0.1; allocate = \"/allocate\"; }", "", 2);
	names("/list.new", "{\"id\": \"a\"}");
	host_rename("/list.new", "/list");
	RUN_UNTIL(!renewed_snapshot()->units[1].healthy);
	assert_string_equal(snapshot->units[1].reason, "b is not listed any more");
	assert_int_equal(ask(ids, 1, &error), -EIO);
	assert_string_equal(error.message,
		"device \"b\" of vendor.example/unit is unhealthy: b is not listed any more; "
		"correct its program or drain the pod to another node");
}

static void test_cannot_start(void **state)
{
	static const char *const ids[] = { "a" };
	struct error error;

	names("/list", "{\"id\": \"a\"}");
	begin(ENTRY, "", 1);
	assert_int_equal(ask(ids, 1, &error), -ENOENT);
	assert_non_null(strstr(error.message,
		"/allocate cannot be started: No such file or directory; correct allocate in entry 1 "
		"of match"));
	run_for(50 * USEC_PER_MSEC);
	assert_int_equal(ended, 0);
}

static void test_out_of_time_before_the_start(void **state)
{
	static const char *const ids[] = { "a" };
	struct error error;

	names("/list", "{\"id\": \"a\"}");
	program("/allocate", "touch ran");
	begin(ENTRY, "", 1);
	assert_int_equal(inquiry_new(declaration_of(config), snapshot, host_root, ids, 1, NULL,
				 &inquiry, &error),
		0);
	assert_int_equal(
		inquiry_start(inquiry, host_event, now_usec(CLOCK_MONOTONIC) - 10 * USEC_PER_SEC,
			on_end, NULL, &error),
		-ETIMEDOUT);
	assert_non_null(strstr(error.message, "/allocate was not started within 10 s"));
}

/* The first failure ends the others, and so does freeing. */
static void expect_killed(const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", atoi(read_file(name)));
	assert_true(atoi(read_file(name)) > 0);
	for (uint64_t end = now_usec(CLOCK_MONOTONIC) + PATIENCE;; run_for(10 * USEC_PER_MSEC)) {
		_cleanup_fclose_ FILE *stream = fopen(path, "re");
		char state = 'Z';

		if (!stream || fscanf(stream, "%*d (%*[^)]) %c", &state) != 1 || state == 'Z')
			return;
		assert_true(now_usec(CLOCK_MONOTONIC) < end);
	}
}

static void test_programs_are_killed(void **state)
{
	names("/list", "{\"id\": \"b\"}");
	names("/other-list", "{\"id\": \"a\"}");
	program("/allocate", "until [ -e pid ]; do sleep 0.01; done; exit 1");
	/* Its child is meant, too. */
	program("/other", "sleep 100 & echo $! > pid.new; mv pid.new pid; wait");
	begin(ENTRY ", " OTHER_ENTRY, "", 2);
	ASK("a", "b");
	RUN_UNTIL(ended > 0);
	assert_int_equal(end_status, -EIO);
	expect_killed("/pid");
	inquiry = inquiry_free(inquiry);
	host_remove("/pid");
	ASK("a");
	RUN_UNTIL(*read_file("/pid"));
	inquiry = inquiry_free(inquiry);
	expect_killed("/pid");
	assert_int_equal(ended, 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, inquiry_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_failures),
		TEST(test_device_that_is_not_listed_any_more),
		TEST(test_cannot_start),
		TEST(test_out_of_time_before_the_start),
		TEST(test_programs_are_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
