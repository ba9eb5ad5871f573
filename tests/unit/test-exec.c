/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "exec" within an inventory: what a container gets from a program's output, and that
 * neither a reload nor a restart loses anything.
 */
#include "allocation-fixture.h"
#include "cdi-fixture.h"
#include "host-fixture.h"

#include "common/log.h"
#include "drivers/health/saved-state.h"

struct side {
	struct config *config;
	struct inventory *inventory;
	unsigned told;
};

static struct side old, new;

static int setup(void **state)
{
	log_setup("test-exec", LOG_TARGET_TEXT, LOG_CRIT);
	if (host_setup(state) < 0)
		return -1;
	host_mkdir("/bin");
	host_symlink("/bin/cat", "/bin/cat");
	return 0;
}

static void side_done(struct side *side)
{
	side->inventory = inventory_free(side->inventory);
	side->config = config_free(side->config);
	*side = (struct side){ 0 };
}

static int teardown(void **state)
{
	side_done(&new);
	side_done(&old);
	return host_teardown(state);
}

static void on_change(struct inventory *inventory, void *userdata)
{
	struct side *side = userdata;

	side->told++;
}

/* `format` has "%s" for each entry's file, which a program prints. */
_printf_(2, 3) static void begin(struct side *side, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, format);
	assert_true(vasprintf(&text, format, ap) > 0);
	va_end(ap);
	side->config = declare(text);
	assert_int_equal(inventory_new(host_event, declaration_of(side->config), host_root,
				 on_change, side, &side->inventory),
		0);
}

static void start(struct side *side)
{
	struct error error;

	if (inventory_start(side->inventory, &error) < 0)
		fail_msg("%s", error.message);
}

static const char *seen(struct side *side)
{
	return seen_in(side->inventory);
}

#define POLL(file)                                                            \
	"driver = \"exec\"; match = ( { command = [ \"/bin/cat\", \"%s/" file \
	"\" ]; interval = 0.1; } );"

static void write_devices(const char *file, const char *devices)
{
	char text[2048];

	(void)snprintf(text, sizeof(text), "{\"version\": 1, \"devices\": [%s]}", devices);
	host_replace(file, text);
}

static void test_changes(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;

	write_devices("/list", "{\"id\": \"b\"}, {\"id\": \"a\"}");
	begin(&old, POLL("list"), host_root);
	start(&old);
	assert_string_equal(seen(&old), "");
	RUN_UNTIL(old.told == 1);
	assert_string_equal(seen(&old), "a b ");
	write_devices("/list",
		"{\"id\": \"c\"}, {\"id\": \"a\", \"healthy\": false, \"reason\": \"hot\"}");
	RUN_UNTIL(old.told == 2);
	assert_string_equal(seen(&old), "a! b? c ");
	snapshot = inventory_snapshot(old.inventory);
	assert_string_equal(snapshot->units[0].reason, "hot");
	host_remove("/list");
	/* Once, that there is trouble. */
	RUN_UNTIL(old.told == 3);
	run_for(300 * USEC_PER_MSEC);
	assert_int_equal(old.told, 3);
	assert_string_equal(seen(&old), "a! b? c ");
	assert_int_equal(inventory_notes(old.inventory)->count, 1);
	assert_non_null(
		strstr(inventory_notes(old.inventory)->items[0], "the last list stays in use"));
	write_devices("/list", "");
	RUN_UNTIL(old.told == 4);
	assert_string_equal(seen(&old), "a? b? c? ");
	assert_int_equal(inventory_notes(old.inventory)->count, 0);
}

static void test_entries_do_not_disturb_each_other(void **state)
{
	write_devices("/one", "{\"id\": \"a\"}, {\"id\": \"both\"}");
	write_devices("/two", "{\"id\": \"b\"}, {\"id\": \"both\"}");
	begin(&old,
		"driver = \"exec\"; match = ( { command = [ \"/bin/cat\", \"%s/one\" ]; interval = 0.1; }, "
		"{ command = [ \"/bin/cat\", \"%s/two\" ]; interval = 0.1; } );",
		host_root, host_root);
	start(&old);
	RUN_UNTIL(streq(seen(&old), "a b both "));
	host_replace("/one", "broken");
	write_devices("/two", "{\"id\": \"c\"}");
	RUN_UNTIL(streq(seen(&old), "a b? both c "));
}

/* What the containers gets, a line each. */
static void expect(const char *ids[], size_t n, const char *expected)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(old.inventory);
	_cleanup_allocation_ struct allocation allocation = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	if (allocation_build(declaration_of(old.config), snapshot, host_root, ids, n, NULL,
		    &allocation, &error) < 0)
		(void)fprintf(stream, "error %s\n", error.message);
	for (size_t i = 0; i < allocation.n_nodes; i++)
		(void)fprintf(stream, "%s %s %s\n", allocation.nodes[i].mount ? "mount" : "node",
			allocation.nodes[i].host, allocation.nodes[i].path);
	print_allocation_texts(&allocation, stream);
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, expected);
}

static void test_containers(void **state)
{
	const char *both[] = { "b", "a" };

	host_mknod("/dev/x");
	host_mkdir("/srv/data");
	host_symlink("data", "/srv/link");
	host_mkdir("/etc/cdi");
	host_write(
		"/etc/cdi/c.yaml", CDI_YAML("v.e/c", CDI_YAML_PLAIN("1") CDI_YAML_PLAIN("ours")));
	write_devices("/list",
		"{\"id\": \"a\", \"nodes\": [{\"host\": \"/dev/x\", \"path\": \"/dev/y\"},"
		"{\"host\": \"/dev/missing\", \"optional\": true}],"
		"\"mounts\": [{\"host\": \"/srv/link\", \"path\": \"/data\"}],"
		"\"env\": {\"URL\": \"one\", \"SAME\": \"s\", \"OURS\": \"x\"},"
		"\"annotations\": {\"v.e/ours\": \"x\", \"v.e/theirs\": \"1\"},"
		"\"cdi\": [\"v.e/c=1\", \"v.e/c=ours\"], \"properties\": {\"P\": \"p-a\"}},"
		"{\"id\": \"b\", \"env\": {\"URL\": \"two\", \"SAME\": \"s\"}, \"properties\": {\"P\": \"p-b\"}},"
		"{\"id\": \"c\", \"nodes\": [{\"host\": \"/dev/missing\"}], \"properties\": {\"P\": \"\"}},"
		"{\"id\": \"d\"},"
		"{\"id\": \"e\", \"nodes\": [{\"host\": \"/dev/file\"}], \"properties\": {\"P\": \"\"}}");
	host_touch("/dev/file");
	begin(&old,
		POLL("list") "container = { env = ( \"OURS=${property:P}\", \"ID_${hash}=${original_id}\" ); "
			     "annotations = ( \"v.e/ours=${n}\" ); cdi = ( \"v.e/c=ours\" ); };",
		host_root);
	start(&old);
	RUN_UNTIL(old.told > 0);
	expect(both, 2,
		"mount /srv/data /data\nnode /dev/x /dev/y\n"
		"env OURS=p-a,p-b\nenv ID_DD0F69=a\nenv ID_DE1240=b\nenv URL=one,two\nenv SAME=s\n"
		"annotation v.e/ours=2\nannotation v.e/theirs=1\ncdi v.e/c=ours\ncdi v.e/c=1\n");
	expect((const char *[]){ "c" }, 1,
		"error device \"c\" of vendor.example/unit is unhealthy: needs /dev/missing, which is missing "
		"on the host: load its driver, or correct match in the configuration; repair it or drain the "
		"pod to another node\n");
	expect((const char *[]){ "d" }, 1,
		"error device \"d\" of vendor.example/unit is unhealthy: \"OURS=${property:P}\": "
		"\"${property:P}\" has no value here; repair it or drain the pod to another node\n");
	expect((const char *[]){ "e" }, 1,
		"error device \"e\" of vendor.example/unit is unhealthy: needs /dev/file, which is not a device "
		"node on the host: remove it and load its driver, or correct match in the configuration; repair it or drain the "
		"pod to another node\n");
}

/* --- one inventory after another --- */

static void replace(const char *file)
{
	begin(&new,
		"driver = \"exec\"; match = ( { command = [ \"/bin/cat\", \"%s/%s\" ]; interval = 0.1; } );",
		host_root, file);
	assert_int_equal(inventory_inherit(new.inventory, old.inventory, false), 0);
	start(&new);
}

static void test_reload_keeps_the_list(void **state)
{
	write_devices("/list", "{\"id\": \"a\"}, {\"id\": \"b\"}");
	begin(&old, POLL("list"), host_root);
	start(&old);
	RUN_UNTIL(old.told == 1);
	replace("list");
	assert_string_equal(seen(&new), "a b ");
	side_done(&old);
	run_for(300 * USEC_PER_MSEC);
	assert_int_equal(new.told, 0);
	assert_string_equal(seen(&new), "a b ");
}

static void test_another_program(void **state)
{
	write_devices("/list", "{\"id\": \"a\"}, {\"id\": \"b\"}");
	begin(&old, POLL("list"), host_root);
	start(&old);
	RUN_UNTIL(old.told == 1);
	replace("other");
	assert_string_equal(seen(&new), "a b ");
	side_done(&old);
	/* It does not work yet. */
	run_for(300 * USEC_PER_MSEC);
	assert_string_equal(seen(&new), "a b ");
	write_devices("/other", "{\"id\": \"b\"}, {\"id\": \"c\"}");
	RUN_UNTIL(inventory_notes(new.inventory)->count == 0);
	RUN_UNTIL(streq(seen(&new), "a? b c "));
}

static void test_the_old_one_goes_on(void **state)
{
	write_devices("/list", "{\"id\": \"a\"}");
	begin(&old, POLL("list"), host_root);
	start(&old);
	RUN_UNTIL(old.told == 1);
	replace("list");
	side_done(&new);
	write_devices("/list", "{\"id\": \"b\"}");
	RUN_UNTIL(old.told == 2);
	assert_string_equal(seen(&old), "a? b ");
}

#define RECOVERS_NEVER                                                                          \
	"health = ( { probe = \"file\"; path = \"/health/${id}\"; healthy = \"ok\"; missing = " \
	"\"healthy\"; recover = \"never\"; } );"

/* The saved state of devices waits until the program has named them. */
static void test_memory_waits(void **state)
{
	struct saved_state *saved, *again;
	struct saved_unit *unit;
	struct probe_result result = { .known = true, .reason = (char[]){ "ECC error" } };

	write_devices("/list", "{\"id\": \"a\"}, {\"id\": \"b\"}");
	begin(&old, POLL("list") RECOVERS_NEVER, host_root);
	assert_int_equal(saved_state_new(&saved), 0);
	assert_int_equal(saved_state_add(saved, "b", false, 1, &unit), 0);
	assert_int_equal(
		saved_unit_add(unit, probe_key(groups_get(&declaration_of(old.config)->health, 0)),
			&result),
		0);
	inventory_restore(old.inventory, saved);
	start(&old);
	/* Asked too early, the answer must not be "nothing". */
	assert_int_equal(inventory_save(old.inventory, &again), 0);
	assert_non_null(saved_state_find(again, "b"));
	assert_int_equal(saved_state_find(again, "b")->n_results, 1);
	(void)saved_state_free(again);
	RUN_UNTIL(old.told > 0);
	assert_string_equal(seen(&old), "a b! ");
	/* And is not kept for longer than needed. */
	write_devices("/list", "");
	RUN_UNTIL(streq(seen(&old), "a? b? "));
	assert_int_equal(inventory_save(old.inventory, &again), 0);
	assert_int_equal(again->n_units, 2);
	(void)saved_state_free(again);
}

static void expect_problem(const char *text, const char *expected)
{
	_cleanup_free_ char *problem = declare_problem(text);

	if (!strstr(problem, expected))
		fail_msg("%s: %s", text, problem);
}

static void test_configuration(void **state)
{
	expect_problem("driver = \"exec\";", "match: is missing");
	expect_problem("driver = \"exec\"; match = ( { interval = 1; } );", "command");
	expect_problem("driver = \"exec\"; match = ( { command = [ ]; } );", "must not be empty");
	expect_problem("driver = \"exec\"; match = ( { command = [ \"x\", \"/y\" ]; } );",
		"command: must begin with the absolute path of a program, not \"x\"");
	expect_problem(
		"driver = \"exec\"; match = ( { mode = \"watch\"; command = [ \"/x\" ]; interval = 1; } );",
		"interval");
	expect_problem("driver = \"exec\"; match = ( { command = [ \"/x\" ]; interval = 0.05; } );",
		"must be from 0.1");
	expect_problem(
		"driver = \"exec\"; match = ( { command = [ \"/x\" ]; properties = \"environment\"; } );",
		"properties");
	expect_problem(
		"driver = \"exec\"; match = ( { command = [ \"/x\" ]; } ); container = { env = ( "
		"\"A=${property}\" ); };",
		"has \"${property}\", which needs an argument: \"${property:NAME}\"");
	expect_problem(
		"driver = \"exec\"; match = ( { command = [ \"/x\" ]; } ); container = { env = ( "
		"\"A=${hash:1}\" ); };",
		"takes no argument after a \":\"");
	expect_problem(
		"driver = \"static\"; match = \"a\"; container = { env = ( \"A=${property:x}\" ); };",
		"unknown variable");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_changes),
		TEST(test_entries_do_not_disturb_each_other),
		TEST(test_containers),
		TEST(test_reload_keeps_the_list),
		TEST(test_another_program),
		TEST(test_the_old_one_goes_on),
		TEST(test_memory_waits),
		TEST(test_configuration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
