/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State files: replaced as a whole or not at all, bounded, and written by one daemon only.
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
#include <sys/wait.h>

#include <cmocka.h>

#include "supervisor/files/mirror.h"
#include "supervisor/files/state.h"

static char directory[64];
static struct state *opened;

static int setup(void **state)
{
	(void)snprintf(directory, sizeof(directory), "/tmp/test-state-XXXXXX");
	return mkdtemp(directory) ? state_open(directory, &opened, NULL) : -1;
}

static int teardown(void **state)
{
	char command[128];

	opened = state_free(opened);
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

	assert_int_equal(state_write(opened, STATE_FILE, "one", 3), 0);
	first = stat_of(STATE_FILE);
	assert_int_equal(state_write(opened, STATE_FILE, "2", 1), 0);
	second = stat_of(STATE_FILE);
	(void)umask(mask);
	assert_string_equal(contents(STATE_FILE), "2");
	assert_int_equal(second.st_mode & 07777, 0644);
	assert_int_not_equal(first.st_ino, second.st_ino); /* readers keep a whole old file */
	assert_null(contents(STATE_FILE ".tmp"));
}

static void test_private(void **state)
{
	assert_int_equal(state_write(opened, "secret", "x", 1), 0);
	assert_int_equal(state_write_private(opened, "secret", "yz", 2), 0);
	assert_string_equal(contents("secret"), "yz");
	assert_int_equal(stat_of("secret").st_mode & 07777, 0600);
}

/* A directory in the way of the new file makes the rename fail. */
static void test_failure_keeps_the_old(void **state)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/" STATE_FILE, directory);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_true(state_write(opened, STATE_FILE, "x", 1) < 0);
	assert_null(contents(STATE_FILE ".tmp"));
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(state_write(opened, STATE_FILE, "x", 1), 0);
}

static void test_does_not_follow_links(void **state)
{
	char path[128], victim[128];

	(void)snprintf(victim, sizeof(victim), "%s/victim", directory);
	(void)snprintf(path, sizeof(path), "%s/" STATE_FILE ".tmp", directory);
	assert_int_equal(symlink(victim, path), 0);
	assert_int_equal(state_write(opened, STATE_FILE, "x", 1), 0);
	assert_null(contents("victim"));
	assert_int_equal(stat_of(STATE_FILE).st_size, 1);
}

/* In the place of a directory, before a start and while it runs. */
static void test_P18_does_not_follow_links_to_directories(void **state)
{
	char path[128], victim[128], command[512];

	(void)snprintf(victim, sizeof(victim), "%s/victim", directory);
	(void)snprintf(path, sizeof(path), "%s/" STATE_DEVICES_DIR, directory);
	(void)snprintf(command, sizeof(command), "rm -rf %s && mkdir %s && ln -s victim %s", path,
		victim, path);
	assert_int_equal(system(command), 0);
	(void)state_write(opened, STATE_DEVICES_DIR "/a.json", "x", 1);
	assert_null(contents("victim/a.json"));
	opened = state_free(opened);
	assert_int_equal(state_open(directory, &opened, NULL), 0);
	assert_int_equal(state_write(opened, STATE_DEVICES_DIR "/a.json", "x", 1), 0);
	assert_null(contents("victim/a.json"));
	assert_non_null(contents(STATE_DEVICES_DIR "/a.json"));
}

static void test_P18_directories_of_others(void **state)
{
	struct state *other = NULL;
	struct error error = { 0 };
	char path[128];

	opened = state_free(opened);
	assert_int_equal(chmod(directory, 0777), 0);
	assert_int_equal(state_open(directory, &other, &error), -EPERM);
	assert_non_null(strstr(error.message, "runtime_dir"));
	assert_int_equal(chmod(directory, 0755), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(directory, 12345, 0), 0);
		assert_int_equal(state_open(directory, &other, &error), -EPERM);
		assert_int_equal(chown(directory, 0, 0), 0);
	}
	(void)snprintf(path, sizeof(path), "%s/" STATE_HEALTH_DIR, directory);
	assert_int_equal(chmod(path, 0757), 0);
	assert_int_equal(state_open(directory, &other, &error), -EPERM);
	assert_null(other);
}

static void test_P18_reads_its_own_files_only(void **state)
{
	char path[128];
	int fd;

	assert_int_equal(state_write(opened, STATE_HEALTH_DIR "/a.json", "x", 1), 0);
	fd = state_open_file(opened, STATE_HEALTH_DIR "/a.json");
	assert_true(fd >= 0);
	(void)close_fd(fd);
	(void)snprintf(path, sizeof(path), "%s/" STATE_HEALTH_DIR "/a.json", directory);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(state_open_file(opened, STATE_HEALTH_DIR "/a.json"), -EPERM);
	(void)unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(state_open_file(opened, STATE_HEALTH_DIR "/a.json"), -EPERM);
}

/* The file system is not only ours. */
static void test_leaves_room(void **state)
{
	struct statvfs st;
	int fd = memfd_create("devices", MFD_CLOEXEC);

	assert_int_equal(statvfs(directory, &st), 0);
	assert_int_equal(ftruncate(fd, (off_t)(st.f_bavail * st.f_frsize - (1 << 20))), 0);
	assert_int_equal(state_copy(opened, "devices/a.json", fd, SIZE_MAX), -ENOSPC);
	assert_null(contents("devices/a.json"));
	(void)close_fd(fd);
}

static void test_copy_is_bounded(void **state)
{
	char name[STATE_NAME_MAX];
	int fd = memfd_create("devices", MFD_CLOEXEC);

	state_devices_name("vendor.example/gpu", name);
	assert_int_equal(write(fd, "0123456789", 10), 10); /* the offset is at the end: no matter */
	assert_int_equal(state_copy(opened, name, fd, 10), 0);
	assert_string_equal(contents(name), "0123456789");
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(state_copy(opened, name, fd, 10), -EFBIG);
	assert_string_equal(contents(name), "0123456789");
	assert_int_equal(stat_of(name).st_mode & 07777, 0644);
	state_remove(opened, name);
	assert_null(contents(name));
	(void)close_fd(fd);
}

static void test_names(void **state)
{
	static const char *const resources[] = { "vendor.example/gpu", "other.example/gpu",
		"vendor.example/GPU", "a/..", "../../etc/passwd", "/", "", "a/b/c" };
	char names[ARRAY_SIZE(resources)][STATE_NAME_MAX], longest[400];

	for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
		state_devices_name(resources[i], names[i]);
		assert_null(strchr(strchr(names[i], '/') + 1, '/'));
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(names[i], names[k]);
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	longest[200] = '/';
	state_devices_name(longest, names[0]);
	assert_true(strlen(names[0]) + strlen(".tmp") < STATE_NAME_MAX);
	longest[0] = 'b';
	state_devices_name(longest, names[1]);
	assert_string_not_equal(names[0], names[1]);
}

/* In another process. Returns whether it is refused. */
static bool is_refused_to_another(void)
{
	struct state *second = NULL;
	struct error error = { 0 };
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(state_open(directory, &second, &error) == -EBUSY && !second &&
					strstr(error.message, directory)
				? 0
				: 1);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

static void test_one_daemon(void **state)
{
	assert_int_equal(state_write(opened, STATE_FILE, "x", 1), 0);
	assert_true(is_refused_to_another());
	assert_string_equal(contents(STATE_FILE), "x");
	opened = state_free(opened);
	assert_int_equal(state_open(directory, &opened, NULL), 0);
	assert_null(contents(STATE_FILE)); /* the state of a dead daemon is no longer true */
}

/* It keeps the lock while it cannot restore the rest. */
static void test_one_daemon_while_it_is_restored(void **state)
{
	char path[128], away[128];
	struct error error;

	(void)snprintf(path, sizeof(path), "%s/" STATE_HEALTH_DIR, directory);
	(void)snprintf(away, sizeof(away), "%s/away", directory);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(mkdir(path, 0777), 0);
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(state_restore(opened, &error), -EPERM);
	assert_int_equal(rmdir(path), 0);
	assert_true(is_refused_to_another());
	/* Another lock file is locked as well. */
	(void)snprintf(away, sizeof(away), "%s/" STATE_LOCK_FILE, directory);
	assert_int_equal(unlink(away), 0);
	assert_int_equal(state_restore(opened, &error), 1);
	assert_true(is_refused_to_another());
	(void)snprintf(away, sizeof(away), "%s/away-too", directory);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(state_restore(opened, &error), 1);
	assert_true(is_refused_to_another());
}

/* In the place of a file. */
static void test_directory_named_lock(void **state)
{
	struct error error;
	char path[128], file[160];
	int fd;

	opened = state_free(opened);
	(void)snprintf(path, sizeof(path), "%s/" STATE_LOCK_FILE, directory);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	(void)snprintf(file, sizeof(file), "%s/file", path);
	fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_true(state_open(directory, &opened, &error) < 0);
	assert_non_null(strstr(error.message, "/lock: Directory not empty"));
	assert_int_equal(unlink(file), 0);
	assert_int_equal(state_open(directory, &opened, &error), 0);
}

/* Health that is not read would be overwritten. */
static void test_saved_state_without_descriptors(void **state)
{
	struct rlimit limit, none;
	struct mirror mirror;

	assert_int_equal(state_write_private(opened, "saved", "x", 1), 0);
	mirror_init(&mirror, opened, "saved", 100);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(mirror_restore(&mirror), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(mirror_restore(&mirror), 0);
	assert_true(mirror.fd >= 0);
	mirror_release(&mirror);
	mirror_init(&mirror, opened, "missing", 100);
	assert_int_equal(mirror_restore(&mirror), 0);
	assert_int_equal(mirror.fd, -EBADF);
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
	opened = state_free(opened);
	assert_false(is_refused_to_another());
	(void)close(pipe_fds[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(state_open(directory, &opened, NULL), 0);
}

static void test_makes_directories(void **state)
{
	_cleanup_(state_freep) struct state *deep = NULL;
	char path[128];
	struct stat st;
	mode_t mask = umask(077);
	int r;

	(void)snprintf(path, sizeof(path), "%s/a/b/c", directory);
	r = state_open(path, &deep, NULL);
	(void)umask(mask);
	assert_int_equal(r, 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	st = stat_of("a/b/c/" STATE_DEVICES_DIR);
	assert_int_equal(st.st_mode & 07777, 0755);
	/* A process that can open it can lock it. */
	st = stat_of("a/b/c/" STATE_LOCK_FILE);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_clear(void **state)
{
	assert_int_equal(state_write(opened, STATE_FILE, "x", 1), 0);
	assert_int_equal(state_write(opened, STATE_DEVICES_DIR "/a.json", "x", 1), 0);
	assert_int_equal(state_write(opened, "kept", "x", 1), 0);
	state_clear(opened);
	assert_null(contents(STATE_FILE));
	assert_null(contents(STATE_DEVICES_DIR "/a.json"));
	assert_non_null(contents("kept"));
}

static void write_state(const char *name)
{
	assert_int_equal(state_write(opened, name, "x", 1), 0);
}

/* The resource was removed from the configuration while no daemon ran. */
static void test_removed_resources(void **state)
{
	const char *const kept[] = { "vendor.example/a", "vendor.example/b" };
	char names[4][STATE_NAME_MAX];

	state_devices_name("vendor.example/a", names[0]);
	state_health_name("vendor.example/a", names[1]);
	state_devices_name("vendor.example/removed", names[2]);
	state_health_name("vendor.example/removed", names[3]);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		write_state(names[i]);
	write_state("last-good.conf");
	state_keep_only(opened, kept, ARRAY_SIZE(kept));
	assert_non_null(contents(names[0]));
	assert_non_null(contents(names[1]));
	assert_null(contents(names[2]));
	assert_null(contents(names[3]));
	assert_non_null(contents("last-good.conf"));
	state_keep_only(opened, NULL, 0);
	assert_null(contents(names[1]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_removed_resources, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replaces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_private, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failure_keeps_the_old, setup, teardown),
		cmocka_unit_test_setup_teardown(test_does_not_follow_links, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_P18_does_not_follow_links_to_directories, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_directories_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_reads_its_own_files_only, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leaves_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copy_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_daemon, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_one_daemon_while_it_is_restored, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory_named_lock, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_saved_state_without_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forked_child, setup, teardown),
		cmocka_unit_test_setup_teardown(test_makes_directories, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clear, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
