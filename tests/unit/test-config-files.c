/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files are the configuration, how drop-ins and included ones add up, and files that cannot
 * be read as one.
 */
#include "config-fixture.h"

#include <sys/stat.h>
#include <syslog.h>

static void test_drop_ins(void **state)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *found = NULL;
	char path[256];

	(void)snprintf(path, sizeof(path), "%s.d", main_file);
	assert_int_equal(mkdir(path, 0755), 0);
	write_file("main.conf.d/20-b.conf",
		"log_level = \"debug\";\n"
		"resources = ( { name = \"v.e/b\"; driver = \"static\"; match = \"b\"; } );");
	write_file("main.conf.d/10-a.conf",
		"log_level = \"error\"; runtime_dir = \"/run/a\";\n"
		"kubelet = { device_plugin_dir = \"/tmp/a\"; };\n"
		"resources = ( { name = \"v.e/a\"; driver = \"static\"; match = \"a\"; } );");
	write_file("main.conf.d/30-empty.conf", "# nothing\n");
	write_file("main.conf.d/40-other.txt", "not read");
	write_file("main.conf.d/.50-hidden.conf", "not read");
	write_file("main.conf.d/.conf", "not read");
	config = load("runtime_dir = \"/run/main\";\n"
		      "resources = ( { name = \"v.e/m\"; driver = \"static\"; match = \"m\"; } );");
	assert_int_equal(config->log_level, LOG_DEBUG);
	assert_string_equal(config->runtime_dir, "/run/a");
	assert_string_equal(config->kubelet.device_plugin_dir, "/tmp/a");
	assert_int_equal(config->n_resources, 3);
	assert_string_equal(config->resources[0].declaration.name, "v.e/m");
	assert_string_equal(config->resources[1].declaration.name, "v.e/a");
	assert_string_equal(config->resources[2].declaration.name, "v.e/b");
	assert_non_null(strstr(config->resources[2].declaration.origin.file, "/20-b.conf"));
	assert_string_equal(config->resources[0].declaration.origin.file, main_file);

	write_file("main.conf.d/20-b.conf",
		"\nresources = ( { name = \"v.e/b\"; driver = \"static\"; match = \"b\"; },\n"
		"{ name = \"v.e/c\"; driver = \"static\"; matc = \"c\"; } );");
	(void)snprintf(path, sizeof(path), "%s/main.conf.d/60-directory.conf", directory);
	assert_int_equal(mkdir(path, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/main.conf.d/70-pipe.conf", directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	found = problems(main_file, -EISDIR);
	assert_string_equal(found,
		"20-b.conf:3: resources[1] \"v.e/c\": unknown key \"matc\", did you mean "
		"\"match\"?\n"
		"20-b.conf:3: resources[1] \"v.e/c\": match: is missing\n"
		"60-directory.conf:0: is a directory, not a file\n"
		"70-pipe.conf:0: is not a regular file\n");

	(void)snprintf(path, sizeof(path), "rm -r '%s.d'", main_file);
	assert_int_equal(system(path), 0);
}

static void test_include(void **state)
{
	_cleanup_config_ struct config *config = NULL;
	char text[1024], expected[1024];
	static const struct {
		const char *path, *problem;
	} cases[] = {
		{ "/", "is a directory, not a file" },
		{ "/no/such/file", "does not exist" },
		{ "/dev/zero", "is larger than 4 MiB, the most that is read" },
	};

	write_file("part.conf", "\n{ name = \"v.e/a\"; driver = \"static\"; match = \"a\"; }");
	(void)snprintf(
		text, sizeof(text), "resources = (\n@include \"%s/part.conf\"\n);", directory);
	config = load(text);
	assert_int_equal(config->n_resources, 1);
	assert_non_null(strstr(config->resources[0].declaration.origin.file, "/part.conf"));
	assert_int_equal(config->resources[0].declaration.origin.line, 2);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *found = NULL;

		(void)snprintf(text, sizeof(text), "# first\n  @include \"%s\"\n", cases[i].path);
		(void)snprintf(expected, sizeof(expected), "2: @include: %s %s\n", cases[i].path,
			cases[i].problem);
		write_bytes(main_file, text, strlen(text));
		found = problems(main_file, -EINVAL);
		assert_string_equal(found, expected);
	}
}

static void test_include_of_itself(void **state)
{
	_cleanup_free_ char *found = NULL, *inner = NULL;
	char text[256];

	(void)snprintf(text, sizeof(text), "@include \"%s\"\n", main_file);
	write_bytes(main_file, text, strlen(text));
	found = problems(main_file, -EINVAL);
	assert_non_null(
		strstr(found, "is included by files that are included more than 10 deep\n"));

	write_file("part.conf", "\n\nrun = (");
	(void)snprintf(text, sizeof(text), "@include \"%s/part.conf\"\n", directory);
	write_bytes(main_file, text, strlen(text));
	inner = problems(main_file, -EINVAL);
	assert_string_equal(inner, "part.conf:3: the \"(\" opened in this line is never closed\n");
}

static void test_not_text(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *problems;
	} cases[] = {
		{ "# a\n\n\0", 6, "3: holds a byte 0: not a text\n" },
		{ "# a\n# \xff\n", 8, "2: holds the byte 0xff, which is not UTF-8\n" },
		{ "# \xed\xa0\x80\n", 6, "1: holds the byte 0xed, which is not UTF-8\n" },
		{ "# \xc3", 3, "1: holds the byte 0xc3, which is not UTF-8\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *found = NULL;

		write_bytes(main_file, cases[i].bytes, cases[i].size);
		found = problems(main_file, -EINVAL);
		assert_string_equal(found, cases[i].problems);
	}
}

static void test_unreadable(void **state)
{
	_cleanup_free_ char *missing = NULL, *is_directory = NULL, *large = NULL, *empty = NULL;
	_cleanup_free_ char *blank = malloc(CONFIG_FILE_MAX + 1);
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/no-such-file", directory);
	missing = problems(path, -ENOENT);
	assert_string_equal(missing, "0: does not exist\n");

	is_directory = problems(directory, -EISDIR);
	assert_string_equal(is_directory, "0: is a directory, not a file\n");

	assert_non_null(blank);
	memset(blank, '\n', CONFIG_FILE_MAX + 1);
	write_bytes(main_file, blank, CONFIG_FILE_MAX + 1);
	large = problems(main_file, -EFBIG);
	assert_string_equal(large, "0: is larger than 4 MiB, the most that is read\n");
	blank[CONFIG_FILE_MAX] = '\0';
	memcpy(blank, "#", 1);
	assert_null(config_free(load(blank)));

	/* As an editor leaves it that truncates before it writes. */
	write_bytes(main_file, "\n", 1);
	empty = problems(main_file, -EINVAL);
	assert_string_equal(empty, "0: is empty; to offer nothing, write \"resources = ( );\"\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drop_ins),
		cmocka_unit_test(test_include),
		cmocka_unit_test(test_not_text),
		cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_include_of_itself),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
