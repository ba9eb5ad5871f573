/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of pod resources as a program, against a kubelet that refuses, is silent, or has a
 * very long answer.
 */
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/control-pods.h"
#include "common/pod-table.h"
#include "common/spawn-request.h"
#include "kubelet/server-end.h"
#include "podresources.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/rpc.h"

static sd_event *event;
static struct rpc_server *server;
static atomic_uint calls, refusals_left;
/* What the list has: by default little. */
static size_t n_listed = 2, id_size = 5;
static atomic_bool is_silent;
static struct rpc_call *_Atomic unanswered;

/* --- the kubelet --- */

/* `n` devices in one container, with a line of the kubelet's message for each. */
static void reply_devices(struct rpc_call *call, size_t n)
{
	V1__ListPodResourcesResponse response = V1__LIST_POD_RESOURCES_RESPONSE__INIT;
	V1__PodResources pod = V1__POD_RESOURCES__INIT, *pods[] = { &pod };
	V1__ContainerResources container = V1__CONTAINER_RESOURCES__INIT;
	V1__ContainerResources *containers[] = { &container };
	V1__ContainerDevices one = V1__CONTAINER_DEVICES__INIT, **list = calloc(n, sizeof(*list));
	char *id = calloc(1, id_size + 1), *ids[] = { id };

	memset(id, 'x', id_size);
	one.resource_name = (char *)"vendor.example/gpu";
	one.device_ids = ids;
	one.n_device_ids = 1;
	for (size_t i = 0; i < n; i++)
		list[i] = &one;
	container.name = (char *)"main";
	container.devices = list;
	container.n_devices = n;
	pod.name = (char *)"pod";
	pod.namespace_ = (char *)"default";
	pod.containers = containers;
	pod.n_containers = 1;
	response.pod_resources = pods;
	response.n_pod_resources = 1;
	message_reply(call, &response.base);
	free(list);
	free(id);
}

static void on_list(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	calls++;
	if (is_silent) {
		unanswered = call;
	} else if (refusals_left > 0) {
		refusals_left--;
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "in the words of any kubelet");
	} else {
		reply_devices(call, n_listed);
	}
}

static void on_allocatable(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	calls++;
	rpc_fail(call, RPC_UNKNOWN, "not that one");
}

static const struct rpc_method methods[] = {
	{ .path = METHOD_POD_RESOURCES_LIST, .on_call = on_list },
	{ .path = METHOD_POD_RESOURCES_GET_ALLOCATABLE, .on_call = on_allocatable },
};

static int setup(void **state)
{
	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(rpc_start(), 0);
	assert_int_equal(rpc_server_new(event, methods, ARRAY_SIZE(methods), NULL, &server), 0);
	return 0;
}

static int teardown(void **state)
{
	server_end(server);
	rpc_stop();
	sd_event_unref(event);
	return 0;
}

/* --- the reader --- */

static pid_t start_reader(int control)
{
	char path[4096], *slash, *argv[] = { path, (char *)POD_READER_NAME, NULL };
	posix_spawn_file_actions_t actions;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	pid_t pid;

	assert_true(n > 0);
	path[n] = '\0';
	slash = strrchr(path, '/');
	(void)strcpy(slash + 1, "devplugd-plugin");
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	assert_int_equal(posix_spawn_file_actions_adddup2(&actions, control, CONTROL_FD), 0);
	assert_int_equal(posix_spawn(&pid, path, &actions, NULL, argv, environ), 0);
	(void)posix_spawn_file_actions_destroy(&actions);
	return pid;
}

/* The loop is turned because the server learns of the end of a connection there. */
static void await_message(int fd, struct control_message *message)
{
	int r;

	while ((r = control_receive_from_child(fd, &control_pods, message)) == -EAGAIN)
		assert_true(sd_event_run(event, 10 * USEC_PER_MSEC) >= 0);
	assert_int_equal(r, 0);
}

static void ask(const char *question, struct control_message *ret)
{
	struct control_message message = PODS_MESSAGE_INIT(PODS_QUESTION);
	int control[2], kubelet[2], status;
	pid_t pid;

	*ret = PODS_MESSAGE_INIT(0);
	calls = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, kubelet), 0);
	assert_int_equal(rpc_server_add(server, kubelet[0], 1), 0);
	pid = start_reader(control[1]);
	(void)close(control[1]);
	(void)strcpy(message.text, question);
	message.fds[0] = kubelet[1];
	assert_int_equal(control_send(control[0], &message), 0);
	(void)close(kubelet[1]);
	await_message(control[0], ret);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(control[0]);
}

static void assert_answer(const struct control_message *message, size_t n_devices)
{
	_cleanup_(pod_table_freep) struct pod_table *table = NULL;

	assert_int_equal(message->type, PODS_ANSWER);
	assert_int_equal(pod_table_read(message->fds[0], &table), 0);
	assert_int_equal(table->n_devices, n_devices);
}

static void assert_failure(const struct control_message *message, const char *text)
{
	assert_int_equal(message->type, PODS_REFUSED);
	assert_string_equal(message->text, text);
}

static void test_rate_limit(void **state)
{
	_cleanup_control_ struct control_message message;

	refusals_left = 2;
	ask(POD_QUESTION_LIST, &message);
	assert_answer(&message, 2);
	assert_int_equal(calls, 3);
}

/* One device less and one more than 16 MiB have room for, with 64 bytes for each on the wire. */
static void test_large(void **state)
{
	struct control_message message;

	id_size = 64 - 24;
	n_listed = RPC_REQUEST_MAX / 64 - 1;
	ask(POD_QUESTION_LIST, &message);
	assert_answer(&message, n_listed);
	control_message_done(&message);
	n_listed += 2;
	ask(POD_QUESTION_LIST, &message);
	assert_failure(&message, "the kubelet's answer is larger than 16 MiB");
	assert_int_equal(calls, 1);
}

static void test_failure(void **state)
{
	_cleanup_control_ struct control_message message;

	ask(POD_QUESTION_ALLOCATABLE, &message);
	assert_failure(&message, "not that one");
	assert_int_equal(calls, 1);
}

/* gRPC's own timers are up to 50 s late in this program. */
static void test_silent(void **state)
{
	_cleanup_control_ struct control_message message;
	uint64_t begin = now_usec(CLOCK_MONOTONIC);

	is_silent = true;
	ask(POD_QUESTION_LIST, &message);
	assert_failure(&message, "the kubelet did not answer within 8 s");
	assert_true(now_usec(CLOCK_MONOTONIC) - begin >= POD_READER_DEADLINE);
	is_silent = false;
	rpc_fail(unanswered, RPC_UNAVAILABLE, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate_limit),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_failure),
		cmocka_unit_test(test_silent),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
