/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files are the configuration, how drop-ins and included ones add up, and files that cannot
 * be read as one.
 */
#include "config-fixture.h"
#include "configuration/source.h"

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
		{ "/dev/zero", "is not a regular file" },
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

/* Relative to the file, not to where the program runs. */
static void test_relative_include(void **state)
{
	_cleanup_config_ struct config *config = NULL;

	write_file("part.conf", "\n{ name = \"v.e/a\"; driver = \"static\"; match = \"a\"; }");
	write_file("more.conf", "\n{ name = \"v.e/b\"; driver = \"static\"; match = \"b\"; }");
	config = load("resources = (\n@include \"part.conf\"\n,\n@include \"./more.conf\"\n);");
	assert_int_equal(config->n_resources, 2);
	assert_non_null(strstr(config->resources[0].declaration.origin.file, "/part.conf"));
	assert_int_equal(config->resources[1].declaration.origin.line, 2);
}

static void make_subdirectory(const char *name)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
}

/* Each is relative to the file that includes it, and each line is that of its own file. */
static void test_nested_includes(void **state)
{
	static const char *const main_text =
		"resources = (\n  @include \"one/a.conf\" # the first\n"
		", { name = \"v.e/last\"; driver = \"static\"; match = \"last\"; }\n);\n";
	static const struct {
		const char *name, *file;
		unsigned line;
	} expected[] = {
		{ "v.e/a", "/one/a.conf", 1 },
		{ "v.e/b", "/one/../two/b.conf", 2 },
		{ "v.e/c", "/one/../two/./three/c.conf", 3 },
		{ "v.e/b2", "/one/../two/b.conf", 6 },
		{ "v.e/a2", "/one/a.conf", 5 },
		{ "v.e/last", "/main.conf", 3 },
	};
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *key = NULL, *syntax = NULL, *outer = NULL;

	make_subdirectory("one");
	make_subdirectory("two");
	make_subdirectory("two/three");
	write_file("one/a.conf",
		"{ name = \"v.e/a\"; driver = \"static\"; match = \"a\"; },\n\n"
		"@include \"../two/b.conf\"\n,\n"
		"{ name = \"v.e/a2\"; driver = \"static\"; match = \"a2\"; }\n");
	write_file("two/b.conf",
		"# b\n{ name = \"v.e/b\"; driver = \"static\"; match = \"b\"; },\n"
		"@include \"./three/c.conf\"\n"
		"@include \"three/empty.conf\"\n,\n"
		"{ name = \"v.e/b2\"; driver = \"static\"; match = \"b2\"; }");
	write_file("two/three/empty.conf", "");
	write_file("two/three/c.conf",
		"\n\n{ name = \"v.e/c\"; driver = \"static\"; match = \"c\"; }");
	config = load(main_text);
	assert_int_equal(config->n_resources, ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		const struct declaration *declaration = &config->resources[i].declaration;

		assert_string_equal(declaration->name, expected[i].name);
		assert_string_equal(declaration->origin.file + strlen(directory), expected[i].file);
		assert_int_equal(declaration->origin.line, expected[i].line);
	}

	write_file("two/three/c.conf",
		"\n{ name = \"v.e/c\"; driver = \"static\";\n  matc = \"c\"; }\n");
	key = problems(main_file, -EINVAL);
	assert_non_null(strstr(key, "c.conf:3: resources[2] \"v.e/c\": unknown key \"matc\""));

	write_file("two/three/c.conf", "\n\n\n{ name = \"v.e/c\" = }\n");
	syntax = problems(main_file, -EINVAL);
	assert_non_null(strstr(syntax, "c.conf:4: syntax error"));

	/* Behind an include; libconfig 1.7 takes two commas for one. */
	write_file("two/three/c.conf",
		"\n\n{ name = \"v.e/c\"; driver = \"static\"; match = \"c\"; }");
	write_file("two/b.conf",
		"{ name = \"v.e/b\"; driver = \"static\"; match = \"b\"; },\n"
		"@include \"./three/c.conf\"\n,\n\n{ name = \"v.e/b2\" = }\n");
	outer = problems(main_file, -EINVAL);
	assert_non_null(strstr(outer, "b.conf:5: syntax error"));
}

static void test_include_after_a_value(void **state)
{
	_cleanup_free_ char *found = NULL, *name = NULL;
	static const char inline_include[] = "\nlog_level = \"info\"; @include \"part.conf\"\n";
	static const char long_name[] = "\n@include \"part\n.conf\"\n";

	write_file("part.conf", "");
	write_bytes(main_file, inline_include, strlen(inline_include));
	found = problems(main_file, -EINVAL);
	assert_string_equal(found, "2: @include must be at the beginning of a line\n");
	write_bytes(main_file, long_name, strlen(long_name));
	name = problems(main_file, -EINVAL);
	assert_string_equal(
		name, "2: @include: the file's name must not contain a backslash or a line end\n");
}

/* 30 files in each, 8 deep, would be more than there is time for. */
static void test_many_includes(void **state)
{
	_cleanup_free_ char *found = NULL;
	char name[32], line[512];

	for (unsigned depth = 0; depth < 8; depth++) {
		_cleanup_free_ char *text = NULL;
		size_t size;
		FILE *stream = open_memstream(&text, &size);

		(void)snprintf(
			line, sizeof(line), "@include \"%s/%u.conf\"\n", directory, depth + 1);
		for (unsigned i = 0; i < 30; i++)
			(void)fputs(line, stream);
		(void)fclose(stream);
		(void)snprintf(name, sizeof(name), "%u.conf", depth);
		write_file(name, text);
	}
	write_file("8.conf", "");
	(void)snprintf(line, sizeof(line), "@include \"%s/0.conf\"\n", directory);
	write_bytes(main_file, line, strlen(line));
	found = problems(main_file, -EINVAL);
	assert_non_null(strstr(found, "is one of more than 256 included files"));
}

/* Every user that can write the configuration is as powerful as root. */
static void test_P18_files_of_others(void **state)
{
	static const char good[] = "resources = ( );\n";
	char path[256], other[512];

	(void)snprintf(path, sizeof(path), "%s/part.conf", directory);
	(void)snprintf(other, sizeof(other), "@include \"%s\"\n", path);
	for (unsigned i = 0; i < 4; i++) {
		_cleanup_free_ char *found = NULL;
		const char *file = i == 3 ? directory : i == 2 ? path : main_file;

		write_file("part.conf", good);
		write_bytes(main_file, i == 2 ? other : good, strlen(i == 2 ? other : good));
		if (i == 0 && geteuid() == 0)
			assert_int_equal(chown(file, 12345, 0), 0);
		else
			assert_int_equal(chmod(file, i == 3 ? 0777 : 0666), 0);
		found = problems(main_file, i == 2 ? -EINVAL : -EPERM);
		assert_non_null(strstr(found, "others must not be able to write to it"));
		assert_int_equal(chmod(file, i == 3 ? 0755 : 0644), 0);
		if (geteuid() == 0)
			assert_int_equal(chown(file, 0, 0), 0);
	}
	/* In a sticky directory no user can replace another user's file. */
	assert_int_equal(chmod(directory, 01777), 0);
	write_bytes(main_file, good, strlen(good));
	(void)config_free(load(good));
	assert_int_equal(chmod(directory, 0755), 0);
}

static void test_include_of_itself(void **state)
{
	_cleanup_free_ char *found = NULL, *inner = NULL;
	char text[256];

	(void)snprintf(text, sizeof(text), "@include \"%s\"\n", main_file);
	write_bytes(main_file, text, strlen(text));
	found = problems(main_file, -EINVAL);
	assert_non_null(strstr(found, "is included more than 10 levels deep\n"));

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
		{ "# a\n\n\0", 6, "3: contains a byte 0, so it is not text\n" },
		{ "# a\n# \xff\n", 8, "2: contains the byte 0xff, which is not UTF-8\n" },
		{ "# \xed\xa0\x80\n", 6, "1: contains the byte 0xed, which is not UTF-8\n" },
		{ "# \xc3", 3, "1: contains the byte 0xc3, which is not UTF-8\n" },
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
	_cleanup_free_ char *whole = NULL;
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
	assert_string_equal(large, "0: is larger than 4 MiB, the maximum\n");
	blank[CONFIG_FILE_MAX] = '\0';
	memcpy(blank, "#", 1);
	assert_null(config_free(load(blank)));
	write_file("part.conf", "# one of two files that are too large together\n");
	memcpy(blank, "@include \"part.conf\"\n", strlen("@include \"part.conf\"\n"));
	write_bytes(main_file, blank, CONFIG_FILE_MAX);
	whole = problems(main_file, -EFBIG);
	assert_string_equal(whole,
		"0: is too large: a file and the files that it includes may have 4 MiB together\n");

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
		cmocka_unit_test(test_relative_include),
		cmocka_unit_test(test_nested_includes),
		cmocka_unit_test(test_include_after_a_value),
		cmocka_unit_test(test_many_includes),
		cmocka_unit_test(test_P18_files_of_others),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
