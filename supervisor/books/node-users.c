/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts devplugd-node-users for a question, and takes its answer. The process is root's, but it is
 * not trusted more than others: it may send one message, in a bounded time.
 */
#include "supervisor/books/node-users.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/control-node-users.h"
#include "common/sealed.h"
#include "drivers/host/sysroot.h"
#include "supervisor/children/manager.h"
#include "supervisor/kubelet/session-sockets.h"
#include "supervisor/process/process.h"

#define PROGRAM "devplugd-node-users"

struct node_users {
	struct manager *manager;
	struct process process;
	sd_event_source *timer;
	node_users_handler handler; /* NULL: no question has to be answered */
	void *userdata;
};

static void finish(struct node_users *users, const char *user, const char *failure)
{
	node_users_handler handler = TAKE_PTR(users->handler);

	process_done(&users->process);
	(void)sd_event_source_set_enabled(users->timer, SD_EVENT_OFF);
	if (handler)
		handler(user, failure, users->userdata);
}

static void on_message(struct control_message *message, void *userdata)
{
	if (message->type == NODE_USERS_ANSWER)
		finish(userdata, message->text, "");
	else
		finish(userdata, NULL, message->text);
}

static void on_broken(const char *what, void *userdata)
{
	char failure[128];

	(void)snprintf(failure, sizeof(failure), PROGRAM " %s", what);
	finish(userdata, NULL, failure);
}

static void on_exit_of_process(const siginfo_t *info, void *userdata)
{
	struct node_users *users = userdata;

	(void)process_receive(&users->process);
	finish(users, NULL, PROGRAM " failed");
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	finish(userdata, NULL, PROGRAM " did not answer in time");
	return 0;
}

static const struct process_events process_events = {
	.on_message = on_message,
	.on_broken = on_broken,
	.on_exit = on_exit_of_process,
};

/* Writes the question. Returns the number of nodes, or negative errno. */
static int write_question(const char *root, const struct strings *paths, int fd)
{
	int n = 0;

	for (size_t i = 0; i < paths->count; i++) {
		struct stat st;

		if (sysroot_stat(root, paths->items[i], &st) < 0 ||
			(!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode)) ||
			strchr(paths->items[i], '\n'))
			continue;
		if (n == NODE_USERS_MAX)
			return -E2BIG;
		if (dprintf(fd, "%c %u:%u %s\n", S_ISBLK(st.st_mode) ? 'b' : 'c', major(st.st_rdev),
			    minor(st.st_rdev), paths->items[i]) < 0)
			return -ENOMEM;
		n++;
	}
	return n;
}

static int start(struct node_users *users, struct control_message *message, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int program = spawn_open_executable(PROGRAM, &path, error);
	const struct spawn_options options = {
		.executable_fd = program,
		.executable = path,
		.name = PROGRAM,
		.user = "root",
	};
	int r;

	if (program < 0)
		return program;
	r = process_start(&users->process, &options, error);
	if (r < 0)
		return r;
	r = control_send(users->process.control_fd, message);
	return r < 0 ? error_set(error, r, "cannot send to " PROGRAM ": %s", strerror(-r)) : 0;
}

/* Finds the kubelet, a process outside of any container; 0: not known. In a container, it must be
 * known: without it, the container might have a PID namespace of its own, where no process of the
 * host is found. Returns 0, or negative errno with the error filled. */
static int find_kubelet(const struct manager *manager, pid_t *ret, struct error *error)
{
	const struct config *config = manager->config;
	_cleanup_close_ int fd = -EBADF;
	int r = session_connect(config->kubelet.device_plugin_dir, KUBELET_SOCKET_NAME, &fd);

	if (r < 0 && !streq(config->host_root, "/"))
		return error_set(error, r,
			"it is not known whether devplugd sees the processes of the host, because the kubelet does not answer: %s",
			strerror(-r));
	*ret = session_peer_pid(fd);
	if (r >= 0 && *ret == 0)
		return error_set(error, -EPERM,
			"devplugd may not see which processes have the device open: it lacks the processes of the host; set hostPID: true in the pod (docs/repair.md)");
	return 0;
}

bool node_users_is_busy(const struct node_users *users)
{
	return users->handler;
}

int node_users_ask(struct node_users *users, const char *root, const struct strings *paths,
	node_users_handler handler, void *userdata, struct error *error)
{
	_cleanup_control_ struct control_message message =
		NODE_USERS_MESSAGE_INIT(NODE_USERS_QUESTION);
	pid_t kubelet = 0;
	int r;

	assert(!node_users_is_busy(users));
	message.fds[0] = sealed_begin("node-users");
	r = message.fds[0] < 0 ? message.fds[0] : write_question(root, paths, message.fds[0]);
	if (r == 0)
		return 0;
	if (r == -E2BIG)
		return error_set(error, r,
			"it has more than %d device nodes, so it is not known which processes have it open",
			NODE_USERS_MAX);
	if (r >= 0)
		r = sealed_end(message.fds[0]);
	if (r < 0)
		return error_set(error, r, "cannot ask " PROGRAM ": %s", strerror(-r));
	r = find_kubelet(users->manager, &kubelet, error);
	if (r < 0)
		return r;
	message.peer = (uint64_t)kubelet;
	r = start(users, &message, error);
	if (r < 0) {
		process_done(&users->process);
		return r;
	}
	users->handler = handler;
	users->userdata = userdata;
	(void)sd_event_source_set_time_relative(users->timer, NODE_USERS_TIMEOUT);
	(void)sd_event_source_set_enabled(users->timer, SD_EVENT_ONESHOT);
	return 1;
}

int node_users_new(struct manager *manager, struct node_users **ret)
{
	_cleanup_(node_users_freep) struct node_users *users = calloc(1, sizeof(*users));
	int r;

	if (!users)
		return -ENOMEM;
	users->manager = manager;
	process_init(&users->process, manager->event, &control_node_users, PROGRAM, &process_events,
		users);
	r = sd_event_add_time(manager->event, &users->timer, CLOCK_MONOTONIC, USEC_INFINITY,
		USEC_PER_SEC, on_timeout, users);
	if (r >= 0)
		r = sd_event_source_set_enabled(users->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(users);
	return 0;
}

struct node_users *node_users_free(struct node_users *users)
{
	if (!users)
		return NULL;
	process_done(&users->process);
	sd_event_source_disable_unref(users->timer);
	free(users);
	return NULL;
}
