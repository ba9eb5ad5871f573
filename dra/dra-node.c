/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the socket that the kubelet finds, and registers the driver. gRPC's thread copies a
 * request into a mailbox message; everything else runs on the loop's thread.
 */
#include "dra/dra-node.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "common/log.h"
#include "dra/dra-call.h"
#include "pluginregistration.pb-c.h"
#include "proto/mailbox.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/rpc.h"

#define PLUGIN_TYPE     "DRAPlugin"
#define ACCEPTS_AT_ONCE 16

struct verdict {
	struct letter letter;
	uint64_t session;
	bool registered;
	char text[480];
};

struct dra_node {
	struct dra_node_options options;
	struct mailbox *mailbox;
	struct rpc_server *server;
	struct dra_calls *calls;
	atomic_size_t n_calls;

	uint64_t session;
	int listener_fd;
	sd_event_source *accept_source;
	struct log_budget log_budget; /* of refused connections */

	pthread_mutex_t lock; /* of the answer to GetInfo */
	uint8_t *info;
	size_t info_size;
};

/* A kubelet uses the first claim service that it knows. */
static const char *const versions[] = { "v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth",
	"v1alpha1.DRAResourceHealth" };

/* --- from gRPC's thread --- */

static void deliver_call(struct letter *base, void *userdata)
{
	struct dra_call *call = (struct dra_call *)(void *)base;
	const struct dra_node *node = userdata;

	if (node)
		dra_calls_add(node->calls, call);
	else
		dra_call_fail(
			call, RPC_UNAVAILABLE, "the driver is stopping; the kubelet will retry");
}

static void take_call(
	struct dra_node *node, struct rpc_call *rpc, bool prepare, const uint8_t *data, size_t size)
{
	struct dra_call *call = dra_call_new(rpc, prepare, data, size, &node->n_calls);

	if (!call)
		return;
	call->letter.deliver = deliver_call;
	mailbox_post(node->mailbox, &call->letter);
}

static void on_prepare(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	take_call(userdata, call, true, data, size);
}

static void on_unprepare(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	take_call(userdata, call, false, data, size);
}

static void on_get_info(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct dra_node *node = userdata;

	(void)pthread_mutex_lock(&node->lock);
	rpc_reply(call, node->info, node->info_size);
	(void)pthread_mutex_unlock(&node->lock);
}

static void deliver_verdict(struct letter *base, void *userdata)
{
	struct verdict *verdict = (struct verdict *)(void *)base;
	struct dra_node *node = userdata;
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_REGISTERED);

	if (node && verdict->session == node->session) {
		message.session = verdict->session;
		if (!verdict->registered) {
			message.type = CLUSTER_SESSION_ENDED;
			(void)snprintf(message.text, sizeof(message.text), "%s", verdict->text);
		}
		(void)control_send(CONTROL_FD, &message);
		if (verdict->registered)
			node->options.on_registered(node->options.userdata);
	}
	free(verdict);
}

static void on_notify(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	_cleanup_message_ struct message message =
		message_unpack(&pluginregistration__registration_status__descriptor, data, size);
	const Pluginregistration__RegistrationStatus *status = (const void *)message.base;
	struct verdict *verdict = status ? calloc(1, sizeof(*verdict)) : NULL;
	struct dra_node *node = userdata;

	if (!verdict) {
		rpc_fail(call, status ? RPC_RESOURCE_EXHAUSTED : RPC_INVALID_ARGUMENT,
			"the request cannot be read");
		return;
	}
	verdict->letter.deliver = deliver_verdict;
	verdict->session = rpc_call_session(call);
	verdict->registered = status->plugin_registered;
	(void)snprintf(verdict->text, sizeof(verdict->text), "%s",
		*status->error ? status->error : "the kubelet gave no reason");
	/* RegistrationStatusResponse has no fields. */
	rpc_reply(call, (const uint8_t *)"", 0);
	mailbox_post(node->mailbox, &verdict->letter);
}

static const struct rpc_method methods[] = {
	{ .path = METHOD_GET_INFO, .on_call = on_get_info },
	{ .path = METHOD_NOTIFY_REGISTRATION_STATUS, .on_call = on_notify },
	{ .path = METHOD_DRA("v1", DRA_PREPARE), .on_call = on_prepare },
	{ .path = METHOD_DRA("v1", DRA_UNPREPARE), .on_call = on_unprepare },
	{ .path = METHOD_DRA("v1beta1", DRA_PREPARE), .on_call = on_prepare },
	{ .path = METHOD_DRA("v1beta1", DRA_UNPREPARE), .on_call = on_unprepare },
	{ .path = METHOD_DRA_HEALTH("v1") },
	{ .path = METHOD_DRA_HEALTH("v1alpha1") },
};

/* --- the socket --- */

static void log_refused(struct dra_node *node, const struct ucred *peer, const char *why)
{
	if (log_budget_admits(&node->log_budget, NULL))
		log_warning("refused a connection from process %d of user %u: %s", (int)peer->pid,
			(unsigned)peer->uid, why);
}

static int add_connection(struct dra_node *node, int number)
{
	_cleanup_close_ int fd = number;

	if (rpc_server_is_behind(node->server))
		return -EMFILE;
	if (rpc_server_is_full(node->server))
		(void)rpc_server_evict(node->server, node->session);
	return rpc_server_add_unknown(node->server, TAKE_FD(fd), node->session);
}

/* Returns 1 if a connection was taken or refused, 0 if none waits, negative errno if accepting
 * failed. */
static int accept_one(struct dra_node *node)
{
	_cleanup_close_ int fd = -EBADF;
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);
	int r;

	fd = accept4(node->listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return errno == EAGAIN ? 0 : errno == ECONNABORTED || errno == EINTR ? 1 : -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
		(peer.uid != 0 && peer.uid != node->options.supervisor_uid)) {
		log_refused(node, &peer, "only root may call");
		return 1;
	}
	r = add_connection(node, TAKE_FD(fd));
	if (r < 0)
		log_refused(node, &peer, r == -EMFILE ? "too many connections" : strerror(-r));
	return 1;
}

static void close_session(struct dra_node *node)
{
	node->accept_source = sd_event_source_disable_unref(node->accept_source);
	node->listener_fd = close_fd(node->listener_fd);
	if (node->session != 0)
		rpc_server_end_session(node->server, node->session);
	node->session = 0;
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_SESSION_ENDED);
	struct dra_node *node = userdata;
	unsigned taken = 0;
	int r = 1;

	while (taken < ACCEPTS_AT_ONCE && (r = accept_one(node)) > 0)
		taken++;
	if (r >= 0 || taken > 0)
		return 0;
	/* Otherwise the peer would wait in the backlog, and the loop would spin. */
	message.session = node->session;
	(void)snprintf(message.text, sizeof(message.text),
		"cannot accept connections: out of descriptors or memory");
	close_session(node);
	(void)control_send(CONTROL_FD, &message);
	return 0;
}

static int make_info(struct dra_node *node, const char *endpoint)
{
	Pluginregistration__PluginInfo info = PLUGINREGISTRATION__PLUGIN_INFO__INIT;
	uint8_t *data;
	size_t size;
	int r;

	info.type = (char *)(uintptr_t)PLUGIN_TYPE;
	info.name = (char *)(uintptr_t)node->options.driver;
	info.endpoint = (char *)(uintptr_t)endpoint;
	info.supported_versions = (char **)(uintptr_t)versions;
	info.n_supported_versions = ARRAY_SIZE(versions);
	r = message_pack(&info.base, &data, &size);
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&node->lock);
	free(node->info);
	node->info = data;
	node->info_size = size;
	(void)pthread_mutex_unlock(&node->lock);
	return 0;
}

void dra_node_open_session(struct dra_node *node, struct control_message *message)
{
	int r;

	close_session(node);
	node->session = message->session;
	node->listener_fd = TAKE_FD(message->fds[0]);
	r = make_info(node, message->text);
	if (r >= 0)
		r = sd_event_add_io(node->options.event, &node->accept_source, node->listener_fd,
			EPOLLIN, on_accept, node);
	if (r < 0)
		log_error("cannot serve the kubelet: %s", strerror(-r));
}

/* The kubelet cannot be distinguished from other clients; it connects again. */
void dra_node_free_the_way(struct dra_node *node)
{
	if (!rpc_is_held_up())
		return;
	log_warning("a client floods the socket, so the kubelet cannot be served; closing "
		    "all connections to the DRA driver");
	rpc_server_end_session(node->server, node->session);
}

/* --- --- */

int dra_node_new(const struct dra_node_options *options, struct dra_node **ret)
{
	struct dra_node *node = calloc(1, sizeof(*node));
	int r;

	if (!node)
		return -ENOMEM;
	node->options = *options;
	node->listener_fd = -EBADF;
	(void)pthread_mutex_init(&node->lock, NULL);
	r = mailbox_new(options->event, node, &node->mailbox);
	if (r >= 0)
		r = dra_calls_new(&node->options, &node->calls);
	if (r >= 0)
		r = rpc_start();
	if (r >= 0)
		r = rpc_server_new(
			options->event, methods, ARRAY_SIZE(methods), node, &node->server);
	if (r < 0) {
		free(node);
		return r;
	}
	*ret = node;
	return 0;
}

void dra_node_take_prepared(struct dra_node *node, struct control_message *message)
{
	dra_calls_take_prepared(node->calls, message);
}

struct rpc_server *dra_node_server(const struct dra_node *node)
{
	return node->server;
}

void dra_node_stop(struct dra_node *node, uint64_t grace)
{
	mailbox_close(node->mailbox);
	dra_calls_stop(node->calls);
	rpc_server_drain(node->server, grace);
}
