/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that hang in the kernel, where SIGKILL does not end them: none is started again for the
 * same device before it has ended, and others are.
 */
#include "inquiry-fixture.h"
#include "locked-file-fixture.h"

#include "common/log.h"
#include "drivers/exec/exec-source.h"
#include "proto/plugin/pre-start.h"

#define HANGS       "cannot be killed, because it hangs in the kernel"
#define STILL_HANGS "its earlier run still hangs in the kernel"

static struct locked_file file;
static struct exec_match match;
static struct exec_source *source;

static int setup(void **state)
{
	int r = inquiry_setup(state);

	log_setup("test-hung-programs", LOG_TARGET_TEXT, LOG_CRIT);
	if (r < 0)
		return r;
	host_write("/log", "");
	return 0;
}

static int teardown(void **state)
{
	locked_file_close(&file);
	source = exec_source_free(source);
	strings_done(&match.command);
	return inquiry_teardown(state);
}

static bool lock(void)
{
	return locked_file_open(&file, "/locked", "ok\n", true);
}

/* How often the programs have written the line. */
static size_t logged(const char *line)
{
	return host_count_lines("/log", line);
}

#define HANG_WITH(id) \
	"echo $1 >>log; test $1 != " id " || read x <locked || exit 1; echo '{\"version\": 1}'"

static void start_probes(const char *keys)
{
	start(made(
		"driver = \"static\"; match = ( { count = 2; } ); health = ( { probe = \"exec\"; "
		"interval = 0.2; timeout = 1; %s command = [ \"%s/program\", \"${id}\" ]; } );",
		keys, host_root));
}

/* On a busy machine, a program may be killed before it hangs, and is started again. */
static void test_probe(void **state)
{
	size_t n, hung;

	if (!lock())
		skip();
	program("/program", HANG_WITH("unit-0"));
	start_probes("");
	RUN_UNTIL(strstr(reason_of("unit-0"), HANGS));
	RUN_UNTIL(strstr(reason_of("unit-0"), STILL_HANGS));
	hung = logged("unit-0");
	n = logged("unit-1");
	RUN_UNTIL(logged("unit-1") > n + 5);
	RUN_UNTIL(streq(reason_of("unit-1"), ""));
	assert_int_equal(logged("unit-0"), hung);
	/* Also not for the units of another configuration. */
	start_probes("fail_after = 1;");
	RUN_UNTIL(strstr(reason_of("unit-0"), STILL_HANGS));
	assert_int_equal(logged("unit-0"), hung);
	file.locked = false;
	RUN_UNTIL(streq(reason_of("unit-0"), ""));
	assert_true(logged("unit-0") > hung);
}

/* A test that is not started is not one of the attempts. */
static void test_test(void **state)
{
	size_t hung;

	if (!lock())
		skip();
	program("/program", HANG_WITH("unit-0"));
	start_probes("on_recovery = true; once = true; attempts = 8;");
	RUN_UNTIL(strstr(reason_of("unit-0"), "cannot be tested yet: "));
	assert_non_null(strstr(reason_of("unit-0"), STILL_HANGS));
	hung = logged("unit-0");
	run_for(3 * USEC_PER_SEC);
	assert_non_null(strstr(reason_of("unit-0"), "cannot be tested yet: "));
	assert_int_equal(logged("unit-0"), hung);
	file.locked = false;
	RUN_UNTIL(streq(reason_of("unit-0"), ""));
	assert_true(logged("unit-0") > hung);
}

static void on_list(void *userdata)
{
}

static void start_source(void)
{
	source = exec_source_free(source);
	assert_int_equal(
		exec_source_new(host_event, &match, host_root, NULL, on_list, NULL, &source), 0);
}

static bool still_hangs(void)
{
	const char *failure = exec_source_failure(source);

	return failure && strstr(failure, STILL_HANGS);
}

/* Such as devplugd-nvml. */
static void test_source(void **state)
{
	static const char command[] = "/program";
	size_t hung;

	if (!lock())
		skip();
	program("/program",
		"echo start >>log; read x <locked; echo '{\"version\": 1, \"devices\": "
		"[]}'; exec sleep 1000");
	match = (struct exec_match){ .mode = EXEC_WATCH, .timeout = 2 * USEC_PER_SEC };
	assert_int_equal(strings_add(&match.command, command, strlen(command)), 0);
	start_source();
	RUN_UNTIL(still_hangs());
	hung = logged("start");
	start_source();
	RUN_UNTIL(still_hangs());
	run_for(USEC_PER_SEC);
	assert_int_equal(logged("start"), hung);
	file.locked = false;
	RUN_UNTIL(exec_source_answered(source));
	assert_true(logged("start") > hung);
}

/* A container that gets the device and others is refused, too. */
static void test_allocate(void **state)
{
	static const char *const ids[] = { "b", "a" };
	struct error error;

	if (!lock())
		skip();
	names("/list", "{\"id\": \"a\"}, {\"id\": \"b\"}, {\"id\": \"c\"}");
	program("/allocate", "grep -q '\"id\": *\"a\"' && read x <locked; echo '{\"version\": 1}'");
	begin("{ command = \"/list\"; interval = 3600; allocate = \"/allocate\"; allocate_timeout "
	      "= 3; }",
		"", 3);
	do {
		ended = 0;
		ASK("a", "c");
		RUN_UNTIL(ended == 1);
		assert_int_equal(end_status, -ETIMEDOUT);
		inquiry = inquiry_free(inquiry);
	} while (!strstr(end_error.message, HANGS));
	assert_int_equal(ask(ids, 2, &error), -EBUSY);
	if (!strstr(error.message, STILL_HANGS "; check the hardware that it uses"))
		fail_msg("%s", error.message);
	inquiry = inquiry_free(inquiry);
	ASK("b");
	RUN_UNTIL(ended == 2);
	assert_int_equal(end_status, 0);
	inquiry = inquiry_free(inquiry);
	file.locked = false;
	RUN_UNTIL(ask(ids, 2, &error) >= 0 || (inquiry = inquiry_free(inquiry)));
	RUN_UNTIL(ended == 3);
	assert_int_equal(end_status, 0);
}

static void on_prestarted(int status, const struct error *error, void *userdata)
{
	on_end(status, status < 0 ? error : &(const struct error){ 0 }, userdata);
}

static int prestart(struct offer *offer, const char *first, const char *second)
{
	struct pre_starts running = { 0 };
	const char *ids[] = { first, second };
	unsigned before = ended;

	pre_start_run(&running, host_event, offer, ids, second ? 2 : 1, NULL, on_prestarted, NULL);
	RUN_UNTIL(ended > before);
	return end_status;
}

static void expect_prestarts(const char *word)
{
	struct applied_config applied = { .references = 1 };
	struct offer offer = { .references = 1, .applied_config = &applied };

	program("/program", HANG_WITH("unit-0"));
	start(made("driver = \"static\"; match = ( { count = 3; } ); prestart = { timeout = 3; "
		   "command = [ \"%s/program\", \"%s\" ]; };",
		host_root, word));
	(void)renewed_snapshot();
	applied.declaration = declaration_of(config);
	offer.snapshot = snapshot;
	do
		assert_int_equal(prestart(&offer, "unit-0", NULL), -ETIMEDOUT);
	while (!strstr(end_error.message, HANGS));
	assert_int_equal(prestart(&offer, "unit-0", "unit-1"), -EBUSY);
	assert_non_null(strstr(end_error.message, STILL_HANGS));
	assert_int_equal(prestart(&offer, "unit-1", NULL), 0);
	assert_int_equal(prestart(&offer, "unit-1", "unit-2"), 0);
}

static void test_prestart_of_each_device(void **state)
{
	if (!lock())
		skip();
	expect_prestarts("${id}");
}

static void test_prestart_of_all_devices(void **state)
{
	if (!lock())
		skip();
	expect_prestarts("${ids}");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_probe),
		TEST(test_test),
		TEST(test_source),
		TEST(test_allocate),
		TEST(test_prestart_of_each_device),
		TEST(test_prestart_of_all_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
