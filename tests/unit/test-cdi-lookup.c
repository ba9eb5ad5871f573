/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CDI names as container runtimes resolve them: which files count, which of several wins, and what
 * a device needs of the host.
 */
#include "cdi-fixture.h"
#include "host-fixture.h"

#include "drivers/host/cdi-lookup.h"

#define KIND  "v.example/f"
#define ETC   "/etc/cdi/"
#define RUN   "/run/cdi/"
#define FPGA  CDI_JSON(KIND, CDI_JSON_PLAIN("fpga0"))
#define OTHER CDI_JSON(KIND, CDI_JSON_PLAIN("fpga1"))

static int setup(void **state)
{
	if (host_setup(state) < 0)
		return -1;
	host_mkdir("/etc/cdi");
	host_mkdir("/run/cdi");
	return 0;
}

/* "defined FILE", "conflict FILE FILE", "undefined", "undefined FILE: PROBLEM" or "unknown FILE:
 * PROBLEM". */
static const char *look_up(const char *kind, const char *name)
{
	static const char *const words[] = { [CDI_UNDEFINED] = "undefined",
		[CDI_DEFINED] = "defined",
		[CDI_CONFLICT] = "conflict",
		[CDI_UNKNOWN] = "unknown" };
	_cleanup_cdi_files_ struct cdi_files files = { 0 };
	struct cdi_definition definition;
	static char text[800];

	assert_int_equal(cdi_files_add_usual(&files, host_root), 0);
	cdi_files_find(&files, kind, name, &definition);
	(void)snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", words[definition.status],
		definition.file ? " " : "", definition.file ? definition.file->path : "",
		definition.other ? " " : "", definition.other ? definition.other->path : "",
		definition.file && definition.file->problem ? ": " : "",
		definition.file && definition.file->problem ? definition.file->problem : "");
	assert_int_equal(definition.device != NULL, definition.status == CDI_DEFINED);
	return text;
}

/* Files of two directories, and what becomes of fpga0. */
static void test_precedence(void **state)
{
	static const struct {
		const char *a, *b, *c, *d; /* two in each directory */
		const char *found;
	} cases[] = {
		{ NULL, NULL, NULL, NULL, "undefined" },
		{ FPGA, NULL, NULL, NULL, "defined " ETC "a.json" },
		{ OTHER, NULL, NULL, NULL, "undefined" },
		{ OTHER, FPGA, NULL, NULL, "defined " ETC "b.json" },
		{ FPGA, NULL, FPGA, NULL, "defined " RUN "c.json" },
		{ NULL, NULL, OTHER, FPGA, "defined " RUN "d.json" },
		{ FPGA, FPGA, NULL, NULL, "conflict " ETC "a.json " ETC "b.json" },
		{ FPGA, FPGA, FPGA, NULL, "conflict " ETC "a.json " ETC "b.json" },
		{ FPGA, NULL, FPGA, FPGA, "conflict " RUN "c.json " RUN "d.json" },
		{ FPGA, CDI_JSON("v.example/g", CDI_JSON_PLAIN("fpga0")), NULL, NULL,
			"defined " ETC "a.json" },
	};
	static const char *const paths[] = { ETC "a.json", ETC "b.json", RUN "c.json",
		RUN "d.json" };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *const texts[] = { cases[i].a, cases[i].b, cases[i].c, cases[i].d };

		for (size_t k = 0; k < ARRAY_SIZE(paths); k++)
			if (texts[k])
				host_write(paths[k], texts[k]);
		assert_string_equal(look_up(KIND, "fpga0"), cases[i].found);
		for (size_t k = 0; k < ARRAY_SIZE(paths); k++)
			if (texts[k])
				host_remove(paths[k]);
	}
}

/* One file, and what becomes of fpga0. */
static void expect(const char *path, const char *text, const char *found)
{
	host_write(path, text);
	print_message("%s\n", text);
	assert_string_equal(look_up(KIND, "fpga0"), found);
	host_remove(path);
}

static void test_valid(void **state)
{
	expect(ETC "x.yaml", CDI_YAML(KIND, CDI_YAML_PLAIN("fpga0")), "defined " ETC "x.yaml");
	/* As Go's libraries write it, and as people do. */
	expect(ETC "x.yaml",
		"---\ncdiVersion: 0.6.0\ncontainerEdits: {}\ndevices:\n- containerEdits:\n"
		"    deviceNodes:\n    - path: /dev/fpga0\n  name: fpga0\nkind: " KIND "\n",
		"defined " ETC "x.yaml");
	expect(ETC "x.yaml",
		"kind: '" KIND "' # ours\ncdiVersion: \"0.3.0\"\n\ndevices:\n    - name: fpga0\n"
		"      containerEdits: { env: [ A=b ] }\n",
		"defined " ETC "x.yaml");
	expect(ETC "x.yaml",
		"{ cdiVersion: 0.3.0, kind: " KIND ", devices: [ { name: fpga0, "
		"containerEdits: { intelRdt: {} } } ] }\n",
		"defined " ETC "x.yaml");
	/* Runtimes read JSON as YAML, too. */
	expect(ETC "x.json", CDI_YAML(KIND, CDI_YAML_PLAIN("fpga0")), "defined " ETC "x.json");
	/* Members of a later version. */
	expect(ETC "x.json", CDI_JSON(KIND, CDI_JSON_DEVICE("fpga0", "\"later\": [\"x\"]")),
		"defined " ETC "x.json");
	/* Runtimes do not read it. */
	expect(ETC "x.yml", CDI_YAML(KIND, CDI_YAML_PLAIN("fpga0")), "undefined");
	expect(ETC "x.json.bak", FPGA, "undefined");
}

/* The name is in the file, but is not that of a device of the kind. */
static void test_other_names(void **state)
{
	expect(ETC "x.json",
		CDI_JSON(KIND,
			CDI_JSON_DEVICE("fpga1",
				"\"netDevices\": [{\"hostInterfaceName\": \"eth0\", \"name\": \"fpga0\"}]")),
		"undefined");
	expect(ETC "x.json",
		"{\"cdiVersion\": \"0.5.0\", \"kind\": \"" KIND "\", \"annotations\": {\"name\": "
		"\"fpga0\"}, \"devices\": [" CDI_JSON_PLAIN("fpga1") "]}",
		"undefined");
	expect(ETC "x.json",
		"{\"cdiVersion\": \"0.5.0\", \"kind\": \"v.example/g\", \"annotations\": {\"kind\": "
		"\"" KIND "\"}, \"devices\": [" CDI_JSON_PLAIN("fpga0") "]}",
		"undefined");
	expect(ETC "x.yaml",
		CDI_YAML(KIND,
			CDI_YAML_DEVICE("fpga1",
				"    netDevices:\n    - hostInterfaceName: eth0\n      name: fpga0\n")),
		"undefined");
	expect(ETC "x.yaml", CDI_YAML(KIND, CDI_YAML_PLAIN("fpga01")), "undefined");
	expect(ETC "x.yaml", CDI_YAML("v.example/fp", CDI_YAML_PLAIN("fpga0")), "undefined");
}

/* A runtime refuses the whole file. */
static void test_ignored(void **state)
{
#define IGNORED "undefined " ETC "x.json: "
	/* Cut off behind the name. */
	expect(ETC "x.json",
		"{\"cdiVersion\": \"0.5.0\", \"kind\": \"" KIND
		"\", \"devices\": [{\"name\": \"fpga0\", \"containerEdits\": {\"env\": [\"A=b\"",
		IGNORED "line 1: did not find expected ',' or ']'");
	expect(ETC "x.json", "{\"kind\": \"" KIND "\", \"devices\": [" CDI_JSON_PLAIN("fpga0") "]}",
		IGNORED "it has no cdiVersion");
	expect(ETC "x.json", CDI_JSON(KIND, CDI_JSON_PLAIN("fpga0") "," CDI_JSON_PLAIN("fpga0")),
		IGNORED "the device \"fpga0\" occurs twice");
	expect(ETC "x.json", CDI_JSON(KIND, CDI_JSON_DEVICE("fpga0", "")),
		IGNORED "the device \"fpga0\" has no containerEdits");
	expect(ETC "x.json", CDI_JSON(KIND, CDI_JSON_DEVICE("fpga0", "\"env\": []")),
		IGNORED "the device \"fpga0\" has no containerEdits");
	expect(ETC "x.json", CDI_JSON(KIND, CDI_JSON_PLAIN("fpga0") ",{\"name\": \"b\"}"),
		IGNORED "the device \"b\" has no containerEdits");
	expect(ETC "x.json", CDI_JSON(KIND, CDI_JSON_PLAIN("fpga0") "," CDI_JSON_PLAIN("")),
		IGNORED "a device has no name");
	expect(ETC "x.json",
		CDI_JSON(KIND, CDI_JSON_DEVICE("fpga0", "\"mounts\": [{\"hostPath\": \"/a\"}]")),
		IGNORED "an entry of mounts has no containerPath");
	expect(ETC "x.json",
		"{\"cdiVersion\": \"0.5.0\", \"kind\": \"" KIND "\", \"containerEdits\": "
		"{\"hooks\": [{\"path\": \"/x\"}]}, \"devices\": [" CDI_JSON_PLAIN("fpga0") "]}",
		IGNORED "an entry of hooks has no hookName");
	expect(ETC "x.json", "{\"cdiVersion\": \"0.5.0\", \"kind\": \"" KIND "\", \"fpga0\": 1}",
		IGNORED "it has no devices");
	/* It does not name the device. */
	expect(ETC "x.json", CDI_JSON(KIND, CDI_JSON_DEVICE("fpga1", "")), "undefined");
	expect(ETC "x.json", "", "undefined");
}

/* What this process cannot read may define anything, but only if nothing else does. */
static void test_unknown(void **state)
{
	expect(ETC "x.yaml",
		"a: &x [A=b]\n" CDI_YAML(KIND, CDI_YAML_DEVICE("fpga0", "    env: *x\n")),
		"unknown " ETC "x.yaml: line 7: aliases of anchors are not supported");
	expect(ETC "x.yaml",
		"a: &x [A=b]\n" CDI_YAML(KIND, CDI_YAML_DEVICE("fpga1", "    env: *x\n")),
		"undefined");
	host_write(ETC "a.json", "{\"kind\": \"" KIND "\", \"devices\": [{\"name\": \"fpga0\"");
	expect(ETC "x.yaml",
		"a: &x [A=b]\n" CDI_YAML(KIND, CDI_YAML_DEVICE("fpga0", "    env: *x\n")),
		"unknown " ETC "x.yaml: line 7: aliases of anchors are not supported");
	host_write(RUN "a.json", FPGA);
	expect(ETC "x.yaml",
		"a: &x [A=b]\n" CDI_YAML(KIND, CDI_YAML_DEVICE("fpga0", "    env: *x\n")),
		"defined " RUN "a.json");
}

/* Too large, no file, and a link to nothing. */
static void test_odd_files(void **state)
{
	static char large[(4 << 20) + 1];

	memset(large, ' ', sizeof(large) - 1);
	memcpy(large, FPGA, strlen(FPGA));
	expect(ETC "x.json", large, "unknown " ETC "x.json: it is larger than 4 MiB");
	host_mkdir(ETC "x.json");
	assert_string_equal(look_up(KIND, "fpga0"), "undefined");
	host_symlink("nowhere", ETC "y.json");
	host_mknod(ETC "z.json");
	assert_string_equal(look_up(KIND, "fpga0"), "undefined");
}

static void test_many_files(void **state)
{
	for (unsigned i = 0; i < 1000; i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), ETC "%04u.json", i);
		host_write(path, OTHER);
	}
	assert_string_equal(look_up(KIND, "fpga0"), "undefined");
	host_write(ETC "x.json", FPGA);
	assert_string_equal(look_up(KIND, "fpga0"), "unknown /etc/cdi: it has too many files");
	host_remove(ETC "0000.json");
	assert_string_equal(look_up(KIND, "fpga0"), "defined " ETC "x.json");
}

static void test_kinds(void **state)
{
	_cleanup_cdi_files_ struct cdi_files files = { 0 };

	host_write(ETC "a.json", FPGA);
	/* Not valid, but it has a kind. */
	host_write(RUN "b.yaml", "kind: v.example/g\n");
	assert_int_equal(cdi_files_add_usual(&files, host_root), 0);
	assert_string_equal(cdi_files_find_kind(&files, KIND, "b.yaml")->path, ETC "a.json");
	assert_null(cdi_files_find_kind(&files, KIND, "a.json"));
	assert_string_equal(cdi_files_find_kind(&files, "v.example/g", "")->path, RUN "b.yaml");
	assert_null(cdi_files_find_kind(&files, "v.example/h", ""));
}

/* --- sources --- */

static char sources[512];

static int on_source(enum cdi_source source, const char *path, void *userdata)
{
	static const char letters[] = { [CDI_NODE] = 'n', [CDI_MOUNT] = 'm', [CDI_HOOK] = 'h' };
	size_t used = strlen(sources);

	assert_ptr_equal(userdata, sources);
	(void)snprintf(sources + used, sizeof(sources) - used, "%c%s ", letters[source], path);
	return streq(path, "/end") ? -ECANCELED : 0;
}

static void expect_sources(const char *edits, const char *common, const char *expected)
{
	_cleanup_cdi_files_ struct cdi_files files = { 0 };
	_cleanup_free_ char *text = NULL;
	struct cdi_definition definition;

	assert_true(
		asprintf(&text,
			"{\"cdiVersion\": \"1.0.0\", \"kind\": \"" KIND
			"\", \"containerEdits\": {%s}, \"devices\": ["
			"{\"name\": \"other\", \"containerEdits\": {\"deviceNodes\": [{\"path\": "
			"\"/dev/other\"}]}}, {\"name\": \"fpga0\", \"containerEdits\": {%s}}]}",
			common, edits) > 0);
	host_write(ETC "a.json", text);
	assert_int_equal(cdi_files_add_usual(&files, host_root), 0);
	cdi_files_find(&files, KIND, "fpga0", &definition);
	assert_int_equal(definition.status, CDI_DEFINED);
	sources[0] = '\0';
	assert_int_equal(cdi_document_sources(
				 definition.file->document, definition.device, on_source, sources),
		strstr(expected, "/end") ? -ECANCELED : 0);
	assert_string_equal(sources, expected);
}

static void test_sources(void **state)
{
	expect_sources("\"env\": [\"A=b\"]", "", "");
	expect_sources(
		"\"deviceNodes\": [{\"path\": \"/dev/f0\"}, {\"path\": \"/dev/f1\", \"hostPath\": "
		"\"/dev/g1\"}]",
		"\"mounts\": [{\"hostPath\": \"/lib/f\", \"containerPath\": \"/lib\", \"options\": "
		"[\"ro\", \"bind\"]}], \"hooks\": [{\"hookName\": \"createContainer\", \"path\": "
		"\"/usr/bin/f\"}]",
		"n/dev/f0 n/dev/g1 m/lib/f h/usr/bin/f ");
	/* A runtime makes the node from its number, but a number of 0 counts as none. */
	expect_sources(
		"\"deviceNodes\": [{\"path\": \"/dev/a\", \"type\": \"c\", \"major\": 195}, "
		"{\"path\": \"/dev/b\", \"type\": \"c\", \"major\": 0}, {\"path\": \"/dev/c\", "
		"\"type\": \"p\"}, {\"path\": \"/dev/d\", \"major\": 195}]",
		"", "n/dev/b n/dev/d ");
	expect_sources(
		"\"mounts\": [{\"hostPath\": \"tmpfs\", \"containerPath\": \"/a\", \"type\": "
		"\"tmpfs\"}, {\"hostPath\": \"/b\", \"containerPath\": \"/b\", \"type\": \"bind\"}, "
		"{\"hostPath\": \"/c\", \"containerPath\": \"/c\", \"type\": \"none\", "
		"\"options\": [\"rbind\"]}, {\"hostPath\": \"/d\", \"containerPath\": \"/d\", "
		"\"type\": \"overlay\"}]",
		"", "m/b m/c ");
	/* Its path is in the container. */
	expect_sources("\"hooks\": [{\"hookName\": \"startContainer\", \"path\": \"/a\"}, "
		       "{\"hookName\": \"poststop\", \"path\": \"/b\"}]",
		"", "h/b ");
	expect_sources("\"deviceNodes\": [{\"path\": \"/dev/a\"}, {\"path\": \"/end\"}, {\"path\": "
		       "\"/dev/b\"}]",
		"", "n/dev/a n/end ");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, host_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_precedence),
		TEST(test_valid),
		TEST(test_other_names),
		TEST(test_ignored),
		TEST(test_unknown),
		TEST(test_odd_files),
		TEST(test_many_files),
		TEST(test_kinds),
		TEST(test_sources),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
