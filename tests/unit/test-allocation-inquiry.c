/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are asked at Allocate: whom they are told of, what becomes of their answers, and
 * what is said when there is none.
 */
#include "allocation-fixture.h"
#include "inventory-fixture.h"

#include "common/log.h"
#include "drivers/allocation-inquiry.h"

static struct inquiry *inquiry;
static struct snapshot *snapshot;
static unsigned ended;
static int end_status;
static struct error end_error;

static int setup(void **state)
{
	log_setup("test-allocation-inquiry", LOG_TARGET_TEXT, LOG_CRIT);
	ended = 0;
	return host_setup(state);
}

static int teardown(void **state)
{
	inquiry = inquiry_free(inquiry);
	snapshot = snapshot_unref(snapshot);
	return inventory_teardown(state);
}

/* A shell script, which runs in the root of the host. */
static void program(const char *name, const char *script)
{
	_cleanup_free_ char *text = NULL;
	char path[512];

	assert_true(asprintf(&text, "#!/bin/sh\ncd %s\n%s\n", host_root, script) > 0);
	host_write(name, text);
	host_path(path, name);
	assert_int_equal(chmod(path, 0755), 0);
}

/* One that names devices, or answers. */
static void writes(const char *name, const char *document)
{
	_cleanup_free_ char *script = NULL;

	assert_true(
		asprintf(&script, "cat > told%s\ncat <<'END'\n%s\nEND", name + 1, document) > 0);
	program(name, script);
}

static void names(const char *name, const char *devices)
{
	_cleanup_free_ char *document = NULL;

	assert_true(asprintf(&document, "{\"version\": 1, \"devices\": [%s]}", devices) > 0);
	writes(name, document);
}

static const struct snapshot *renewed_snapshot(void)
{
	(void)snapshot_unref(snapshot);
	snapshot = inventory_snapshot(inventory);
	return snapshot;
}

/* Declares the entries of match and waits until all devices are there. */
static void begin(const char *entries, const char *more, size_t n_devices)
{
	_cleanup_free_ char *text = NULL;

	snapshot = snapshot_unref(snapshot);
	assert_true(asprintf(&text, "driver = \"exec\"; match = ( %s ); %s", entries, more) > 0);
	start(text);
	RUN_UNTIL(renewed_snapshot()->n_units >= n_devices);
}

static void on_end(int status, const struct error *error, void *userdata)
{
	ended++;
	end_status = status;
	end_error = *error;
}

static int ask(const char *const *ids, size_t n_ids, struct error *error)
{
	int r = inquiry_new(
		declaration_of(config), snapshot, host_root, ids, n_ids, &inquiry, error);

	if (r >= 0 && inquiry_count(inquiry) > 0)
		r = inquiry_start(
			inquiry, host_event, now_usec(CLOCK_MONOTONIC), on_end, NULL, error);
	return r;
}

#define ASK(...)                                              \
	do {                                                  \
		const char *_ids[] = { __VA_ARGS__ };         \
		struct error _error;                          \
		if (ask(_ids, ARRAY_SIZE(_ids), &_error) < 0) \
			fail_msg("%s", _error.message);       \
	} while (0)

/* All that a container gets, a line each. */
static void expect_given(const char *const *ids, size_t n_ids, const char *expected)
{
	_cleanup_allocation_ struct allocation allocation = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	if (allocation_build(declaration_of(config), snapshot, host_root, ids, n_ids,
		    inquiry_answers(inquiry), &allocation, &error) < 0)
		(void)fprintf(stream, "error %s\n", error.message);
	for (size_t i = 0; i < allocation.n_nodes; i++)
		(void)fprintf(stream, "%s %s %s %s\n", allocation.nodes[i].mount ? "mount" : "node",
			allocation.nodes[i].host, allocation.nodes[i].path,
			allocation.nodes[i].permissions);
	print_allocation_texts(&allocation, stream);
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, expected);
}

static char *read_file(const char *name)
{
	static char text[4096];
	char path[512];
	FILE *stream;

	host_path(path, name);
	stream = fopen(path, "re");
	if (!stream || !fgets(text, sizeof(text), stream))
		text[0] = '\0';
	if (stream)
		(void)fclose(stream);
	return text;
}

#define ENTRY                                                                              \
	"{ command = \"/list\"; interval = 3600; allocate = [ \"/allocate\", \"word\" ]; " \
	"allocate_timeout = 10; }"
#define OTHER_ENTRY                                                             \
	"{ command = \"/other-list\"; interval = 3600; allocate = \"/other\"; " \
	"allocate_timeout = 10; }"

static void test_answer_is_merged(void **state)
{
	static const char *const ids[] = { "b#1", "a#0", "a#1" };

	host_mknod("/dev/x");
	host_mknod("/dev/y");
	host_mkdir("/srv/data");
	names("/list",
		"{\"id\": \"a\", \"env\": {\"URL\": \"one\"}, \"nodes\": [{\"host\": \"/dev/x\", "
		"\"permissions\": \"r\"}]}, {\"id\": \"b\"}");
	writes("/allocate",
		"{\"version\": 1, \"env\": {\"URL\": \"two\", \"OURS\": \"x\", \"TOKEN\": \"t\"},"
		"\"nodes\": [{\"host\": \"/dev/x\", \"permissions\": \"w\"}, {\"host\": \"/dev/y\"},"
		"{\"host\": \"/dev/none\", \"optional\": true}],"
		"\"mounts\": [{\"host\": \"/srv/data\", \"path\": \"/d\"}],"
		"\"annotations\": {\"v.e/ours\": \"x\", \"v.e/a\": \"1\"},"
		"\"cdi\": [\"v.e/c=1\", \"v.e/c=ours\"]}");
	begin(ENTRY,
		"share = { replicas = 2; }; container = { env = ( \"OURS=${n}\" ); "
		"annotations = ( \"v.e/ours=o\" ); cdi = ( \"v.e/c=ours\" ); };",
		2);
	ASK("b#1", "a#0", "a#1");
	assert_int_equal(inquiry_count(inquiry), 1);
	assert_string_equal(inquiry_program(inquiry, 0), "/allocate");
	RUN_UNTIL(ended > 0);
	assert_int_equal(end_status, 0);
	/* Each device once, with its replicas. */
	assert_non_null(strstr(read_file("/toldallocate"),
		"\"devices\": [{\"id\": \"a\", \"device_id\": \"a\", \"offered_ids\": [\"a#0\", "
		"\"a#1\"], "));
	assert_non_null(strstr(read_file("/toldallocate"),
		"{\"id\": \"b\", \"device_id\": \"b\", \"offered_ids\": [\"b#1\"], "));
	/* The configuration's word counts, different ones are joined, nodes are there once. */
	expect_given(ids, 3,
		"mount /srv/data /d \n"
		"node /dev/x /dev/x rw\nnode /dev/y /dev/y rw\n"
		"env OURS=2\nenv URL=one,two\nenv TOKEN=t\n"
		"annotation v.e/ours=o\nannotation v.e/a=1\ncdi v.e/c=ours\ncdi v.e/c=1\n");
}

static void test_each_program_has_its_own_devices(void **state)
{
	static const char *const all[] = { "a", "b", "c", "d" }, *const last[] = { "d" };

	names("/list", "{\"id\": \"a\"}, {\"id\": \"c\"}");
	names("/other-list", "{\"id\": \"b\"}");
	names("/last-list", "{\"id\": \"d\"}");
	writes("/allocate", "{\"version\": 1, \"env\": {\"X\": \"1\"}}");
	writes("/other", "{\"version\": 1, \"env\": {\"X\": \"2\", \"Y\": \"y\"}}");
	begin(ENTRY ", " OTHER_ENTRY ", { command = \"/last-list\"; interval = 3600; }", "", 4);
	ASK("a", "b", "c", "d");
	assert_int_equal(inquiry_count(inquiry), 2);
	RUN_UNTIL(ended > 0);
	assert_int_equal(end_status, 0);
	assert_non_null(strstr(read_file("/toldallocate"), "\"device_id\": \"a\""));
	assert_non_null(strstr(read_file("/toldallocate"), "\"device_id\": \"c\""));
	assert_null(strstr(read_file("/toldallocate"), "\"device_id\": \"b\""));
	assert_non_null(strstr(read_file("/toldother"), "\"device_id\": \"b\""));
	assert_null(strstr(read_file("/toldother"), "\"device_id\": \"a\""));
	expect_given(all, 4, "env X=1,2\nenv Y=y\n");
	run_for(200 * USEC_PER_MSEC);
	assert_int_equal(ended, 1);
	/* Nobody is to be asked about the last. */
	inquiry = inquiry_free(inquiry);
	ASK("d");
	assert_int_equal(inquiry_count(inquiry), 0);
	expect_given(last, 1, "");
}

/* A device that another entry names from now on is asked about there. */
static void test_device_changes_its_entry(void **state)
{
	static const char entries[] =
		"{ command = \"/list\"; interval = 0.1; allocate = \"/allocate\"; }, "
		"{ command = \"/other-list\"; interval = 0.1; allocate = \"/other\"; }";

	names("/list", "{\"id\": \"a\"}");
	names("/other-list", "{\"id\": \"a\"}");
	writes("/other", "{\"version\": 1}");
	begin(entries, "", 1);
	assert_int_equal(snapshot->units[0].device->entry, 0);
	names("/list", "{\"id\": \"b\"}");
	RUN_UNTIL(renewed_snapshot()->units[0].device->entry == 1);
	ASK("a");
	assert_string_equal(inquiry_program(inquiry, 0), "/other");
}

static void test_conflicts(void **state)
{
	static const char *const ids[] = { "a", "b" };

	host_mknod("/dev/x");
	host_mknod("/dev/y");
	names("/list", "{\"id\": \"a\"}");
	names("/other-list", "{\"id\": \"b\"}");
	writes("/allocate",
		"{\"version\": 1, \"nodes\": [{\"host\": \"/dev/x\", \"path\": \"/dev/z\"}]}");
	writes("/other",
		"{\"version\": 1, \"nodes\": [{\"host\": \"/dev/y\", \"path\": \"/dev/z\"}]}");
	begin(ENTRY ", " OTHER_ENTRY, "", 2);
	ASK("a", "b");
	RUN_UNTIL(ended > 0);
	expect_given(ids, 2,
		"error /dev/z in the container would be /dev/x (program \"/allocate\") and /dev/y "
		"(program \"/other\") at once: give each a path of its own, or ask for one device of "
		"vendor.example/unit in a container\n");
	host_remove("/dev/x");
	expect_given(ids, 2,
		"error /allocate gives a container of vendor.example/unit /dev/x, which is missing on "
		"the host: correct the program\n");
}

static void test_failures(void **state)
{
	static const struct {
		const char *script;
		int status;
		const char *message;
	} cases[] = {
		{ "echo one >&2; echo no seat left >&2; exit 3", -EIO,
			"/allocate failed with exit status 3: no seat left; mend that and let" },
		{ "kill -SEGV $$", -EIO, "/allocate was ended by signal 11" },
		{ "echo waiting >&2; exec sleep 100", -ETIMEDOUT,
			"/allocate did not end within 0.2 s and was killed: waiting; make it faster "
			"or raise allocate_timeout" },
		{ "echo ready", -EBADMSG, "/allocate answered is of no use: line 1" },
		{ ":", -EBADMSG, "/allocate answered is of no use: line 1" },
		{ "echo '{\"version\": 1, \"mounts\": [{\"host\": \"x\"}]}'", -EBADMSG,
			"is of no use: mounts[0]: \"host\" must be an absolute path" },
		{ "exec tr '\\000' ' ' < /dev/zero", -EBADMSG,
			"/allocate was killed: it answered more than 4194304 bytes" },
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
		/* Whatever happened, it is told once. */
		run_for(50 * USEC_PER_MSEC);
		assert_int_equal(ended, i + 1);
		inquiry = inquiry_free(inquiry);
	}
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
	assert_int_equal(
		inquiry_new(declaration_of(config), snapshot, host_root, ids, 1, &inquiry, &error),
		0);
	assert_int_equal(
		inquiry_start(inquiry, host_event, now_usec(CLOCK_MONOTONIC) - 10 * USEC_PER_SEC,
			on_end, NULL, &error),
		-ETIMEDOUT);
	assert_non_null(strstr(error.message, "/allocate was not started within 10 s"));
}

static void test_bad_ids(void **state)
{
	static const char *const unknown[] = { "a", "x" }, *const twice[] = { "a", "a" };
	struct error error;

	names("/list", "{\"id\": \"a\"}");
	writes("/allocate", "{\"version\": 1}");
	begin(ENTRY, "", 1);
	assert_int_equal(ask(unknown, 2, &error), -ENOENT);
	assert_int_equal(ask(twice, 2, &error), -EINVAL);
	assert_int_equal(ask(NULL, 0, &error), -EINVAL);
	assert_null(inquiry);
	run_for(100 * USEC_PER_MSEC);
	assert_string_equal(read_file("/toldallocate"), "");
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

static void test_configuration(void **state)
{
	static const struct {
		const char *keys, *message;
	} cases[] = {
		{ "allocate = [ \"x\", \"/y\" ];",
			"allocate: must begin with the absolute path of a program, not \"x\"" },
		{ "allocate = [ ];", "must not be empty" },
		{ "allocate = [ \"/x\" ]; allocate_timeout = 0.05;", "must be from 0.1" },
		{ "allocate = [ \"/x\" ]; allocate_timeout = 10.5;", "to 10" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL, *problem = NULL;

		assert_true(asprintf(&text,
				    "driver = \"exec\"; match = ( { command = [ \"/x\" ]; %s } );",
				    cases[i].keys) > 0);
		problem = declare_problem(text);
		if (!strstr(problem, cases[i].message))
			fail_msg("%s: %s", cases[i].keys, problem);
	}
}

static void test_nobody_is_asked(void **state)
{
	static const char *const ids[] = { "a" };
	struct error error;

	start("driver = \"static\"; match = \"a\";");
	snapshot = inventory_snapshot(inventory);
	assert_false(inquiry_is_possible(declaration_of(config)));
	assert_int_equal(ask(ids, 1, &error), 0);
	assert_int_equal(inquiry_count(inquiry), 0);
	inquiry = inquiry_free(inquiry);
	start("driver = \"exec\"; match = ( { command = \"/list\"; } );");
	assert_false(inquiry_is_possible(declaration_of(config)));
	start("driver = \"exec\"; match = ( { command = \"/list\"; }, " ENTRY " );");
	assert_true(inquiry_is_possible(declaration_of(config)));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_answer_is_merged),
		TEST(test_each_program_has_its_own_devices),
		TEST(test_device_changes_its_entry),
		TEST(test_conflicts),
		TEST(test_failures),
		TEST(test_cannot_start),
		TEST(test_out_of_time_before_the_start),
		TEST(test_bad_ids),
		TEST(test_programs_are_killed),
		TEST(test_configuration),
		TEST(test_nobody_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
