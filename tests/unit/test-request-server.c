/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket against clients that send garbage, too much, or nothing, and that do not read:
 * each gets an error or is disconnected, and the others are served.
 */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/request-message.h"
#include "common/sealed.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/control/events.h"
#include "supervisor/control/request-server.h"
#include "supervisor/control/request.h"
#include "supervisor/files/published-files.h"
#include "supervisor/files/runtime-files.h"
#include "tests/unit/lingering-fixture.h"

static const char status_text[] = "{\"version\":1,\"verb\":\"status\"}";

static char directory[64];
static struct config config;
static struct manager manager;

static int setup(void **state)
{
	(void)snprintf(directory, sizeof(directory), "/tmp/test-request-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	config = (struct config){ .runtime_dir = directory };
	manager = (struct manager){
		.config = &config,
		.config_file = "/etc/devplugd.conf",
		.generation = 7,
		.stopping = true, /* a reload is refused */
	};
	if (sd_event_new(&manager.event) < 0 ||
		runtime_files_open(directory, &manager.files, NULL) < 0)
		return -1;
	if (events_new(&manager, &manager.events) < 0)
		return -1;
	return request_server_new(&manager, &manager.requests, NULL);
}

static int teardown(void **state)
{
	char command[128];

	manager.requests = request_server_free(manager.requests);
	manager.events = events_free(manager.events);
	manager.files = runtime_files_free(manager.files);
	manager.event = sd_event_unref(manager.event);
	(void)snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

/* Lets the server do all that it can do now. */
static void turn(void)
{
	while (sd_event_run(manager.event, 0) > 0)
		;
}

static int open_client(void)
{
	int fd = request_connect(runtime_files_directory(manager.files), REQUEST_SOCKET, 10, 10);

	assert_true(fd >= 0);
	turn();
	return fd;
}

static void send_text(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	turn();
}

/* The answer to the text; the caller's. */
static json_t *ask(int fd, const char *text)
{
	_cleanup_free_ char *answer = NULL;
	json_t *document;
	size_t size;

	send_text(fd, text);
	assert_int_equal(request_receive_answer(fd, &answer, &size), 0);
	document = json_loadb(answer, size, 0, NULL);
	assert_true(json_is_object(document));
	assert_int_equal(json_integer_value(json_object_get(document, "version")), 1);
	return document;
}

/* --- devices --- */

#define N_CHILDREN 400

static void ignore_edits(const struct child *child, struct control_message *message, void *userdata)
{
}

static bool ignore_cleaning(
	struct child *child, const struct control_message *message, void *userdata)
{
	return true;
}

/* Resources without a process, with a document of devices each. */
static void add_children(struct child_host *host)
{
	static char names[N_CHILDREN][32];
	static struct resource_config configs[N_CHILDREN];

	*host = (struct child_host){ .event = manager.event,
		.files = manager.files,
		.on_edits = ignore_edits,
		.on_cleaning = ignore_cleaning };
	assert_int_equal(arbiter_new(host->event, &host->arbiter), 0);
	assert_int_equal(published_new(directory, &host->published), 0);
	manager.children = calloc(N_CHILDREN, sizeof(struct child *));
	assert_non_null(manager.children);
	for (size_t i = 0; i < N_CHILDREN; i++) {
		char text[32];

		(void)snprintf(names[i], sizeof(names[i]), "vendor.example/r%zu", i);
		(void)snprintf(text, sizeof(text), "{\"number\":%zu}", i);
		configs[i] = (struct resource_config){
			.declaration = { .name = names[i], .driver_name = (char *)"static" },
			.text = (char *)"",
		};
		assert_int_equal(child_new(host, &configs[i], &manager.children[i]), 0);
		/* One has none. */
		if (i != 1)
			manager.children[i]->devices_fd = sealed_new("d", text, strlen(text));
		manager.n_children++;
	}
}

static void remove_children(struct child_host *host)
{
	for (size_t i = 0; i < N_CHILDREN; i++)
		(void)child_free(manager.children[i]);
	free(manager.children);
	manager.children = NULL;
	manager.n_children = 0;
	host->published = published_free(host->published);
	host->arbiter = arbiter_free(host->arbiter);
}

static void assert_served(int fd)
{
	json_t *document = ask(fd, status_text);

	assert_int_equal(json_integer_value(json_object_get(document, "generation")), 7);
	json_decref(document);
}

static void assert_disconnected(int fd)
{
	char byte;

	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
	(void)close_fd(fd);
}

static const char devices_text[] = "{\"version\":1,\"verb\":\"status\",\"devices\":true}";

/* Receives a document. Returns whether there was one; else it was the end. */
static bool receive_devices(int fd, size_t expected)
{
	_cleanup_free_ char *text = NULL;
	char packet[REQUEST_MAX + 1], name[64], content[64];
	size_t size;
	int r;

	r = request_receive_devices(fd, packet, &text, &size);
	turn();
	assert_true(r >= 0);
	if (r == 0)
		return false;
	(void)snprintf(name, sizeof(name), "{\"resource\":\"vendor.example/r%zu\"}", expected);
	(void)snprintf(content, sizeof(content), "{\"number\":%zu}", expected);
	assert_string_equal(packet, name);
	assert_string_equal(text, content);
	return true;
}

static int open_descriptors(void)
{
	DIR *stream = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(stream);
	while (readdir(stream))
		n++;
	(void)closedir(stream);
	return n;
}

/* As the client reads; only some wait in its socket, and others are served meanwhile. */
static void test_devices_follow(void **state)
{
	struct child_host host;
	json_t *answer;
	int fd, other, before, waiting;

	add_children(&host);
	fd = open_client();
	other = open_client();
	before = open_descriptors();
	answer = ask(fd, devices_text);
	assert_true(json_is_true(json_object_get(answer, "devices_follow")));
	assert_int_equal(json_array_size(json_object_get(answer, "resources")), N_CHILDREN);
	json_decref(answer);
	assert_served(other);
	for (size_t i = 0; i < N_CHILDREN; i++)
		if (i != 1)
			assert_true(receive_devices(fd, i));
	assert_false(receive_devices(fd, 0));
	assert_served(fd);
	assert_int_equal(open_descriptors(), before);

	/* None of them is closed here before it is read, so a client must not have too many. */
	json_decref(ask(fd, devices_text));
	for (unsigned i = 0; i < 10; i++)
		turn();
	for (waiting = 0; recv(fd, &(char){ 0 }, 1, MSG_DONTWAIT) > 0; waiting++)
		;
	assert_in_range(waiting, 10, 200);
	(void)close_fd(fd);
	(void)close_fd(other);
	turn();
	remove_children(&host);
}

/* While they are sent, the client leaves, or resources go. */
static void test_devices_that_are_cut_short(void **state)
{
	struct child_host host;
	size_t n = 0;
	int fd;

	add_children(&host);
	for (unsigned i = 0; i < 2 * REQUEST_CLIENTS_MAX; i++) {
		fd = open_client();
		json_decref(ask(fd, devices_text));
		(void)close_fd(fd);
		turn();
	}
	fd = open_client();
	json_decref(ask(fd, devices_text));
	manager.n_children = 2;
	while (receive_devices(fd, n > 0 ? n + 1 : 0))
		n++;
	assert_in_range(n, 1, N_CHILDREN - 2);
	assert_served(fd);
	(void)close_fd(fd);
	turn();
	remove_children(&host);
}

static void test_answers_one_after_another(void **state)
{
	int fd = open_client();

	assert_served(fd);
	assert_served(fd);
	(void)close_fd(fd);
	turn();
}

static void test_refuses_what_is_no_request(void **state)
{
	static const struct {
		const char *text, *number;
	} cases[] = {
		{ "hello", "EPROTO" },
		{ "[1]", "EPROTO" },
		{ "{}", "EPROTO" },
		{ "{\"version\":2,\"verb\":\"status\"}", "EPROTO" },
		{ "{\"version\":1,\"version\":1,\"verb\":\"status\"}", "EPROTO" },
		{ "{\"version\":1}", "EOPNOTSUPP" },
		{ "{\"version\":1,\"verb\":7}", "EOPNOTSUPP" },
		{ "{\"version\":1,\"verb\":\"Status\"}", "EOPNOTSUPP" },
		{ "{\"version\":1,\"verb\":\"reload\"}", "ESHUTDOWN" },
		/* 63 letters and one of two bytes, which the message cuts. */
		{ "{\"version\":1,\"verb\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		  "aaaaaaaaaaaaaaa\u00e4\"}",
			"EOPNOTSUPP" },
	};
	int fd = open_client();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *document = ask(fd, cases[i].text);

		assert_string_equal(
			json_string_value(json_object_get(document, "errno")), cases[i].number);
		assert_non_null(json_string_value(json_object_get(document, "error")));
		json_decref(document);
	}
	assert_served(fd);
	(void)close_fd(fd);
}

static void test_disconnects_who_sends_too_much(void **state)
{
	char text[REQUEST_MAX + 2];
	int fd = open_client(), other = open_client();

	memset(text, ' ', sizeof(text));
	memcpy(text, status_text, strlen(status_text));
	text[REQUEST_MAX] = '\0';
	assert_served(fd);
	json_decref(ask(fd, text));
	text[REQUEST_MAX] = ' ';
	text[REQUEST_MAX + 1] = '\0';
	send_text(fd, text);
	assert_disconnected(fd);
	assert_served(other);
	(void)close_fd(other);
}

static bool send_with(int fd, int descriptor)
{
	struct iovec iov = { .iov_base = (void *)status_text, .iov_len = strlen(status_text) };
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &descriptor, sizeof(int));
	return sendmsg(fd, &msg, MSG_NOSIGNAL) >= 0;
}

/* The test ends by its time limit if a close() is waited for. */
static void test_descriptors_that_block(void **state)
{
	int fd = open_client(), unread = open_client(), other = open_client();
	int peer, descriptor = lingering_socket(&peer);

	if (!send_with(fd, descriptor)) {
		/* Since Linux 6.16 it cannot even be sent. */
		assert_int_equal(errno, EPERM);
		(void)close_fd(peer);
		(void)close_fd(descriptor);
		(void)close_fd(fd);
		(void)close_fd(unread);
		turn();
		assert_served(other);
		(void)close_fd(other);
		return;
	}
	/* The second one is not read before the end of its client. */
	(void)send_with(unread, descriptor);
	(void)send_with(unread, descriptor);
	(void)close_fd(descriptor); /* it is not the last one */
	turn();
	assert_disconnected(fd);
	assert_disconnected(unread);
	assert_served(other);
	(void)close_fd(other);
	(void)close_fd(peer);
}

static void test_disconnects_who_does_not_read(void **state)
{
	int fd = open_client(), other;
	unsigned sent = 0;

	/* Its socket takes some hundred answers. */
	while (send(fd, status_text, strlen(status_text), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
		assert_true(++sent < 100000);
		(void)sd_event_run(manager.event, 10000);
	}
	other = open_client();
	assert_served(other);
	(void)close_fd(fd);
	(void)close_fd(other);
}

static void test_bounds_clients(void **state)
{
	int fds[REQUEST_CLIENTS_MAX], one_more;

	for (size_t i = 0; i < REQUEST_CLIENTS_MAX; i++)
		fds[i] = open_client();
	one_more = open_client();
	assert_disconnected(one_more);
	assert_served(fds[0]);
	assert_served(fds[REQUEST_CLIENTS_MAX - 1]);
	(void)close_fd(fds[3]);
	turn();
	one_more = open_client();
	assert_served(one_more);
	(void)close_fd(one_more);
	for (size_t i = 0; i < REQUEST_CLIENTS_MAX; i++)
		if (i != 3)
			(void)close_fd(fds[i]);
	turn();
}

static void test_replaces_a_socket_that_was_left(void **state)
{
	int fd;

	/* As a daemon that was killed leaves it. */
	manager.requests = request_server_free(manager.requests);
	(void)close_fd(request_bind(runtime_files_directory(manager.files), REQUEST_SOCKET));
	assert_int_equal(
		request_connect(runtime_files_directory(manager.files), REQUEST_SOCKET, 10, 10),
		-ECONNREFUSED);
	assert_int_equal(request_server_new(&manager, &manager.requests, NULL), 0);
	fd = open_client();
	assert_served(fd);
	(void)close_fd(fd);
}

static void test_is_private(void **state)
{
	static const char *const names[] = { REQUEST_SOCKET, REQUEST_VIEW_SOCKET };
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(
			fstatat(runtime_files_directory(manager.files), names[i], &st, 0), 0);
		assert_true(S_ISSOCK(st.st_mode));
		assert_int_equal(st.st_mode & (i == 0 ? 077 : 07), 0);
	}
	manager.requests = request_server_free(manager.requests);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(
			fstatat(runtime_files_directory(manager.files), names[i], &st, 0), -1);
	assert_int_equal(request_server_new(&manager, &manager.requests, NULL), 0);
}

/* In a process that is neither root nor the daemon's user; returns what it exits with. */
static int as_another_user(int (*step)(void))
{
	char path[96];
	int status;
	pid_t pid;

	/* As with the group, whose users have no other way in. */
	(void)snprintf(path, sizeof(path), "%s/%s", directory, REQUEST_VIEW_SOCKET);
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(chmod(path, 0666), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(setgid(65534) < 0 || setuid(65534) < 0 ? 99 : step());
	while (waitpid(pid, &status, WNOHANG) == 0)
		(void)sd_event_run(manager.event, 10000);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static int try_verbs(void)
{
	static const char reload_text[] = "{\"version\":1,\"verb\":\"reload\"}";
	int fd = request_connect(
		runtime_files_directory(manager.files), REQUEST_VIEW_SOCKET, 10, 10);
	_cleanup_free_ char *reloaded = NULL, *status = NULL;
	size_t size;

	if (request_send(fd, reload_text, strlen(reload_text)) < 0 ||
		request_receive_answer(fd, &reloaded, &size) < 0 || !strstr(reloaded, "EPERM"))
		return 1;
	if (request_send(fd, status_text, strlen(status_text)) < 0 ||
		request_receive_answer(fd, &status, &size) < 0 || strstr(status, "errno"))
		return 2;
	return 0;
}

static int take_all_places(void)
{
	int fds[REQUEST_OTHER_CLIENTS_MAX + 1];
	char byte;

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = request_connect(
			runtime_files_directory(manager.files), REQUEST_VIEW_SOCKET, 10, 10);
	return recv(fds[REQUEST_OTHER_CLIENTS_MAX], &byte, 1, 0) == 0 &&
			recv(fds[0], &byte, 1, MSG_DONTWAIT) < 0
		? 0
		: 1;
}

/* More than 16 clients with 50 requests a second each would be allowed, and fewer than 50 in all.
 */
#define ASKED     100
#define ASKED_MIN ((ASKED - 1) * USEC_PER_SEC / REQUEST_RATE)

static int ask_much(void)
{
	int fds[REQUEST_OTHER_CLIENTS_MAX];
	uint64_t begun = now_usec(CLOCK_MONOTONIC);

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = request_connect(
			runtime_files_directory(manager.files), REQUEST_VIEW_SOCKET, 10, 60);
	for (size_t i = 0; i < ASKED; i++)
		if (request_send(fds[i % ARRAY_SIZE(fds)], status_text, strlen(status_text)) < 0)
			return 1;
	for (size_t i = 0; i < ASKED; i++) {
		_cleanup_free_ char *answer = NULL;
		size_t size;

		if (request_receive_answer(fds[i % ARRAY_SIZE(fds)], &answer, &size) < 0)
			return 2;
	}
	return now_usec(CLOCK_MONOTONIC) < begun + ASKED_MIN ? 3 : 0;
}

/* As the one that waits for its turn longest, several that leave meanwhile, and one that stays. */
static int leave_while_waiting(void)
{
	_cleanup_free_ char *answer = NULL;
	size_t size;
	int fd;

	for (size_t i = 0; i < 100; i++) {
		fd = request_connect(
			runtime_files_directory(manager.files), REQUEST_VIEW_SOCKET, 10, 60);
		if (fd < 0)
			return 1;
		(void)request_send(fd, status_text, strlen(status_text));
		(void)close(fd);
	}
	/* No place is free before their turns. */
	do {
		fd = request_connect(
			runtime_files_directory(manager.files), REQUEST_VIEW_SOCKET, 10, 60);
		if (fd < 0)
			return 2;
	} while (request_send(fd, status_text, strlen(status_text)) < 0 ||
		request_receive_answer(fd, &answer, &size) < 0);
	return strstr(answer, "errno") ? 3 : 0;
}

static void test_others_may_only_read(void **state)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(as_another_user(try_verbs), 0);
}

static void test_others_leave_places_for_root(void **state)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(as_another_user(take_all_places), 0);
}

static void test_others_share_their_requests(void **state)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(as_another_user(ask_much), 0);
}

static void test_others_that_leave(void **state)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(as_another_user(leave_while_waiting), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_answers_one_after_another),
		TEST(test_devices_follow),
		TEST(test_devices_that_are_cut_short),
		TEST(test_refuses_what_is_no_request),
		TEST(test_disconnects_who_sends_too_much),
		TEST(test_descriptors_that_block),
		TEST(test_disconnects_who_does_not_read),
		TEST(test_bounds_clients),
		TEST(test_replaces_a_socket_that_was_left),
		TEST(test_is_private),
		TEST(test_others_may_only_read),
		TEST(test_others_leave_places_for_root),
		TEST(test_others_share_their_requests),
		TEST(test_others_that_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
