/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter as a program, against a supervisor whose answers come too late.
 */
#include <poll.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/control-exporter.h"
#include "common/sealed.h"

#define PATIENCE_MSEC 60000
#define ANSWER_SIZE   65536

static pid_t start_exporter(int control)
{
	char path[4096], *argv[] = { path, NULL };
	posix_spawn_file_actions_t actions;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	pid_t pid;

	assert_true(n > 0);
	path[n] = '\0';
	(void)strcpy(strrchr(path, '/') + 1, "devplugd-exporter");
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	assert_int_equal(posix_spawn_file_actions_adddup2(&actions, control, CONTROL_FD), 0);
	assert_int_equal(posix_spawn(&pid, path, &actions, NULL, argv, environ), 0);
	(void)posix_spawn_file_actions_destroy(&actions);
	return pid;
}

/* --- the supervisor --- */

static void send_text(int control, uint32_t type, const char *about, const char *text)
{
	_cleanup_control_ struct control_message message = EXPORTER_MESSAGE_INIT(type);

	message.fds[0] = sealed_new("text", text, strlen(text));
	assert_true(message.fds[0] >= 0);
	(void)strcpy(message.text, about);
	assert_int_equal(control_send(control, &message), 0);
}

static void send_pods(int control)
{
	send_text(control, EXPORTER_PODS, "", "container\tteam\ttrain\tmain\t\n");
}

static void send_state(int control)
{
	send_text(control, EXPORTER_STATE, "",
		"{\"version\":\"1\",\"pods_wanted\":1,\"resources\":[{\"name\":\"a/x\"}]}");
}

static void send_devices(int control)
{
	send_text(control, CONTROL_INVENTORY, "a/x",
		"{\"devices\":[{\"id\":\"x-0\",\"health\":\"Healthy\"}]}\n");
}

/* Has the exporter listen on a new socket. */
static void configure(int control, struct sockaddr_un *ret_address, socklen_t *ret_size)
{
	static const char settings[] =
		"{\"textfile\":false,\"interval_usec\":1000000,\"pods\":true}";
	_cleanup_control_ struct control_message message =
		EXPORTER_MESSAGE_INIT(EXPORTER_CONFIGURE);
	const sa_family_t family = AF_UNIX;

	message.fds[0] = sealed_new("settings", settings, strlen(settings));
	message.fds[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(message.fds[0] >= 0 && message.fds[1] >= 0);
	/* The kernel chooses the name. */
	assert_int_equal(bind(message.fds[1], (const void *)&family, sizeof(family)), 0);
	*ret_size = sizeof(*ret_address);
	assert_int_equal(getsockname(message.fds[1], (void *)ret_address, ret_size), 0);
	assert_int_equal(listen(message.fds[1], 4), 0);
	assert_int_equal(control_send(control, &message), 0);
}

static void await_scrape(int control)
{
	struct pollfd pollfd = { .fd = control, .events = POLLIN };
	int r;

	for (;;) {
		_cleanup_control_ struct control_message message = EXPORTER_MESSAGE_INIT(0);

		r = control_receive_from_child(control, &control_exporter, &message);
		if (r >= 0 && message.type == EXPORTER_SCRAPE)
			return;
		assert_true(r >= 0 || r == -EAGAIN);
		assert_int_equal(poll(&pollfd, 1, PATIENCE_MSEC), 1);
	}
}

/* --- Prometheus --- */

/* On a socket of its own, so that the exporter has read all that was sent before. */
static int ask(int control)
{
	static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t size;

	assert_true(fd >= 0);
	configure(control, &address, &size);
	assert_int_equal(connect(fd, (const void *)&address, size), 0);
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	return fd;
}

static bool is_refusal(const char *answer)
{
	return startswith(answer, "HTTP/1.0 503 ") || startswith(answer, "HTTP/1.1 503 ");
}

static void read_answer(int fd, char ret[static ANSWER_SIZE])
{
	size_t size = 0;
	ssize_t n;

	while (size < ANSWER_SIZE - 1 && (n = read(fd, ret + size, ANSWER_SIZE - 1 - size)) > 0)
		size += (size_t)n;
	ret[size] = '\0';
	(void)close(fd);
}

#define UNITS "\ndevplugd_resource_units{resource=\"a/x\",state=\"healthy\"} 1\n"

/* One scrape that is answered, with pods and devices or without. */
static void scrape(int control, bool whole, const char *expected)
{
	char answer[ANSWER_SIZE];
	int client;

	do {
		client = ask(control);
		await_scrape(control);
		if (whole) {
			send_pods(control);
			send_devices(control);
		}
		send_state(control);
		read_answer(client, answer);
		/* This process may have had to wait for a processor. */
	} while (is_refusal(answer));
	if (!strstr(answer, expected))
		fail_msg("\"%s\" is not in: %s", expected, answer);
	assert_int_equal(strstr(answer, UNITS) != NULL, whole);
}

/* --- --- */

/* The exporter gives up before devplugd answers. The pods and devices of that answer are not those
 * of the next one, which has none. */
static void test_late_answer(void **state)
{
	const struct control_message stop = EXPORTER_MESSAGE_INIT(CONTROL_STOP);
	char answer[ANSWER_SIZE];
	int control[2], client, status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
	pid = start_exporter(control[1]);
	(void)close(control[1]);
	client = ask(control[0]);
	await_scrape(control[0]);
	read_answer(client, answer);
	assert_true(is_refusal(answer));
	send_pods(control[0]);
	send_devices(control[0]);
	send_state(control[0]);

	scrape(control[0], false, "\ndevplugd_pod_resources_up 0\n");
	scrape(control[0], true, "\ndevplugd_pod_resources_up 1\n");
	assert_int_equal(control_send(control[0], &stop), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(control[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_answer),
	};

	/* As the supervisor does; without it an ordinary user cannot set up the sandbox. */
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
