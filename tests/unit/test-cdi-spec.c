/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key `cdi` of a file: which resources get a CDI file by it, and of which kind.
 */
#include "config-fixture.h"

#include <limits.h>

#include "configuration/cdi-spec.h"
#include "configuration/warnings.h"
#include "drivers/allocation/cdi.h"
#include "drivers/model/form.h"

#define RESOURCE(name, more) \
	"{ name = \"" name "\"; driver = \"path\"; match = \"/dev/" name "\"; " more " }"
#define OTHER(name, more) "{ name = \"" name "\"; " more " }"

static int make_own_directory(void **state)
{
	(void)strcpy(directory, "/tmp/devplugd-test-config.XXXXXX");
	return make_directory(state);
}

/* Loads resources with `cdi`; the host and cdi_dir are in the directory of the test. */
static struct config *load_with(const char *cdi, const char *resources)
{
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text,
			    "cdi = %s; host_root = \"%s\"; cdi_dir = \"%s/var/run/cdi\";\n"
			    "resources = ( %s );",
			    cdi, directory, directory, resources) > 0);
	return load(text);
}

static const char *kind_of(const struct config *config, const char *name)
{
	return config_find(config, name)->declaration.cdi_spec.kind;
}

static void test_names(void **state)
{
#define LABEL   "a23456789012345678901234567890123456789012345678901234567890123"
#define LONG(x) LABEL "." LABEL "." LABEL "." x
	_cleanup_config_ struct config *config = load_with("true",
		RESOURCE("vendor.example/gpu", "") "," RESOURCE(
			"vendor.example/gpu.b_1", "") "," RESOURCE("vendor.example/10g",
			"") "," RESOURCE("vendor.example/d10g", "") "," OTHER(LONG("a/" LABEL),
			"driver = \"path\"; match = \"/dev/a\";") "," OTHER(LONG("b/" LABEL),
			"driver = \"path\"; match = \"/dev/b\";"));
	struct error error;

	assert_string_equal(kind_of(config, "vendor.example/gpu"), "devplugd.vendor.example/gpu");
	assert_string_equal(
		kind_of(config, "vendor.example/gpu.b_1"), "devplugd.vendor.example/gpu.b_1");
	assert_string_equal(kind_of(config, "vendor.example/d10g"), "devplugd.vendor.example/d10g");
	assert_true(
		startswith(kind_of(config, "vendor.example/10g"), "devplugd.vendor.example/d10g-"));
	for (size_t i = 0; i < config->n_resources; i++) {
		const char *kind = config->resources[i].declaration.cdi_spec.kind;
		_cleanup_free_ char *name = cdi_file_name(kind);

		assert_int_equal(form_cdi_kind(kind, &error), 0);
		assert_true(strlen(kind) <= CDI_KIND_MAX);
		assert_true(strlen(name) <= NAME_MAX);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(
				config->resources[k].declaration.cdi_spec.kind, kind);
		/* As the child reads it. */
		assert_non_null(strstr(config->resources[i].text, kind));
	}
}

/* Without the key, and in a resource with `cdi_spec = false`. */
static void test_off(void **state)
{
	_cleanup_config_ struct config *config = load_with(
		"false", RESOURCE("v.e/a", "") "," RESOURCE("v.e/b", "cdi_spec = false;"));
	_cleanup_config_ struct config *on =
		load_with("true", RESOURCE("v.e/a", "") "," RESOURCE("v.e/b", "cdi_spec = false;"));

	assert_null(kind_of(config, "v.e/a"));
	assert_null(kind_of(config, "v.e/b"));
	assert_null(kind_of(on, "v.e/b"));
	assert_string_equal(kind_of(on, "v.e/a"), "devplugd.v.e/a");
	/* It is the same resource as without the key. */
	assert_string_equal(config_find(config, "v.e/b")->text, config_find(on, "v.e/b")->text);
	assert_null(strstr(config_find(on, "v.e/b")->text, "cdi_spec"));
}

static void test_keeps(void **state)
{
	static const struct {
		const char *keys, *kind, *reason;
	} cases[] = {
		{ "driver = \"path\"; match = \"/dev/a\";", "devplugd.v.e/a", NULL },
		{ "driver = \"path\"; match = \"/dev/a\"; cdi_spec = { kind = \"v.e/own\"; };",
			"v.e/own", "it has a cdi_spec" },
		{ "driver = \"path\"; match = \"/dev/a\"; cdi_spec = false;", NULL,
			"cdi_spec is false" },
		{ "driver = \"path\"; match = \"/dev/a\"; container = { cdi = \"w.e/c=${id}\"; };",
			NULL, "it has container.cdi" },
		{ "driver = \"path\"; match = \"/dev/a\"; allocate = { command = \"/bin/x\"; };",
			NULL, "a program adds nodes at Allocate" },
		{ "driver = \"exec\"; match = ( { command = \"/bin/x\"; allocate = \"/bin/y\"; } "
		  ");",
			NULL, "a program adds nodes at Allocate" },
		{ "driver = \"exec\"; match = ( { command = \"/bin/x\"; } );", "devplugd.v.e/a",
			NULL },
		{ "driver = \"path\"; match = \"/dev/a\"; serve = \"dra\";", NULL,
			"it is served by DRA" },
		{ "driver = \"nvidia\"; match = ( { } );", "devplugd.v.e/a", NULL },
		{ "driver = \"nvidia\"; match = ( { mig = \"none\"; }, { expose = \"cdi\"; } );",
			NULL, "match.expose is \"cdi\"" },
		{ "driver = \"nvidia\"; match = ( { expose = \"runtime\"; } );", NULL,
			"match.expose is \"runtime\"" },
		{ "driver = \"static\"; match = ( { count = 1; } );", NULL,
			"it has no device nodes" },
		{ "driver = \"static\"; match = ( { count = 1; } ); container = { nodes = "
		  "\"/dev/x\"; };",
			"devplugd.v.e/a", NULL },
		{ "driver = \"net\"; match = ( { vendor = 0x8086; } );", NULL,
			"it has no device nodes" },
		{ "driver = \"net\"; match = ( { vendor = 0x8086; rdma = true; } );",
			"devplugd.v.e/a", NULL },
		{ "driver = \"net\"; match = ( { vendor = 0x8086; vhost_net = true; } );",
			"devplugd.v.e/a", NULL },
		{ "driver = \"net\"; match = ( { vendor = 0x8086; } ); container = { nodes = "
		  "\"/dev/x\"; };",
			"devplugd.v.e/a", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;
		_cleanup_config_ struct config *config = NULL;
		const char *kind, *reason;

		assert_true(asprintf(&text,
				    "cdi = true; dra = { driver = \"d.v.e\"; };\n"
				    "resources = ( { name = \"v.e/a\"; %s } );",
				    cases[i].keys) > 0);
		config = load(text);
		kind = kind_of(config, "v.e/a");
		reason = cdi_spec_exempts(&config->resources[0].declaration);
		assert_string_equal(kind ?: "", cases[i].kind ?: "");
		assert_string_equal(reason ?: "", cases[i].reason ?: "");
	}
}

static void write_spec(const char *path, const char *kind)
{
	_cleanup_free_ char *text = NULL, *directories = NULL;

	assert_true(asprintf(&directories, "mkdir -p \"$(dirname %s/%s)\"", directory, path) > 0);
	assert_int_equal(system(directories), 0);
	assert_true(asprintf(&text, "{\"kind\": \"%s\", \"cdiVersion\": \"0.3.0\"}", kind) > 0);
	write_file(path, text);
}

/* Another program's file of the same kind would make the names of both ambiguous. */
static void test_foreign_kinds(void **state)
{
	static const char *const files[] = { "etc/cdi/x.json", "run/cdi/x.json",
		"var/run/cdi/x.yaml", "opt/cdi/devplugd-other=x.json" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_config_ struct config *config = NULL;
		char path[256];

		write_spec(files[i], "devplugd.v.e/a");
		config = load_with("true",
			RESOURCE("v.e/a", "") "," RESOURCE("v.e/b", "") "," RESOURCE(
				"v.e/c", "container = { cdi_dirs = \"/opt/cdi\"; };"));
		assert_true(startswith(kind_of(config, "v.e/a"), "devplugd.v.e/a-"));
		assert_string_equal(kind_of(config, "v.e/b"), "devplugd.v.e/b");
		(void)snprintf(path, sizeof(path), "%s/%s", directory, files[i]);
		assert_int_equal(remove(path), 0);
	}
}

/* A declared kind is kept, with a warning. */
static void test_declared_foreign_kind(void **state)
{
	_cleanup_config_ struct config *config = load_with("false",
		RESOURCE("v.e/a", "cdi_spec = { kind = \"v.e/k\"; };") "," RESOURCE(
			"v.e/b", "cdi_spec = { kind = \"v.e/l\"; };"));
	_cleanup_report_ struct report without = { 0 }, report = { 0 };

	write_spec("var/run/cdi/devplugd-v.e=k.json", "v.e/k");
	assert_int_equal(config_warnings(config, &without), 0);
	assert_int_equal(without.count, 0);
	write_spec("etc/cdi/x.json", "v.e/k");
	assert_int_equal(config_warnings(config, &report), 0);
	assert_int_equal(report.count, 1);
	assert_string_equal(report.entries[0].text,
		"resources[0] \"v.e/a\": cdi_spec.kind: \"v.e/k\" is also the kind of /etc/cdi/x.json: if "
		"two files define a device, container runtimes use neither, or one of them, so choose "
		"another kind");
}

static void test_own_files(void **state)
{
	_cleanup_config_ struct config *config = NULL;

	write_spec("var/run/cdi/devplugd-devplugd.v.e=a.json", "devplugd.v.e/a");
	config = load_with("true", RESOURCE("v.e/a", ""));
	assert_string_equal(kind_of(config, "v.e/a"), "devplugd.v.e/a");
}

/* No kind is that of another resource, wherever it stands, enabled or not; the next choice may be
 * taken, too. */
static void test_declared_kinds(void **state)
{
	_cleanup_config_ struct config *config = load_with("true",
		RESOURCE("v.e/a", "") "," RESOURCE(
			"v.e/b", "cdi_spec = { kind = \"devplugd.v.e/a\"; };"));
	_cleanup_free_ char *second = strdup(kind_of(config, "v.e/a")), *resources = NULL;
	_cleanup_config_ struct config *taken = NULL;

	assert_true(startswith(second, "devplugd.v.e/a-"));
	assert_true(
		asprintf(&resources,
			RESOURCE("v.e/a", "") "," RESOURCE("v.e/b",
				"cdi_spec = { kind = \"devplugd.v.e/a\"; };") "," RESOURCE("v.e/c",
				"enabled = false; cdi_spec = { kind = \"%s\"; };"),
			second) > 0);
	taken = load_with("true", resources);
	assert_true(startswith(kind_of(taken, "v.e/a"), second));
	assert_string_equal(kind_of(taken, "v.e/a") + strlen(second), "-2");
}

/* A stored configuration is read again unchanged, also if another program has added a file. */
static void test_dump(void **state)
{
	_cleanup_config_ struct config *config =
		load_with("true", RESOURCE("v.e/a", "") "," RESOURCE("v.e/b", "cdi_spec = false;"));
	_cleanup_config_ struct config *again = NULL;
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	assert_int_equal(config_dump(config, stream), 0);
	assert_int_equal(fclose(stream), 0);
	write_spec("etc/cdi/x.json", "devplugd.v.e/a");
	assert_int_equal(config_load_text("dump", text, size, &report, &again), 0);
	for (size_t i = 0; i < config->n_resources; i++)
		assert_string_equal(config->resources[i].text, again->resources[i].text);
}

static void test_wrong_values(void **state)
{
	static const struct {
		const char *value, *problem;
	} cases[] = {
		{ "true", "cdi_spec: must be a group { ... } or false, not \"true\"" },
		{ "\"v.e/a\"", "cdi_spec: must be a group { ... } or false, not the string" },
		{ "{ }", "cdi_spec.kind: is missing" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL, *found = NULL;

		assert_true(asprintf(&text, ONE("cdi_spec = %s;"), cases[i].value) > 0);
		write_bytes(main_file, text, strlen(text));
		found = problems(main_file, -EINVAL);
		assert_non_null(strstr(found, cases[i].problem));
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_own_directory, remove_directory)
	const struct CMUnitTest tests[] = {
		TEST(test_names),
		TEST(test_off),
		TEST(test_keeps),
		TEST(test_foreign_kinds),
		TEST(test_declared_foreign_kind),
		TEST(test_own_files),
		TEST(test_declared_kinds),
		TEST(test_dump),
		TEST(test_wrong_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
