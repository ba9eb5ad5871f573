/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the socket whose path the kubelet client answers with. gRPC's thread copies a
 * request into a mailbox message; everything else runs on the loop's thread.
 */
#include "dra/dra-node.h"

#include <stdatomic.h>

#include "common/log.h"
#include "dra/dra-call.h"
#include "proto/acceptor.h"
#include "proto/mailbox.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/rpc.h"

/* A connection may have more calls than may wait, so that an unprepare goes ahead. */
#define CALLS_MAX (DRA_CALLS_MAX + 64)

struct dra_node {
	struct dra_node_options options;
	struct mailbox *mailbox;
	struct rpc_server *server;
	struct dra_calls *calls;
	atomic_size_t n_prepares, n_unprepares;

	uint64_t session; /* 0: none */
	struct acceptor *acceptor;
};

/* --- from gRPC's thread --- */

static void deliver_call(struct mailbox_message *base, void *userdata)
{
	struct dra_call *call = (struct dra_call *)(void *)base;
	const struct dra_node *node = userdata;

	if (node)
		dra_calls_add(node->calls, call);
	else
		dra_call_fail(
			call, RPC_UNAVAILABLE, "devplugd is restarting; the kubelet will retry");
}

struct cancelled {
	struct mailbox_message base;
	const struct rpc_call *call;
};

static void deliver_cancelled(struct mailbox_message *base, void *userdata)
{
	_cleanup_free_ struct cancelled *cancelled = (struct cancelled *)(void *)base;
	const struct dra_node *node = userdata;

	if (node)
		dra_calls_cancel(node->calls, cancelled->call);
}

/* The message is delivered before that of a later call, which may have the same address. */
static void on_cancelled(struct rpc_call *call, void *userdata)
{
	struct cancelled *cancelled = calloc(1, sizeof(*cancelled));
	const struct dra_node *node = userdata;

	/* Without memory, the call ends in time all the same. */
	if (!cancelled)
		return;
	cancelled->base.deliver = deliver_cancelled;
	cancelled->call = call;
	mailbox_post(node->mailbox, &cancelled->base);
}

/* Calls of one kind that wait do not keep out the other kind. */
static void take_call(struct dra_node *node, struct rpc_call *rpc, enum dra_call_kind kind,
	const uint8_t *data, size_t size)
{
	bool unprepare = kind == DRA_CALL_UNPREPARE;
	struct dra_call *call = dra_call_new(
		rpc, kind, data, size, unprepare ? &node->n_unprepares : &node->n_prepares);

	if (!call)
		return;
	rpc_call_watch(rpc, on_cancelled);
	call->base.deliver = deliver_call;
	mailbox_post(node->mailbox, &call->base);
}

static void on_prepare(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	take_call(userdata, call, DRA_CALL_PREPARE, data, size);
}

static void on_prepare_beta(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	take_call(userdata, call, DRA_CALL_PREPARE_BETA, data, size);
}

static void on_unprepare(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	take_call(userdata, call, DRA_CALL_UNPREPARE, data, size);
}

static const struct rpc_method methods[] = {
	{ .path = METHOD_DRA("v1", DRA_PREPARE), .on_call = on_prepare },
	{ .path = METHOD_DRA("v1", DRA_UNPREPARE), .on_call = on_unprepare },
	{ .path = METHOD_DRA("v1beta1", DRA_PREPARE), .on_call = on_prepare_beta },
	{ .path = METHOD_DRA("v1beta1", DRA_UNPREPARE), .on_call = on_unprepare },
	{ .path = METHOD_DRA_HEALTH("v1") },
	{ .path = METHOD_DRA_HEALTH("v1alpha1") },
};

/* --- the socket --- */

static int on_connection(int number, const struct ucred *peer, void *userdata)
{
	struct dra_node *node = userdata;
	_cleanup_close_ int fd = number;

	if (rpc_server_is_behind(node->server))
		return -EMFILE;
	if (rpc_server_is_full(node->server))
		(void)rpc_server_evict(node->server, node->session);
	return rpc_server_add_unknown(node->server, TAKE_FD(fd), node->session);
}

static void close_session(struct dra_node *node)
{
	node->acceptor = acceptor_free(node->acceptor);
	if (node->session != 0)
		rpc_server_end_session(node->server, node->session);
	node->session = 0;
}

static void on_broken(void *userdata)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_SESSION_ENDED);
	struct dra_node *node = userdata;

	message.session = node->session;
	(void)snprintf(message.text, sizeof(message.text),
		"cannot accept connections: out of descriptors or memory");
	close_session(node);
	(void)control_send(CONTROL_FD, &message);
}

static const struct acceptor_events acceptor_events = {
	.on_connection = on_connection,
	.on_broken = on_broken,
};

void dra_node_open_session(struct dra_node *node, struct control_message *message)
{
	int r;

	close_session(node);
	node->session = message->session;
	r = acceptor_new(node->options.event, TAKE_FD(message->fds[0]),
		node->options.supervisor_uid, &acceptor_events, node, &node->acceptor);
	if (r < 0)
		log_error("cannot serve the kubelet: %s", strerror(-r));
}

/* The kubelet cannot be distinguished from other clients; it connects again. */
void dra_node_free_the_way(struct dra_node *node)
{
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
	r = mailbox_new(options->event, node, &node->mailbox);
	if (r >= 0)
		r = dra_calls_new(&node->options, &node->calls);
	if (r >= 0)
		r = rpc_server_new(
			options->event, methods, ARRAY_SIZE(methods), node, &node->server);
	if (r < 0) {
		free(node);
		return r;
	}
	rpc_server_set_calls_max(node->server, CALLS_MAX);
	*ret = node;
	return 0;
}

void dra_node_take_prepared(struct dra_node *node, struct control_message *message)
{
	dra_calls_take_prepared(node->calls, message);
}

void dra_node_held_changed(struct dra_node *node)
{
	dra_calls_held_changed(node->calls);
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
