/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between two configurations, the last accepted one, and where it is found for a file
 * that is broken.
 */
#include <sys/stat.h>
#include <syslog.h>

#include "config-fixture.h"
#include "configuration/last-accepted.h"
#include "configuration/plan.h"

#define A(more) "{ name = \"v.e/a\"; driver = \"static\"; match = ( { count = 1; } );" more "}"
#define B(more) "{ name = \"v.e/b\"; driver = \"static\"; match = ( { count = 2; } );" more "}"

#define C(name, more) \
	"{ name = \"" name "\"; driver = \"path\"; match = \"/dev/" name "\"; " more "}"
#define KIND "cdi_spec = { kind = \"v.e/own\"; };"

static char *plan_text(const struct config *from, const struct config *to, size_t *ret_changes)
{
	_cleanup_plan_ struct plan plan = { 0 };
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	assert_int_equal(plan_make(from, to, &plan), 0);
	for (size_t i = 0; i < plan.count; i++) {
		(void)fprintf(stream, "%s\n", plan.lines[i].text);
		assert_true(!plan.lines[i].name || strstr(plan.lines[i].text, plan.lines[i].name));
	}
	assert_int_equal(fclose(stream), 0);
	*ret_changes = plan.n_changes;
	return text;
}

static void test_lines(void **state)
{
	static const struct {
		const char *from, *to, *plan;
		size_t changes;
	} cases[] = {
		{ NULL, "resources = (" A("") "," B("") ");", "+ add v.e/a\n+ add v.e/b\n", 2 },
		{ "resources = (" A("") "," B("") ");", "resources = (" B("") "," A("") ");",
			"= keep 2 resources\n", 0 },
		{ "resources = (" A("") "," B("") ");", "resources = (" B("") ");",
			"- remove v.e/a\n= keep 1 resource\n", 1 },
		{ "resources = (" A("") ");", "resources = ( );", "- remove v.e/a\n", 1 },
		{ "resources = (" A("") ");", "resources = (" A("enabled = false;") ");",
			"- remove v.e/a\n", 1 },
		{ "resources = (" A("") ");",
			"resources = (" A("share = { replicas = 2; }; prefer = \"spread\";") ");",
			"~ change v.e/a: prefer, share\n", 1 },
		{ "resources = (" A("") ");", "resources = (" A("user = \"root\";") ");",
			"~ change v.e/a: user\n", 1 },
		{ "resources = (" A("") ");", "resources = (" A("prefer = \"none\";") ");",
			"= keep 1 resource\n", 0 },
		/* What counts is what it comes to. */
		{ "resources = (" A("") ");", "resources = (" A("registration = \"socket\";") ");",
			"= keep 1 resource\n", 0 },
		{ "resources = (" A("") "," B("registration = \"socket\";") ");",
			"kubelet = { registration = \"watcher\"; };"
			"resources = (" A("") "," B("registration = \"socket\";") ");",
			"~ change kubelet.registration\n~ change v.e/a: registration\n= keep 1 resource\n",
			2 },
		{ "# nothing", "runtime_dir = \"/run/x\"; log_level = \"debug\";",
			"! change runtime_dir (refused: it needs a restart)\n~ change log_level\n",
			2 },
		{ "kubelet = { device_plugin_dir = \"/a\"; };",
			"kubelet = { plugins_registry_dir = \"/b\"; };",
			"~ change kubelet.device_plugin_dir\n~ change kubelet.plugins_registry_dir\n",
			2 },
		{ "# nothing", "kubelet = { root_dir = \"/a\"; };",
			"~ change kubelet.root_dir\n~ change kubelet.plugins_registry_dir\n"
			"~ change kubelet.pod_resources_socket\n",
			3 },
		{ "resources = (" A("") "," B("") ");",
			"cordon = ( { id = \"v.e/b/b-0\"; reason = \"dust\"; } );"
			"resources = (" A("") "," B("") ");",
			"~ change v.e/b: cordon\n= keep 1 resource\n", 1 },
		/* `cdi` names the resources that it does not change. */
		{ "resources = (" C("v.e/c", "") "," A("") "," C("v.e/d", KIND) ");",
			"cdi = true; resources = (" C("v.e/c", "") "," A("") "," C(
				"v.e/d", KIND) "," C("v.e/e", "cdi_spec = false;") ");",
			"~ change cdi\n~ change v.e/c: cdi_spec\n"
			"= keep v.e/a (cdi does not apply: it has no device nodes)\n"
			"= keep v.e/d (cdi does not apply: it has a cdi_spec)\n"
			"+ add v.e/e (cdi does not apply: cdi_spec is false)\n",
			3 },
		{ "cdi = true; resources = (" C("v.e/c", "") "," C("v.e/d", KIND) ");",
			"resources = (" C("v.e/c", "cdi_spec = false;") "," C("v.e/d", KIND) ");",
			"~ change cdi\n~ change v.e/c: cdi_spec\n= keep 1 resource\n", 2 },
		{ "resources = (" C("v.e/c", "") ");",
			"resources = (" C("v.e/c", "cdi_spec = false;") ");", "= keep 1 resource\n",
			0 },
		{ "cdi = true; resources = (" C("v.e/d", KIND) ");",
			"cdi = true; resources = (" C("v.e/d", KIND "prefer = \"numa\";") ");",
			"~ change v.e/d: prefer (cdi does not apply: it has a cdi_spec)\n", 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_config_ struct config *from = cases[i].from ? load(cases[i].from) : NULL;
		_cleanup_config_ struct config *to = load(cases[i].to);
		size_t changes;
		_cleanup_free_ char *text = plan_text(from, to, &changes);

		assert_string_equal(text, cases[i].plan);
		assert_int_equal(changes, cases[i].changes);
	}
}

static void test_cordons_are_distributed(void **state)
{
	_cleanup_config_ struct config *config =
		load("cordon = ( { id = \"v.e/b/b-*\"; reason = \"dust\"; }, \"x-9\","
		     "{ id = \"v.e/bb/b-1\"; }, { id = \"v.e/b/own\"; } );"
		     "resources = (" A("") "," B("cordon = \"own\";") ");");
	const struct declaration *a = &config->resources[0].declaration;
	const struct declaration *b = &config->resources[1].declaration;

	assert_int_equal(a->cordon.count, 1);
	assert_int_equal(b->cordon.count, 3);
	assert_string_equal(declaration_cordon(b, "b-1")->reason, "dust");
	assert_null(declaration_cordon(b, "x-9")->reason);
	assert_non_null(declaration_cordon(b, "own"));
	assert_null(declaration_cordon(a, "b-1"));
	assert_non_null(declaration_cordon(a, "x-9"));
}

/* Writes the last accepted configuration of a text, with another boot's id if that is wanted. */
static void keep(const char *text, const char *boot)
{
	_cleanup_config_ struct config *config = load(text);
	_cleanup_free_ char *kept = NULL;
	char path[256];
	size_t size;
	char *end;

	assert_int_equal(last_accepted_text(config, &kept, &size), 0);
	end = strchr(kept, '\n');
	if (boot)
		memcpy(end - strlen(boot), boot, strlen(boot));
	(void)snprintf(path, sizeof(path), "%s/%s", directory, LAST_ACCEPTED_FILE);
	write_bytes(path, kept, size);
}

static void test_last_accepted(void **state)
{
	static const char text[] =
		"cordon = ( { id = \"b-0\"; reason = \"a \\\"b\\\"\"; } ); log_level = \"debug\";"
		"kubelet = { registration = \"watcher\"; };"
		"resources = (" A("container = { env = \"A=\\n\"; };") "," B(
			"registration = \"socket\"; enabled = true;") ");";
	_cleanup_config_ struct config *config = load(text), *again = NULL, *none = NULL;
	_cleanup_free_ char *plan = NULL;
	struct error error = { 0 };
	char path[512];
	size_t changes;

	assert_int_equal(last_accepted_load(directory, &none, &error), -ENOENT);
	keep(text, NULL);
	/* Drop-ins are in it, and not read again. */
	write_file("last-good.conf.d", "");
	assert_int_equal(last_accepted_load(directory, &again, &error), 0);
	assert_int_equal(again->log_level, LOG_DEBUG);
	plan = plan_text(config, again, &changes);
	assert_string_equal(plan, "= keep 2 resources\n");

	/* Nor is it read where others can write. */
	assert_int_equal(chmod(directory, 0777), 0);
	assert_int_equal(last_accepted_load(directory, &none, &error), -EPERM);
	assert_int_equal(chmod(directory, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/%s", directory, LAST_ACCEPTED_FILE);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(last_accepted_load(directory, &none, &error), -EPERM);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/etc/hostname", path), 0);
	assert_int_equal(last_accepted_load(directory, &none, &error), -ELOOP);
	assert_int_equal(unlink(path), 0);

	keep(text, "xxxx");
	assert_int_equal(last_accepted_load(directory, &none, &error), -ESTALE);
	assert_non_null(strstr(error.message, "before the last boot"));
	write_file(LAST_ACCEPTED_FILE, text);
	assert_int_equal(last_accepted_load(directory, &none, &error), -ESTALE);
	write_file(LAST_ACCEPTED_FILE, "");
	assert_int_equal(last_accepted_load(directory, &none, &error), -ESTALE);
	assert_null(none);
}

static void expect_runtime_dir(const char *text, const char *expected)
{
	_cleanup_free_ char *found = NULL;

	if (text)
		write_bytes(main_file, text, strlen(text));
	else
		(void)unlink(main_file);
	assert_int_equal(config_find_runtime_dir(main_file, &found), 0);
	assert_string_equal(found, expected);
}

static void test_runtime_dir_of_a_broken_file(void **state)
{
	static const struct {
		const char *text, *found;
	} cases[] = {
		{ "runtime_dir = \"/run/x\";", "/run/x" },
		{ "runtime_dir = \"/run/\" \"x/\";", "/run/x" },
		{ "runtime_dir = \"/run/x/\"; resources = (", "/run/x" },
		{ "# runtime_dir = \"/no\"\nruntime_dir /* */ : // n\n\"/run/x\"; \"", "/run/x" },
		{ "a = \"runtime_dir = \"; zork = 1; runtime_dir = \"/run/x\"", "/run/x" },
		{ "a = { runtime_dir = \"/no\"; }; /* runtime_dir = \"/no\";",
			DEFAULT_RUNTIME_DIR },
		{ "xruntime_dir = \"/no\"; runtime_dirs = \"/no\"; (", DEFAULT_RUNTIME_DIR },
		{ "runtime_dir = 7;", DEFAULT_RUNTIME_DIR },
		{ "runtime_dir = \"x\";", DEFAULT_RUNTIME_DIR },
		{ "runtime_dir = \"/x", DEFAULT_RUNTIME_DIR },
		{ "runtime_dir", DEFAULT_RUNTIME_DIR },
		{ ")]} runtime_dir = \"/run/x\";", "/run/x" },
		{ "", DEFAULT_RUNTIME_DIR },
		{ NULL, DEFAULT_RUNTIME_DIR },
	};

	assert_int_equal(unsetenv("RUNTIME_DIRECTORY"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_runtime_dir(cases[i].text, cases[i].found);
	assert_int_equal(setenv("RUNTIME_DIRECTORY", "/run/a:/run/b", 1), 0);
	expect_runtime_dir(NULL, "/run/a");
	expect_runtime_dir("runtime_dir = \"/run/x\"; (", "/run/x");
	expect_runtime_dir("", "/run/a");
	expect_runtime_dir("# nothing", DEFAULT_RUNTIME_DIR);
	assert_int_equal(unsetenv("RUNTIME_DIRECTORY"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_cordons_are_distributed),
		cmocka_unit_test(test_last_accepted),
		cmocka_unit_test(test_runtime_dir_of_a_broken_file),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
