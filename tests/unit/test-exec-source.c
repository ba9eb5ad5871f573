/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that list devices, and programs that behave badly.
 */
#include "host-fixture.h"

#include <signal.h>

#include "drivers/exec/exec-source.h"

#define FIRST  "{\"version\": 1, \"devices\": [{\"id\": \"first\"}]}"
#define SECOND "{\"version\": 1, \"devices\": [{\"id\": \"second\"}]}"
#define NONE   "{\"version\": 1, \"devices\": []}"

static struct exec_source *source;
static struct exec_match match;
static unsigned changes;

static int setup(void **state)
{
	changes = 0;
	return host_setup(state);
}

static int teardown(void **state)
{
	source = exec_source_free(source);
	strings_done(&match.command);
	return host_teardown(state);
}

static void on_change(void *userdata)
{
	assert_ptr_equal(userdata, &changes);
	changes++;
}

/* Runs a script in the directory of the test. */
static void begin(enum exec_mode mode, const char *script, struct exec_list *list)
{
	static const char *const words[] = { "/bin/sh", "-c", "cd \"$1\"; eval \"$2\"", "sh" };

	match = (struct exec_match){
		.mode = mode,
		.interval = 100 * USEC_PER_MSEC,
		.timeout = 10 * USEC_PER_SEC,
	};
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		assert_int_equal(strings_add(&match.command, words[i], strlen(words[i])), 0);
	assert_int_equal(strings_add(&match.command, host_root, strlen(host_root)), 0);
	assert_int_equal(strings_add(&match.command, script, strlen(script)), 0);
	assert_int_equal(
		exec_source_new(host_event, &match, "", list, on_change, &changes, &source), 0);
}

static void run_once(enum exec_mode mode, const char *script)
{
	source = exec_source_free(source);
	strings_done(&match.command);
	begin(mode, script, NULL);
}

/* The ids of the list, or "none yet". */
static const char *ids(void)
{
	const struct exec_list *list = exec_source_list(source);
	static char text[1024];

	text[0] = '\0';
	if (!list)
		return "none yet";
	for (size_t i = 0; i < list->n_devices; i++) {
		(void)strcat(text, list->devices[i]->id);
		(void)strcat(text, " ");
	}
	return text;
}

static bool failed_with(const char *text)
{
	return exec_source_failure(source) && strstr(exec_source_failure(source), text);
}

static bool is_there(const char *name)
{
	char path[512];

	host_path(path, name);
	return access(path, F_OK) == 0;
}

static void test_poll(void **state)
{
	host_write("/list", FIRST);
	begin(EXEC_POLL, "cat list", NULL);
	assert_string_equal(ids(), "none yet");
	assert_false(exec_source_answered(source));
	RUN_UNTIL(changes == 1);
	assert_string_equal(ids(), "first ");
	assert_true(exec_source_answered(source));
	/* The same again is nothing new. */
	run_for(300 * USEC_PER_MSEC);
	assert_int_equal(changes, 1);
	host_replace("/list", "\n\n" SECOND "\n\n");
	RUN_UNTIL(changes == 2);
	assert_string_equal(ids(), "second ");
	host_replace("/list", NONE);
	RUN_UNTIL(changes == 3);
	assert_string_equal(ids(), "");
	assert_null(exec_source_failure(source));
}

static void test_bad_runs_keep_the_list(void **state)
{
	static const struct {
		const char *script;
		const char *failure;
	} cases[] = {
		{ "echo no such server >&2; exit 3",
			"/bin/sh failed with exit status 3: no such server" },
		{ "cat list; exit 1", "failed with exit status 1" },
		{ "kill -KILL $$", "signal 9" },
		{ "echo hello",
			"the output of /bin/sh is invalid: line 1, column 5 is not valid JSON" },
		{ ":", "is invalid" },
		{ "cat list list", "is invalid: line 1" },
		{ "head -c 1000 /dev/zero", "is invalid" },
		{ "head -c 100000 /bin/sh", "is invalid" },
		{ "exec yes '['", "/bin/sh was killed: it wrote more than 4194304 bytes" },
		{ "exec cat /dev/zero", "/bin/sh was killed: it wrote more than 4194304 bytes" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		host_replace("/list", FIRST);
		host_write("/script", "cat list");
		run_once(EXEC_POLL, ". ./script");
		RUN_UNTIL(exec_source_list(source));
		host_replace("/script", cases[i].script);
		RUN_UNTIL(exec_source_failure(source));
		if (!failed_with(cases[i].failure))
			fail_msg("%s: %s", cases[i].script, exec_source_failure(source));
		assert_string_equal(ids(), "first ");
		/* The same failure again is nothing new. */
		changes = 0;
		run_for(300 * USEC_PER_MSEC);
		assert_int_equal(changes, 0);
		host_replace("/list", SECOND);
		host_replace("/script", "cat list");
		RUN_UNTIL(!exec_source_failure(source));
		assert_string_equal(ids(), "second ");
	}
}

static void test_poll_out_of_time(void **state)
{
	begin(EXEC_POLL, "echo thinking >&2; exec sleep 1000", NULL);
	match.timeout = USEC_PER_SEC;
	RUN_UNTIL(exec_source_failure(source));
	assert_string_equal(exec_source_failure(source),
		"/bin/sh did not exit within 1 s and was killed: thinking");
	assert_false(exec_source_answered(source));
}

static void test_cannot_be_started(void **state)
{
	begin(EXEC_WATCH, "", NULL);
	free(match.command.items[0]);
	match.command.items[0] = strdup("/nonexistent/program");
	RUN_UNTIL(exec_source_failure(source));
	assert_string_equal(exec_source_failure(source),
		"/nonexistent/program cannot be started: No such file or directory");
}

static void test_watch(void **state)
{
	begin(EXEC_WATCH,
		"mkfifo go; echo '" FIRST "'; cat go; echo; echo ' '; printf '" SECOND
		"'; cat go; echo; "
		"exec sleep 1000",
		NULL);
	RUN_UNTIL(changes == 1);
	assert_string_equal(ids(), "first ");
	assert_true(exec_source_answered(source));
	RUN_UNTIL(is_there("/go"));
	host_write("/go", "");
	/* It counts when its newline is there. */
	run_for(300 * USEC_PER_MSEC);
	assert_int_equal(changes, 1);
	host_write("/go", "");
	RUN_UNTIL(changes == 2);
	assert_string_equal(ids(), "second ");
	assert_null(exec_source_failure(source));
}

static void test_watch_lines(void **state)
{
	host_write("/lines", FIRST "\n" NONE "\n{}\n" SECOND "\n");
	begin(EXEC_WATCH, "cat lines; exec sleep 1000", NULL);
	RUN_UNTIL(exec_source_list(source));
	/* All came at once: the newest has everything. */
	assert_string_equal(ids(), "second ");
	assert_null(exec_source_failure(source));

	host_write("/lines", FIRST "\n\n{\"version\": 1, \"devices\": [{}]}\n");
	run_once(EXEC_WATCH,
		"echo '" SECOND
		"'; until [ -e go ]; do sleep 0.05; done; cat lines; exec sleep 1000");
	RUN_UNTIL(exec_source_list(source));
	host_write("/go", "");
	RUN_UNTIL(exec_source_failure(source));
	assert_string_equal(exec_source_failure(source),
		"line 4 of /bin/sh is invalid: devices[0]: \"id\" is missing");
	assert_string_equal(ids(), "second ");
}

static void test_watch_starts_again(void **state)
{
	uint64_t begun = now_usec(CLOCK_MONOTONIC);

	host_write("/runs", "");
	begin(EXEC_WATCH,
		"echo >> runs; echo '" FIRST "'; [ $(wc -l < runs) -lt 4 ] || exec sleep 1000",
		NULL);
	RUN_UNTIL(exec_source_failure(source));
	assert_string_equal(exec_source_failure(source),
		"/bin/sh exited; it must keep running and write a line for every change");
	assert_string_equal(ids(), "first ");
	/* One by one later: 0.1, 0.2 and 0.4 s. */
	RUN_UNTIL(!exec_source_failure(source) &&
		now_usec(CLOCK_MONOTONIC) > begun + 700 * USEC_PER_MSEC);
	run_for(200 * USEC_PER_MSEC);
	assert_null(exec_source_failure(source));
}

/* The delays between starts, of which only a lower bound can be tested. */
static void test_backoff(void **state)
{
	uint64_t begun = now_usec(CLOCK_MONOTONIC), took;

	host_write("/runs", "");
	begin(EXEC_WATCH, "echo >> runs; [ $(wc -l < runs) -lt 4 ] || touch fourth; exit 1", NULL);
	RUN_UNTIL(is_there("/fourth"));
	took = now_usec(CLOCK_MONOTONIC) - begun;
	assert_true(took >= (100 + 200 + 400) * USEC_PER_MSEC);
	assert_true(failed_with("failed with exit status 1"));
}

static void test_watch_killed(void **state)
{
	char path[512], text[32] = "";
	FILE *stream;

	host_write("/runs", "");
	begin(EXEC_WATCH,
		"echo >> runs; echo $$ > new; mv new pid$(wc -l < runs); echo '" FIRST
		"'; exec sleep 1000",
		NULL);
	RUN_UNTIL(exec_source_list(source));
	host_path(path, "/pid1");
	stream = fopen(path, "re");
	assert_non_null(stream);
	assert_non_null(fgets(text, sizeof(text), stream));
	(void)fclose(stream);
	assert_int_equal(kill((pid_t)atoi(text), SIGKILL), 0);
	RUN_UNTIL(failed_with("signal 9"));
	assert_string_equal(ids(), "first ");
	RUN_UNTIL(is_there("/pid2") && !exec_source_failure(source));
}

static void test_watch_without_output(void **state)
{
	begin(EXEC_WATCH, "printf '" FIRST "'; exec sleep 1000", NULL);
	match.timeout = 200 * USEC_PER_MSEC;
	RUN_UNTIL(exec_source_failure(source));
	assert_string_equal(
		exec_source_failure(source), "/bin/sh wrote no line within 0.2 s and was killed");
	assert_string_equal(ids(), "none yet");
	/* With a line it may take its time. */
	run_once(EXEC_WATCH, "echo '" FIRST "'; sleep 2; echo '" SECOND "'; exec sleep 1000");
	match.timeout = 3 * USEC_PER_SEC / 2;
	RUN_UNTIL(streq(ids(), "second "));
	assert_null(exec_source_failure(source));
}

static void test_watch_ends_within_a_line(void **state)
{
	begin(EXEC_WATCH, "echo '" FIRST "'; printf '" SECOND "'", NULL);
	RUN_UNTIL(failed_with("/bin/sh exited within a line"));
	assert_string_equal(ids(), "first ");
}

static void test_watch_without_newline(void **state)
{
	begin(EXEC_WATCH, "echo '" FIRST "'; exec tr '\\000' x < /dev/zero", NULL);
	RUN_UNTIL(failed_with("was killed: it wrote more than 4194304 bytes without a newline"));
	assert_string_equal(ids(), "first ");
}

/* Each malformed line has another number, the fault in it is the same. */
static void test_watch_same_fault_again(void **state)
{
	begin(EXEC_WATCH,
		"echo '{}'; sleep 1.3; echo '{}'; sleep 0.5; echo '" FIRST "'; exec sleep 1000",
		NULL);
	RUN_UNTIL(exec_source_list(source));
	assert_int_equal(changes, 2);
}

/* All output of a program that never stops writing is read, but little of it is parsed. */
static void test_watch_flood(void **state)
{
	uint64_t begun, took;

	begin(EXEC_WATCH,
		"while :; do i=$((i + 1)); echo '{\"version\": 1, \"devices\": [{\"id\": \"'$i'\"}]}'; done",
		NULL);
	RUN_UNTIL(exec_source_list(source));
	changes = 0;
	begun = now_usec(CLOCK_MONOTONIC);
	run_for(USEC_PER_SEC);
	took = now_usec(CLOCK_MONOTONIC) - begun;
	assert_true(changes >= 1 && changes <= 1 + took / (100 * USEC_PER_MSEC));
	source = exec_source_free(source);
	strings_done(&match.command);
	begin(EXEC_WATCH, "exec yes >&2", NULL);
	match.timeout = 300 * USEC_PER_MSEC;
	RUN_UNTIL(failed_with("wrote no line"));
}

/* Failures that are never the same twice are not each worth a sentence. */
static void test_failures_are_reported_rarely(void **state)
{
	uint64_t begun = now_usec(CLOCK_MONOTONIC), took;

	begin(EXEC_WATCH,
		"i=1; while :; do i=$((i + 1)); echo '{\"version\": '$i'}'; sleep 0.12; echo '" NONE
		"'; sleep 0.12; done",
		NULL);
	RUN_UNTIL(exec_source_failure(source));
	changes = 0;
	run_for(900 * USEC_PER_MSEC);
	took = now_usec(CLOCK_MONOTONIC) - begun;
	/* The first good answer; each sentence has another. */
	assert_true(changes >= 1 && changes <= 1 + 2 * (took / USEC_PER_SEC));
	RUN_UNTIL(exec_source_failure(source));
}

/* A program that fails in another way soon after: nothing runs that would report it later. */
static void test_the_last_failure_is_reported(void **state)
{
	begin(EXEC_WATCH,
		"echo '{}'; until [ -e go ]; do sleep 0.05; done; echo '{\"version\": 2}'; exec sleep 1000",
		NULL);
	RUN_UNTIL(failed_with("line 1 of /bin/sh is invalid"));
	host_write("/go", "");
	RUN_UNTIL(failed_with("line 2 of /bin/sh is invalid"));
	assert_int_equal(changes, 2);
}

/* One that fails in the first way again has nothing else to report. */
static void test_a_failure_that_waits_is_overtaken(void **state)
{
	begin(EXEC_WATCH,
		"echo '{}'; sleep 0.2; echo '{\"version\": 2}'; sleep 0.2; echo '{}'; sleep 2; touch ready; "
		"exec sleep 1000",
		NULL);
	RUN_UNTIL(is_there("/ready"));
	assert_true(failed_with("line 1 of /bin/sh is invalid") ||
		failed_with("line 3 of /bin/sh is invalid"));
}

static void test_list_of_before(void **state)
{
	struct exec_list *list;
	struct error error;

	assert_int_equal(
		exec_document_read(FIRST, strlen(FIRST), PROPERTIES_VARIABLES, &list, &error), 0);
	begin(EXEC_POLL, "until [ -e go ]; do sleep 0.05; done; echo '" SECOND "'", list);
	(void)exec_list_unref(list);
	assert_string_equal(ids(), "first ");
	run_for(200 * USEC_PER_MSEC);
	assert_int_equal(changes, 0);
	assert_false(exec_source_answered(source));
	host_write("/go", "");
	RUN_UNTIL(changes == 1);
	assert_string_equal(ids(), "second ");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_poll),
		TEST(test_bad_runs_keep_the_list),
		TEST(test_poll_out_of_time),
		TEST(test_cannot_be_started),
		TEST(test_watch),
		TEST(test_watch_lines),
		TEST(test_watch_starts_again),
		TEST(test_backoff),
		TEST(test_watch_killed),
		TEST(test_watch_without_output),
		TEST(test_watch_ends_within_a_line),
		TEST(test_watch_without_newline),
		TEST(test_watch_same_fault_again),
		TEST(test_watch_flood),
		TEST(test_failures_are_reported_rarely),
		TEST(test_the_last_failure_is_reported),
		TEST(test_a_failure_that_waits_is_overtaken),
		TEST(test_list_of_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
