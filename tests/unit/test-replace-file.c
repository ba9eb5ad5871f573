/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file is replaced as a whole or not at all. Neither the length of its name, nor the umask, nor
 * what a killed process left changes that.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/replace-file.h"

static char directory[] = "/tmp/test-replace-file.XXXXXX";
static int directory_fd;

static int setup(void **state)
{
	assert_non_null(mkdtemp(directory));
	directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return directory_fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	(void)close(directory_fd);
	return rmdir(directory);
}

static void assert_content(const char *name, const char *expected)
{
	_cleanup_close_ int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC);
	char text[64] = "";

	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text) - 1), strlen(expected));
	assert_string_equal(text, expected);
}

static size_t count_files(void)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;
	size_t n = 0;

	assert_non_null(stream);
	while ((entry = readdir(stream)))
		n += !streq(entry->d_name, ".") && !streq(entry->d_name, "..");
	(void)closedir(stream);
	return n;
}

static void test_replace(void **state)
{
	char name[NAME_MAX + 1];
	struct stat st;
	mode_t mask = umask(0777);

	memset(name, 'x', NAME_MAX);
	name[NAME_MAX] = '\0';
	assert_int_equal(replace_file(directory_fd, name, 0644, "one", 3), 0);
	assert_int_equal(replace_file(directory_fd, name, 0640, "second", 6), 0);
	(void)umask(mask);
	assert_content(name, "second");
	assert_int_equal(fstatat(directory_fd, name, &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(count_files(), 1);
	assert_int_equal(unlinkat(directory_fd, name, 0), 0);
}

static void test_path(void **state)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/file", directory);
	assert_int_equal(replace_file(AT_FDCWD, path, 0644, "text", 4), 0);
	assert_content("file", "text");
	assert_int_equal(count_files(), 1);
	assert_int_equal(unlink(path), 0);
	(void)snprintf(path, sizeof(path), "%s/missing/file", directory);
	assert_int_equal(replace_file(AT_FDCWD, path, 0644, "text", 4), -ENOENT);
}

/* What a killed process left has the temporary name of the next one. */
static void test_left(void **state)
{
	int fd = replace_file_begin(directory_fd, "file", 0644);

	assert_true(fd >= 0);
	assert_int_equal(write_all(fd, "much too long", 13), 0);
	(void)close(fd);
	assert_int_equal(count_files(), 1);
	assert_int_equal(replace_file(directory_fd, "file", 0644, "new", 3), 0);
	assert_content("file", "new");
	assert_int_equal(count_files(), 1);
	assert_int_equal(unlinkat(directory_fd, "file", 0), 0);
}

static void test_failure(void **state)
{
	int fd;

	assert_int_equal(replace_file(directory_fd, "file", 0644, "old", 3), 0);
	fd = replace_file_begin(directory_fd, "file", 0644);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(replace_file_end(directory_fd, "file", -ENOSPC), -ENOSPC);
	assert_content("file", "old");
	assert_int_equal(count_files(), 1);
	assert_int_equal(unlinkat(directory_fd, "file", 0), 0);

	assert_int_equal(mkdirat(directory_fd, "file", 0700), 0);
	assert_int_equal(replace_file(directory_fd, "file", 0644, "new", 3), -EISDIR);
	assert_int_equal(count_files(), 1);
	assert_int_equal(unlinkat(directory_fd, "file", AT_REMOVEDIR), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_path),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_failure),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
