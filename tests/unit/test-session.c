/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets in the plugin directory: made only when a kubelet listens, and removed only while they
 * are ours.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

#include "supervisor/kubelet/session-sockets.h"

#define RESOURCE "vendor.example/gpu"

static char directory[64];
static char instance[SESSION_INSTANCE_CHARS + 1];

static int setup(void **state)
{
	(void)snprintf(directory, sizeof(directory), "/tmp/test-session-XXXXXX");
	session_instance(instance);
	return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

static struct sockaddr_un address_of(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	assert_true(snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", directory, name) <
		(int)sizeof(address.sun_path));
	return address;
}

static bool exists(const char *name)
{
	return access(address_of(name).sun_path, F_OK) == 0;
}

static int bind_at(const char *name, bool listening)
{
	struct sockaddr_un address = address_of(name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	if (listening)
		assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static int open_session(uint64_t number, struct session *session)
{
	return session_open(directory, RESOURCE, instance, number, session, NULL);
}

static void test_absent_kubelet(void **state)
{
	struct session session = SESSION_INIT;
	struct error error = { 0 };
	int fd;

	assert_int_equal(session_open(directory, RESOURCE, instance, 1, &session, &error), -ENOENT);
	assert_non_null(strstr(error.message, KUBELET_SOCKET_NAME));
	fd = bind_at(KUBELET_SOCKET_NAME, false);
	assert_int_equal(open_session(1, &session), -ECONNREFUSED);
	assert_int_equal(session.number, 0);
	(void)close_fd(fd);
	assert_int_equal(open_session(1, &session), -ECONNREFUSED);
}

static void test_session(void **state)
{
	int kubelet = bind_at(KUBELET_SOCKET_NAME, true), client;
	struct session session = SESSION_INIT, next = SESSION_INIT;
	struct sockaddr_un address;
	struct stat st;
	mode_t mask = umask(0);

	assert_int_equal(open_session(1, &session), 0);
	(void)umask(mask);
	assert_true(strlen(session.socket.name) <= SOCKET_NAME_MAX);
	assert_int_equal(session.number, 1);
	address = address_of(session.socket.name);
	assert_int_equal(stat(address.sun_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(fcntl(session.socket.fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(session.kubelet_fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(session.socket.fd, F_GETFD) & FD_CLOEXEC);

	client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	(void)close_fd(client);

	assert_int_equal(open_session(2, &next), 0);
	assert_string_not_equal(session.socket.name, next.socket.name);
	assert_int_equal(session_peer_pid(session.kubelet_fd), getpid());
	assert_true(exists(session.socket.name));
	session_done(&session);
	assert_false(access(address.sun_path, F_OK) == 0);
	assert_true(exists(next.socket.name));
	session_done(&next);
	session_done(&next);
	(void)close_fd(kubelet);
}

/* The plugin watcher takes every name without a dot for a plugin that answers: such a name must
 * come into being by a rename only. */
static void assert_never_half_made(int inotify_fd)
{
	char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t size = read(inotify_fd, buffer, sizeof(buffer));
	unsigned moved = 0;

	for (char *p = buffer; size > 0 && p < buffer + size;) {
		const struct inotify_event *event = (const void *)p;

		if (event->mask & IN_CREATE)
			assert_int_equal(event->name[0], '.');
		moved += (event->mask & IN_MOVED_TO) != 0;
		p += sizeof(*event) + event->len;
	}
	assert_int_equal(moved, 1);
}

static void test_watched(void **state)
{
	int inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct session session = SESSION_INIT, none = SESSION_INIT;
	struct sockaddr_un address;
	struct error error = { 0 };
	struct stat st;
	int client;

	assert_true(inotify_add_watch(inotify_fd, directory, IN_CREATE | IN_MOVED_TO) >= 0);
	assert_int_equal(
		session_open_watched(directory, RESOURCE, instance, 1, &session, &error), 0);
	assert_never_half_made(inotify_fd);
	(void)close_fd(inotify_fd);
	assert_int_equal(session.kubelet_fd, -EBADF);
	assert_int_equal(session_peer_pid(session.kubelet_fd), 0);
	assert_true(startswith(session.visible.name, SESSION_SOCKET_PREFIX) != NULL);
	/* The watcher ignores the one on which the plugin serves. */
	assert_string_equal(
		startswith(session.socket.name, SESSION_HIDDEN_PREFIX), session.visible.name);
	for (size_t i = 0; i < 2; i++) {
		address = address_of(i == 0 ? session.visible.name : session.socket.name);
		assert_int_equal(stat(address.sun_path, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
		client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
		(void)close_fd(client);
	}
	assert_true(session_is_in_place(&session));
	assert_int_equal(unlink(address.sun_path), 0);
	assert_false(session_is_in_place(&session));
	address = address_of(session.visible.name);
	session_done(&session);
	assert_false(access(address.sun_path, F_OK) == 0);

	assert_int_equal(
		session_open_watched("/nonexistent", RESOURCE, instance, 2, &none, &error), -ENXIO);
	assert_non_null(strstr(error.message, "/nonexistent"));
	assert_int_equal(none.number, 0);
}

/* What a killed daemon left between binding and renaming. */
static void test_sweep_hidden(void **state)
{
	int dead = bind_at(".devplugd-dead-1.sock", true), other = bind_at(".other.sock", true);

	(void)close_fd(dead);
	(void)close_fd(other);
	assert_int_equal(session_sweep(directory, instance), 1);
	assert_false(exists(".devplugd-dead-1.sock"));
	assert_true(exists(".other.sock"));
}

static void test_longest_name(void **state)
{
	int kubelet = bind_at(KUBELET_SOCKET_NAME, true);
	struct session session = SESSION_INIT;

	assert_int_equal(open_session(UINT64_MAX, &session), 0);
	assert_non_null(strstr(session.socket.name, SESSION_SOCKET_SUFFIX));
	session_done(&session);
	assert_int_equal(
		session_open_watched(directory, RESOURCE, instance, UINT64_MAX, &session, NULL), 0);
	assert_non_null(strstr(session.socket.name, SESSION_SOCKET_SUFFIX));
	session_done(&session);
	(void)close_fd(kubelet);
}

static void test_other_socket_in_our_place(void **state)
{
	int kubelet = bind_at(KUBELET_SOCKET_NAME, true), stranger;
	struct session session = SESSION_INIT;
	char name[sizeof(session.socket.name)];

	assert_int_equal(open_session(1, &session), 0);
	(void)snprintf(name, sizeof(name), "%s", session.socket.name);
	assert_int_equal(unlink(address_of(name).sun_path), 0);
	/* The inode of the first must stay in use, or the second could get its number. */
	stranger = bind_at(name, true);
	session_done(&session);
	assert_true(exists(name));
	(void)close_fd(stranger);
	(void)close_fd(kubelet);
}

/* Fills the queue of a listening socket; the clients stay connected until the process ends. */
static void crowd(const char *name)
{
	struct sockaddr_un address = address_of(name);
	int fd, r;

	do {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		r = connect(fd, (struct sockaddr *)&address, sizeof(address));
	} while (r == 0);
	assert_int_equal(errno, EAGAIN);
	(void)close_fd(fd);
}

static void test_sweep(void **state)
{
	int kubelet = bind_at(KUBELET_SOCKET_NAME, true);
	int alive = bind_at("devplugd-alive-1.sock", true);
	int dead = bind_at("devplugd-dead-1.sock", true), foreign = bind_at("other.sock", true);
	int fd = open(address_of("devplugd-file-1.sock").sun_path, O_CREAT | O_CLOEXEC, 0600);
	int busy = bind_at("devplugd-busy-1.sock", true);

	crowd("devplugd-busy-1.sock");
	(void)close_fd(dead);
	(void)close_fd(foreign);
	(void)close_fd(fd);
	assert_int_equal(session_sweep(directory, instance), 1);
	assert_false(exists("devplugd-dead-1.sock"));
	assert_true(exists("devplugd-alive-1.sock"));
	assert_true(exists("devplugd-busy-1.sock"));
	assert_true(exists("other.sock"));
	assert_true(exists("devplugd-file-1.sock"));
	assert_true(exists(KUBELET_SOCKET_NAME));
	assert_int_equal(session_sweep("/nonexistent", instance), 0);
	(void)close_fd(alive);
	(void)close_fd(busy);
	(void)close_fd(kubelet);
}

static void test_path_too_long(void **state)
{
	struct session session = SESSION_INIT;
	char path[200];

	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(session_open(path, RESOURCE, instance, 1, &session, NULL), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_absent_kubelet, setup, teardown),
		cmocka_unit_test_setup_teardown(test_session, setup, teardown),
		cmocka_unit_test_setup_teardown(test_watched, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sweep_hidden, setup, teardown),
		cmocka_unit_test_setup_teardown(test_longest_name, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_socket_in_our_place, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sweep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_path_too_long, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
