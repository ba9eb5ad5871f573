/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin directory of the stand-in for the kubelet, which each version cleans in its own way,
 * and its sockets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "kubelet/checkpoint.h"
#include "kubelet/plugin-dir.h"
#include "tests/unit/directory-fixture.h"

static void make_file(const char *name)
{
	int fd = open(in_dir(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close_fd(fd);
}

static void make_socket(const char *name)
{
	int fd;

	assert_int_equal(socket_listen(in_dir(name), &fd), 0);
	close_fd(fd);
}

static bool exists(const char *name)
{
	struct stat st;

	return lstat(in_dir(name), &st) == 0;
}

static void count(const char *name, void *userdata)
{
	++*(size_t *)userdata;
}

static size_t clean(const char *version)
{
	struct error error = {};
	size_t removed = 0;

	make_socket("kubelet.sock");
	make_socket("plugin.sock");
	make_file("lock");
	make_file(CHECKPOINT_NAME);
	assert_int_equal(mkdir(in_dir("sub"), 0700), 0);
	make_socket("sub/plugin.sock");
	assert_int_equal(symlink("sub/plugin.sock", in_dir("link-to-socket")), 0);
	assert_int_equal(symlink("lock", in_dir("link-to-file")), 0);
	assert_int_equal(symlink("sub", in_dir("link-to-dir")), 0);
	assert_int_equal(symlink("nowhere", in_dir("dangling")), 0);
	assert_int_equal(
		plugin_dir_prepare(dir, kubelet_version_find(version), count, &removed, &error), 0);

	assert_false(exists("kubelet.sock") || exists("plugin.sock") || exists("link-to-socket"));
	assert_true(exists(CHECKPOINT_NAME) && exists("sub/plugin.sock"));
	assert_true(exists("link-to-dir") && exists("dangling"));
	return removed;
}

static void test_clean_1_36(void **state)
{
	assert_int_equal(clean("1.36"), 3);
	assert_true(exists("lock") && exists("link-to-file"));
}

static void test_clean_1_32(void **state)
{
	size_t removed = clean("1.32");

	assert_false(exists("lock"));
	/* The link is removed or dangles, in any order of the directory. */
	assert_true(removed == 4 || removed == 5);
}

static void test_directory_in_use(void **state)
{
	struct error error = {};
	int fd;

	assert_int_equal(plugin_dir_check_unused(dir, &error), 0);
	assert_int_equal(plugin_dir_listen(dir, &fd, &error), 0);
	assert_int_equal(plugin_dir_check_unused(dir, &error), -EADDRINUSE);
	/* What a dead kubelet left is no kubelet. */
	close_fd(fd);
	assert_int_equal(plugin_dir_check_unused(dir, &error), 0);
}

struct stranger {
	const char *path;
	atomic_bool stop;
};

/* Connects until it shall stop; the result is the first error, or NULL. */
static void *connect_often(void *userdata)
{
	struct stranger *stranger = userdata;

	while (!atomic_load(&stranger->stop)) {
		int fd, r = socket_connect(stranger->path, &fd);

		/* A queue that is full of this thread's own connections. */
		if (r == -EAGAIN)
			continue;
		if (r < 0)
			return strerror(-r);
		close_fd(fd);
	}
	return NULL;
}

static void test_published_socket_never_refuses(void **state)
{
	struct stranger stranger = { .path = in_dir("control") };
	int fds[501];
	pthread_t thread;
	void *failure;

	assert_int_equal(socket_publish(stranger.path, &fds[0]), 0);
	assert_int_equal(pthread_create(&thread, NULL, connect_often, &stranger), 0);
	/* All stay open: a client may have found the path just before. */
	for (size_t i = 1; i < ARRAY_SIZE(fds); i++)
		assert_int_equal(socket_publish(stranger.path, &fds[i]), 0);
	atomic_store(&stranger.stop, true);
	assert_int_equal(pthread_join(thread, &failure), 0);
	assert_null(failure);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close_fd(fds[i]);
	assert_false(exists(".ontrol"));
}

static void test_published_socket_with_longest_path(void **state)
{
	char name[sizeof(((struct sockaddr_un *)NULL)->sun_path)] = {};
	size_t size = sizeof(name) - strlen(dir) - strlen("/");
	int fd, other;

	memset(name, 'c', size);
	assert_int_equal(socket_publish(in_dir(name), &fd), -ENAMETOOLONG);
	name[size - 1] = 0;
	assert_int_equal(socket_publish(in_dir(name), &fd), 0);
	assert_int_equal(socket_connect(in_dir(name), &other), 0);
	close_fd(other);
	close_fd(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_clean_1_36),
		TEST(test_clean_1_32),
		TEST(test_directory_in_use),
		TEST(test_published_socket_never_refuses),
		TEST(test_published_socket_with_longest_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
