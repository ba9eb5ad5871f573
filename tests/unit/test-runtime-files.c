/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files in runtime_dir: replaced as a whole or not at all, and written by one daemon only.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "supervisor/files/runtime-files.h"
#include "supervisor/files/runtime-lock.h"

#define FILE_NAME "file"

static char directory[64];
static struct runtime_files *opened;

static int setup(void **state)
{
	(void)snprintf(directory, sizeof(directory), "/tmp/test-files-XXXXXX");
	return mkdtemp(directory) ? runtime_files_open(directory, &opened, NULL) : -1;
}

static int teardown(void **state)
{
	char command[128];

	opened = runtime_files_free(opened);
	(void)snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

/* The contents of a file, or NULL. */
static const char *contents(const char *name)
{
	static char text[4096];
	char path[256];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	n = read(fd, text, sizeof(text) - 1);
	(void)close_fd(fd);
	assert_true(n >= 0);
	text[n] = '\0';
	return text;
}

static struct stat stat_of(const char *name)
{
	struct stat st;
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	assert_int_equal(stat(path, &st), 0);
	return st;
}

static void test_replaces(void **state)
{
	struct stat first, second;
	mode_t mask = umask(077);

	assert_int_equal(runtime_files_write(opened, FILE_NAME, "one", 3), 0);
	first = stat_of(FILE_NAME);
	assert_int_equal(runtime_files_write(opened, FILE_NAME, "2", 1), 0);
	second = stat_of(FILE_NAME);
	(void)umask(mask);
	assert_string_equal(contents(FILE_NAME), "2");
	assert_int_equal(second.st_mode & 07777, 0600);
	assert_int_not_equal(first.st_ino, second.st_ino); /* readers keep a whole old file */
	assert_null(contents(FILE_NAME ".tmp"));
}

/* A directory in the way of the new file makes the rename fail. */
static void test_failure_keeps_the_old(void **state)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/" FILE_NAME, directory);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_true(runtime_files_write(opened, FILE_NAME, "x", 1) < 0);
	assert_null(contents(FILE_NAME ".tmp"));
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(runtime_files_write(opened, FILE_NAME, "x", 1), 0);
}

static void test_does_not_follow_links(void **state)
{
	char path[128], victim[128];

	(void)snprintf(victim, sizeof(victim), "%s/victim", directory);
	(void)snprintf(path, sizeof(path), "%s/" FILE_NAME ".tmp", directory);
	assert_int_equal(symlink(victim, path), 0);
	assert_int_equal(runtime_files_write(opened, FILE_NAME, "x", 1), 0);
	assert_null(contents("victim"));
	assert_int_equal(stat_of(FILE_NAME).st_size, 1);
}

/* In the place of the directory of health, before a start and while it runs. */
static void test_P18_does_not_follow_links_to_directories(void **state)
{
	char path[128], victim[128], command[1024];
	struct error error;
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/health", directory);
	(void)snprintf(victim, sizeof(victim), "%s/victim", directory);
	(void)snprintf(command, sizeof(command), "rm -rf %s %s && mkdir %s && ln -s victim %s",
		path, victim, victim, path);
	assert_int_equal(system(command), 0);
	assert_int_equal(runtime_files_restore(opened, &error), 1);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	opened = runtime_files_free(opened);
	assert_int_equal(system(command), 0);
	assert_int_equal(runtime_files_open(directory, &opened, NULL), 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISDIR(st.st_mode));
}

static void test_P18_directories_of_others(void **state)
{
	struct runtime_files *other = NULL;
	struct error error = { 0 };
	char path[128];

	opened = runtime_files_free(opened);
	assert_int_equal(chmod(directory, 0777), 0);
	assert_int_equal(runtime_files_open(directory, &other, &error), -EPERM);
	assert_non_null(strstr(error.message, "runtime_dir"));
	assert_int_equal(chmod(directory, 0755), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(directory, 12345, 0), 0);
		assert_int_equal(runtime_files_open(directory, &other, &error), -EPERM);
		assert_int_equal(chown(directory, 0, 0), 0);
	}
	(void)snprintf(path, sizeof(path), "%s/health", directory);
	assert_int_equal(chmod(path, 0757), 0);
	assert_int_equal(runtime_files_open(directory, &other, &error), -EPERM);
	assert_null(other);
}

static void test_P18_reads_its_own_files_only(void **state)
{
	int at = runtime_files_directory(opened), fd;
	char path[128];

	assert_int_equal(runtime_files_write(opened, FILE_NAME, "x", 1), 0);
	fd = runtime_files_open_file(at, FILE_NAME);
	assert_true(fd >= 0);
	(void)close_fd(fd);
	(void)snprintf(path, sizeof(path), "%s/" FILE_NAME, directory);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(runtime_files_open_file(at, FILE_NAME), -EPERM);
	(void)unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(runtime_files_open_file(at, FILE_NAME), -EPERM);
}

/* In another process. Returns whether it is refused. */
static bool is_refused_to_another(void)
{
	struct runtime_files *second = NULL;
	struct error error = { 0 };
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(runtime_files_open(directory, &second, &error) == -EBUSY && !second &&
					strstr(error.message, directory)
				? 0
				: 1);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

static void test_one_daemon(void **state)
{
	assert_int_equal(runtime_files_write(opened, FILE_NAME, "x", 1), 0);
	assert_true(is_refused_to_another());
	assert_string_equal(contents(FILE_NAME), "x");
	opened = runtime_files_free(opened);
	assert_int_equal(runtime_files_open(directory, &opened, NULL), 0);
	assert_string_equal(contents(FILE_NAME), "x");
}

/* It keeps the lock while it cannot restore the rest. */
static void test_one_daemon_while_it_is_restored(void **state)
{
	char path[128], away[128];
	struct error error;

	(void)snprintf(path, sizeof(path), "%s/health", directory);
	(void)snprintf(away, sizeof(away), "%s/away", directory);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(mkdir(path, 0777), 0);
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(runtime_files_restore(opened, &error), -EPERM);
	assert_int_equal(rmdir(path), 0);
	assert_true(is_refused_to_another());
	/* Another lock file is locked as well. */
	(void)snprintf(away, sizeof(away), "%s/" RUNTIME_LOCK_FILE, directory);
	assert_int_equal(unlink(away), 0);
	assert_int_equal(runtime_files_restore(opened, &error), 1);
	assert_true(is_refused_to_another());
	(void)snprintf(away, sizeof(away), "%s/away-too", directory);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(runtime_files_restore(opened, &error), 1);
	assert_true(is_refused_to_another());
}

/* In the place of a file. */
static void test_directory_named_lock(void **state)
{
	struct error error;
	char path[128], file[160];
	int fd;

	opened = runtime_files_free(opened);
	(void)snprintf(path, sizeof(path), "%s/" RUNTIME_LOCK_FILE, directory);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	(void)snprintf(file, sizeof(file), "%s/file", path);
	fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_true(runtime_files_open(directory, &opened, &error) < 0);
	assert_non_null(strstr(error.message, "/lock: Directory not empty"));
	assert_int_equal(unlink(file), 0);
	assert_int_equal(runtime_files_open(directory, &opened, &error), 0);
}

/* A child that was forked and does not run its own program yet has all descriptors of devplugd. */
static void test_forked_child(void **state)
{
	_cleanup_close_ int read_fd = -EBADF;
	int pipe_fds[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	read_fd = pipe_fds[0];
	pid = fork();
	if (pid == 0) {
		/* Until the other end is closed. */
		(void)close(pipe_fds[1]);
		(void)!read(read_fd, &c, 1);
		_exit(0);
	}
	assert_true(pid > 0);
	opened = runtime_files_free(opened);
	assert_false(is_refused_to_another());
	(void)close(pipe_fds[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(runtime_files_open(directory, &opened, NULL), 0);
}

static void test_makes_directories(void **state)
{
	_cleanup_(runtime_files_freep) struct runtime_files *deep = NULL, *beside = NULL;
	char path[128];
	struct stat st;
	mode_t mask = umask(077);
	int r;

	(void)snprintf(path, sizeof(path), "%s/a/b/c", directory);
	r = runtime_files_open(path, &deep, NULL);
	if (r >= 0) {
		path[strlen(path) - 1] = 'd';
		r = runtime_files_open(path, &beside, NULL);
	}
	(void)umask(mask);
	assert_int_equal(r, 0);
	assert_int_equal(stat_of("a/b/c").st_mode & 07777, 0755);
	assert_int_equal(stat_of("a/b/d").st_mode & 07777, 0755);
	st = stat_of("a/b/c/health");
	assert_int_equal(st.st_mode & 07777, 0700);
	/* A process that can open it can lock it. */
	st = stat_of("a/b/c/" RUNTIME_LOCK_FILE);
	assert_int_equal(st.st_mode & 07777, 0600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_replaces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failure_keeps_the_old, setup, teardown),
		cmocka_unit_test_setup_teardown(test_does_not_follow_links, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_P18_does_not_follow_links_to_directories, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_directories_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_reads_its_own_files_only, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_daemon, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_one_daemon_while_it_is_restored, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory_named_lock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forked_child, setup, teardown),
		cmocka_unit_test_setup_teardown(test_makes_directories, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
