/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The saved health of devices: a file for each resource, bounded, which leaves room for others.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cmocka.h>

#include "common/control-child.h"
#include "supervisor/files/saved-health.h"

#define RESOURCE "vendor.example/gpu"

static char directory[64];
static struct runtime_files *opened;
static struct saved_health saved;

static int setup(void **state)
{
	(void)snprintf(directory, sizeof(directory), "/tmp/test-health-XXXXXX");
	if (!mkdtemp(directory) || runtime_files_open(directory, &opened, NULL) < 0)
		return -1;
	return saved_health_open(&saved, opened, SAVED_HEALTH, RESOURCE);
}

static int teardown(void **state)
{
	char command[256];

	saved_health_close(&saved);
	opened = runtime_files_free(opened);
	(void)snprintf(
		command, sizeof(command), "umount -ql %s/health; rm -rf %s", directory, directory);
	return system(command);
}

static void path_of(const char *resource, char ret[static 256])
{
	char name[SAVED_HEALTH_NAME_MAX];

	saved_health_name(resource, name);
	(void)snprintf(ret, 256, "%s/health/%s", directory, name);
}

/* The content of the resource's file, or NULL. */
static const char *contents(void)
{
	static char text[64];
	char path[256];
	ssize_t n;
	int fd;

	path_of(RESOURCE, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	n = read(fd, text, sizeof(text) - 1);
	(void)close_fd(fd);
	assert_true(n >= 0);
	text[n] = '\0';
	return text;
}

static int memfd_of(const char *text)
{
	int fd = memfd_create("health", MFD_CLOEXEC);

	/* The offset is at the end: no matter. */
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void test_is_written_and_read(void **state)
{
	struct stat st;
	char path[256];

	assert_int_equal(saved.fd, -EBADF);
	assert_int_equal(saved_health_write(&saved), 0);
	assert_null(contents());
	saved_health_take(&saved, memfd_of("one"));
	assert_int_equal(saved_health_write(&saved), 0);
	assert_false(saved.pending);
	assert_string_equal(contents(), "one");
	path_of(RESOURCE, path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);

	/* By the next daemon. */
	saved_health_close(&saved);
	assert_int_equal(saved_health_open(&saved, opened, SAVED_HEALTH, RESOURCE), 0);
	assert_true(saved.fd >= 0);
	assert_int_equal(unlink(path), 0);
	saved_health_write_again(&saved);
	assert_int_equal(saved_health_write(&saved), 0);
	assert_string_equal(contents(), "one");
	saved_health_remove(&saved);
	assert_null(contents());
}

static void test_is_bounded(void **state)
{
	int fd = memfd_of("x");

	saved_health_take(&saved, memfd_of("one"));
	assert_int_equal(saved_health_write(&saved), 0);
	assert_int_equal(ftruncate(fd, CONTROL_SAVED_STATE_MAX + 1), 0);
	saved_health_take(&saved, fd);
	assert_int_equal(saved_health_write(&saved), -EFBIG);
	assert_false(saved.pending);
	assert_string_equal(contents(), "one");
	assert_int_equal(ftruncate(fd, CONTROL_SAVED_STATE_MAX), 0);
	saved_health_write_again(&saved);
	assert_int_equal(saved_health_write(&saved), 0);
}

/* The file system is not only ours. */
static void test_leaves_room(void **state)
{
	_cleanup_free_ char *command = NULL;

	if (geteuid() != 0)
		skip();
	assert_true(asprintf(&command, "mount -t tmpfs -o size=1M,mode=700 tmpfs %s/health",
			    directory) > 0);
	if (system(command) != 0)
		skip();
	opened = runtime_files_free(opened);
	assert_int_equal(runtime_files_open(directory, &opened, NULL), 0);
	saved.files = opened;
	saved_health_take(&saved, memfd_of(""));
	assert_int_equal(ftruncate(saved.fd, 800 << 10), 0);
	assert_int_equal(saved_health_write(&saved), -ENOSPC);
	assert_true(saved.pending);
	assert_null(contents());
	assert_int_equal(ftruncate(saved.fd, 700 << 10), 0);
	assert_int_equal(saved_health_write(&saved), 0);
}

/* Health that is not read would be overwritten. */
static void test_without_descriptors(void **state)
{
	struct rlimit limit, none;

	saved_health_take(&saved, memfd_of("one"));
	assert_int_equal(saved_health_write(&saved), 0);
	saved_health_close(&saved);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(saved_health_open(&saved, opened, SAVED_HEALTH, RESOURCE), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(saved_health_open(&saved, opened, SAVED_HEALTH, RESOURCE), 0);
	assert_true(saved.fd >= 0);
}

static void test_names(void **state)
{
	static const char *const resources[] = { "vendor.example/gpu", "other.example/gpu",
		"vendor.example/GPU", "a/..", "../../etc/passwd", "/", "", "a/b/c" };
	char names[ARRAY_SIZE(resources)][SAVED_HEALTH_NAME_MAX], longest[400];

	for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
		saved_health_name(resources[i], names[i]);
		assert_null(strchr(names[i], '/'));
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(names[i], names[k]);
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	longest[200] = '/';
	saved_health_name(longest, names[0]);
	assert_true(strlen(names[0]) + strlen(".tmp") < SAVED_HEALTH_NAME_MAX);
	longest[0] = 'b';
	saved_health_name(longest, names[1]);
	assert_string_not_equal(names[0], names[1]);
}

/* The resource was removed from the configuration while no daemon ran. */
static void test_removed_resources(void **state)
{
	const char *const other[] = { "vendor.example/a", "vendor.example/b" };
	const char *const kept[] = { "vendor.example/b", RESOURCE };

	saved_health_take(&saved, memfd_of("one"));
	assert_int_equal(saved_health_write(&saved), 0);
	assert_int_equal(runtime_files_write(opened, "last-good.conf", "x", 1), 0);
	saved_health_keep_only(opened, SAVED_HEALTH, kept, ARRAY_SIZE(kept));
	assert_non_null(contents());
	saved_health_keep_only(opened, SAVED_HEALTH, other, ARRAY_SIZE(other));
	assert_null(contents());
	assert_int_equal(faccessat(runtime_files_directory(opened), "last-good.conf", F_OK, 0), 0);
	saved_health_keep_only(opened, SAVED_HEALTH, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_is_written_and_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leaves_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed_resources, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
