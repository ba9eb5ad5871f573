/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that run at Allocate: the devices that each is sent, and how their answers are used.
 */
#include "allocation-fixture.h"
#include "inquiry-fixture.h"

#include "common/log.h"

static int setup(void **state)
{
	log_setup("test-allocation-inquiry", LOG_TARGET_TEXT, LOG_CRIT);
	return inquiry_setup(state);
}

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
	/* The last has no program. */
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
	names("/other-list", "");
	writes("/other", "{\"version\": 1}");
	begin(entries, "", 1);
	assert_int_equal(snapshot->units[0].device->entry, 0);
	names("/other-list", "{\"id\": \"a\"}");
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
		"error /dev/z in the container would be both /dev/x (program \"/allocate\") and /dev/y "
		"(program \"/other\"): set a different path for each, or request one device of "
		"vendor.example/unit for a container\n");
	host_remove("/dev/x");
	expect_given(ids, 2,
		"error /allocate gives a container of vendor.example/unit /dev/x, which is missing on "
		"the host: correct the program\n");
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

static void test_no_program_is_asked(void **state)
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

#define LEASES "allocate = { command = [ \"/allocate\", \"word\" ]; timeout = 10; };"

/* Any driver's devices. */
static void test_program_of_the_resource(void **state)
{
	static const char *const ids[] = { "x", "y" };

	host_mknod("/dev/x");
	host_mknod("/dev/y");
	writes("/allocate", "{\"version\": 1, \"env\": {\"LEASE\": \"7\"}}");
	start("driver = \"path\"; match = ( \"/dev/x\", \"/dev/y\" ); " LEASES);
	assert_true(inquiry_is_possible(declaration_of(config)));
	(void)renewed_snapshot();
	ASK("x", "y");
	assert_int_equal(inquiry_count(inquiry), 1);
	RUN_UNTIL(ended > 0);
	assert_int_equal(end_status, 0);
	assert_non_null(strstr(read_file("/toldallocate"),
		"{\"id\": \"x\", \"device_id\": \"x\", \"offered_ids\": [\"x\"], "));
	assert_non_null(strstr(read_file("/toldallocate"), "\"device_id\": \"y\""));
	expect_given(ids, 2, "node /dev/x /dev/x rw\nnode /dev/y /dev/y rw\nenv LEASE=7\n");
}

static void test_program_reads_what_a_driver_found(void **state)
{
	host_mkdir("/sys/devices/platform/can/net/can0");
	host_write("/sys/devices/platform/can/net/can0/type", "280\n");
	host_mkdir("/sys/class/net");
	host_symlink("../../devices/platform/can/net/can0", "/sys/class/net/can0");
	writes("/allocate", "{\"version\": 1}");
	start("driver = \"net\"; match = ( { type = \"interface\"; kind = \"can\"; } ); " LEASES);
	(void)renewed_snapshot();
	ASK("can0");
	RUN_UNTIL(ended > 0);
	assert_int_equal(end_status, 0);
	assert_non_null(strstr(read_file("/toldallocate"), "\"interface\": \"can0\""));
}

/* An entry of "exec" may have a program of its own. */
static void test_program_of_an_entry_comes_first(void **state)
{
	names("/list", "{\"id\": \"a\"}");
	names("/other-list", "{\"id\": \"b\", \"properties\": {\"P\": \"p\"}}");
	writes("/allocate", "{\"version\": 1}");
	writes("/other", "{\"version\": 1}");
	begin("{ command = \"/list\"; interval = 3600; }, " OTHER_ENTRY, LEASES, 2);
	ASK("a", "b");
	assert_int_equal(inquiry_count(inquiry), 2);
	RUN_UNTIL(ended > 0);
	assert_int_equal(end_status, 0);
	assert_non_null(strstr(read_file("/toldallocate"), "\"device_id\": \"a\""));
	assert_null(strstr(read_file("/toldallocate"), "\"device_id\": \"b\""));
	assert_non_null(strstr(read_file("/toldother"), "\"properties\": {\"P\": \"p\"}"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, inquiry_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_answer_is_merged),
		TEST(test_each_program_has_its_own_devices),
		TEST(test_device_changes_its_entry),
		TEST(test_conflicts),
		TEST(test_bad_ids),
		TEST(test_configuration),
		TEST(test_no_program_is_asked),
		TEST(test_program_of_the_resource),
		TEST(test_program_reads_what_a_driver_found),
		TEST(test_program_of_an_entry_comes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
