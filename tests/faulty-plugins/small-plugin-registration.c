/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers whenever no stream lives: driven by the streams, with a timer as the only clock. A new
 * socket for each attempt, so that a kubelet can distinguish attempts. The faults of this file are
 * those of plugins that follow files instead.
 */
#include "small-plugin.h"

#include <limits.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "deviceplugin.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"

#define RETRY (30 * USEC_PER_MSEC)
/* How long a kubelet may take from its answer to the stream. */
#define STREAM_WAIT (5 * USEC_PER_SEC)

static int set_address(const struct plugin *plugin, const char *name, struct sockaddr_un *address)
{
	int n;

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(address->sun_path, sizeof(address->sun_path), "%s/%s", plugin->dir, name);
	return n < 0 || (size_t)n >= sizeof(address->sun_path) ? -ENAMETOOLONG : 0;
}

static int connect_kubelet(const struct plugin *plugin, int *ret_fd)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;

	if (fd < 0 || set_address(plugin, "kubelet.sock", &address) < 0)
		return -EINVAL;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct plugin *plugin = userdata;
	struct ucred peer = {};
	socklen_t size = sizeof(peer);
	int connected = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	/* Waits for its own Register call to end, which waits for this. */
	if (plugin->fault == FAULT_SERVES_AFTER_REGISTER && plugin->kubelet) {
		close_fd(connected);
		return 0;
	}
	if (connected < 0)
		return 0;
	if (plugin->fault != FAULT_SERVES_ANYBODY &&
		(getsockopt(connected, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
			peer.uid != geteuid())) {
		close_fd(connected);
		return 0;
	}
	(void)rpc_server_add(plugin->server, connected, plugin->session);
	return 0;
}

static void unbind(struct plugin *plugin)
{
	struct sockaddr_un address;

	plugin->accept_source = sd_event_source_disable_unref(plugin->accept_source);
	plugin->listen_fd = close_fd(plugin->listen_fd);
	if (plugin->bound && set_address(plugin, plugin->endpoint, &address) >= 0)
		(void)unlink(address.sun_path);
	plugin->bound = false;
}

static int bind_endpoint(struct plugin *plugin)
{
	struct sockaddr_un address;
	int fd;

	/* Believes that its socket is still where it was. */
	if (plugin->fault == FAULT_KEEPS_SOCKET && plugin->bound)
		return 0;
	unbind(plugin);
	plugin->session++;
	plugin->streams = 0;
	(void)snprintf(plugin->endpoint, sizeof(plugin->endpoint), "test.%d.%llu.sock",
		(int)getpid(), (unsigned long long)plugin->session);
	if (set_address(plugin, plugin->endpoint, &address) < 0)
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	plugin->listen_fd = fd;
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(fd, SOMAXCONN) < 0)
		return -errno;
	plugin->bound = true;
	if (plugin->fault == FAULT_SERVES_ANYBODY)
		(void)chmod(address.sun_path, 0777);
	return sd_event_add_io(
		plugin->event, &plugin->accept_source, fd, EPOLLIN, on_accept, plugin);
}

/* The answer of a Register call. */
struct answer {
	struct mailbox_message base;
	struct plugin *plugin;
	unsigned socket; /* plugin->sockets when the call was made */
	unsigned ended;  /* plugin->ended then: the answer can come after the end of the stream */
	int status;
};

static void try_later(struct plugin *plugin);

static void deliver_answer(struct mailbox_message *posted, void *userdata)
{
	struct answer *answer = (struct answer *)posted;
	struct plugin *plugin = answer->plugin;

	if (userdata) {
		plugin->kubelet = rpc_client_free(plugin->kubelet);
		plugin->registered = answer->status == RPC_OK &&
			answer->socket == plugin->sockets && answer->ended == plugin->ended;
		if (answer->status == RPC_UNKNOWN && plugin->fault == FAULT_GIVES_UP)
			(void)sd_event_exit(plugin->event, 1);
		else if (plugin->streams == 0)
			try_later(plugin);
	}
	free(answer);
}

static void on_answer(const struct rpc_result *result, void *userdata)
{
	struct answer *answer = userdata;

	answer->status = result->status;
	mailbox_post(answer->plugin->mailbox, &answer->base);
}

static int send_register(struct plugin *plugin)
{
	V1beta1__RegisterRequest request = V1BETA1__REGISTER_REQUEST__INIT;
	_cleanup_free_ uint8_t *data = NULL;
	struct answer *answer;
	size_t size;
	int r;

	request.version = (char[]){ DEVICE_PLUGIN_VERSION };
	request.endpoint = plugin->endpoint;
	request.resource_name = (char *)(uintptr_t)plugin->resource;
	answer = calloc(1, sizeof(*answer));
	if (!answer || message_pack(&request.base, &data, &size) < 0)
		abort();
	answer->base.deliver = deliver_answer;
	answer->plugin = plugin;
	answer->socket = plugin->sockets;
	answer->ended = plugin->ended;
	r = rpc_client_call(plugin->kubelet, METHOD_REGISTER, data, size, on_answer, answer);
	if (r < 0)
		free(answer);
	return r;
}

static void register_now(struct plugin *plugin)
{
	_cleanup_close_ int fd = -EBADF;

	if (plugin->kubelet || connect_kubelet(plugin, &fd) < 0 || bind_endpoint(plugin) < 0 ||
		rpc_client_new(TAKE_FD(fd), &plugin->kubelet) < 0)
		return;
	plugin->tries++;
	plugin->registered = false;
	if (plugin->fault == FAULT_CHANGING_IDS)
		service_publish(plugin);
	if (send_register(plugin) < 0)
		plugin->kubelet = rpc_client_free(plugin->kubelet);
}

/* Plugins with these faults do not take the end of a stream for the end of the registration. */
static bool believes_files(const struct plugin *plugin)
{
	return plugin->fault == FAULT_REGISTERS_ONCE || plugin->fault == FAULT_WATCHES_SOCKET_ONLY;
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin *plugin = userdata;

	plugin->retry_source = sd_event_source_disable_unref(plugin->retry_source);
	if (plugin->streams > 0)
		return 0;
	if (believes_files(plugin) && plugin->registered)
		return 0;
	register_now(plugin);
	try_later(plugin);
	return 0;
}

static void try_later(struct plugin *plugin)
{
	uint64_t delay = plugin->registered    ? STREAM_WAIT
		: plugin->fault == FAULT_SPINS ? 1
					       : RETRY;

	plugin->retry_source = sd_event_source_disable_unref(plugin->retry_source);
	if (sd_event_add_time_relative(plugin->event, &plugin->retry_source, CLOCK_MONOTONIC, delay,
		    1, on_retry, plugin) < 0)
		abort();
}

void registration_on_stream(struct plugin *plugin, uint64_t session, bool opened)
{
	if (session != plugin->session)
		return;
	plugin->streams += opened ? 1 : -1U;
	if (plugin->streams > 0)
		return;
	rpc_server_end_session(plugin->server, session);
	if (!believes_files(plugin)) {
		plugin->registered = false;
		plugin->ended++;
	}
	try_later(plugin);
}

static int on_event(sd_event_source *source, const struct inotify_event *event, void *userdata)
{
	struct plugin *plugin = userdata;
	bool is_kubelet = event->len > 0 && streq(event->name, "kubelet.sock");

	/* Not for each checkpoint of the kubelet, or it would never stop. */
	if (plugin->fault == FAULT_REGISTERS_ON_EVENTS && event->mask & IN_MOVED_TO &&
		event->len > 0 && !startswith(event->name, "kubelet"))
		register_now(plugin);
	if (plugin->fault == FAULT_WATCHES_SOCKET_ONLY && is_kubelet && event->mask & IN_CREATE) {
		plugin->sockets++;
		plugin->registered = false;
		try_later(plugin);
	}
	return 0;
}

int registration_start(struct plugin *plugin, struct error *error)
{
	bool watches = plugin->fault == FAULT_REGISTERS_ON_EVENTS ||
		plugin->fault == FAULT_WATCHES_SOCKET_ONLY;
	int r = 0;

	plugin->listen_fd = -EBADF;
	if (watches)
		r = sd_event_add_inotify(plugin->event, &plugin->watch_source, plugin->dir,
			IN_CREATE | IN_MOVED_TO, on_event, plugin);
	if (r < 0)
		return error_set(error, r, "cannot watch %s: %s", plugin->dir, strerror(-r));
	try_later(plugin);
	return 0;
}

void registration_stop(struct plugin *plugin)
{
	plugin->kubelet = rpc_client_free(plugin->kubelet);
	sd_event_source_disable_unref(plugin->retry_source);
	sd_event_source_disable_unref(plugin->watch_source);
	unbind(plugin);
}
