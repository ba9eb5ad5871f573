/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a session begins and ends in the child. Connections are labelled with the
 * session's number and whether they come from the process that listens on kubelet.sock: a session
 * lives as long as the kubelet's streams, independent of other root processes. Where process ids do
 * not help (another pid namespace, a kubelet that connects on its own), it lives as long as any
 * stream.
 */
#include "proto/plugin/plugin-session.h"

#include "common/log.h"
#include "proto/acceptor.h"

enum peer { PEER_OTHER, PEER_KUBELET, PEERS };

struct session {
	uint64_t number;
	struct service *service;
	const struct session_events *events;
	void *userdata;
	pid_t kubelet_pid; /* 0: unknown */
	struct acceptor *acceptor;
	unsigned streams[PEERS];
	bool served, kubelet_served;
};

static uint64_t label_of(const struct session *session, enum peer peer)
{
	return session->number * PEERS + peer;
}

uint64_t session_number(const struct session *session)
{
	return session->number;
}

/* Other clients must not take the kubelet's place; a new one replaces the oldest of them. */
static int on_connection(int number, const struct ucred *peer, void *userdata)
{
	struct session *session = userdata;
	struct rpc_server *server = service_server(session->service);
	enum peer kind =
		peer->pid != 0 && peer->pid == session->kubelet_pid ? PEER_KUBELET : PEER_OTHER;
	_cleanup_close_ int fd = number;

	if (kind == PEER_OTHER && rpc_server_is_behind(server))
		return -EMFILE;
	if (session->kubelet_pid != 0 && rpc_server_is_full(server))
		(void)rpc_server_evict(server, label_of(session, PEER_OTHER));
	return (kind == PEER_KUBELET ? rpc_server_add : rpc_server_add_unknown)(
		server, TAKE_FD(fd), label_of(session, kind));
}

static void on_broken(void *userdata)
{
	struct session *session = userdata;

	session->events->on_ended(session,
		"cannot accept connections: out of descriptors or memory", session->userdata);
}

static const struct acceptor_events acceptor_events = {
	.on_connection = on_connection,
	.on_broken = on_broken,
};

void session_on_stream(struct session *session, uint64_t label, bool opened)
{
	enum peer peer = (enum peer)(label % PEERS);

	if (label / PEERS != session->number)
		return;
	if (opened) {
		session->streams[peer]++;
		session->kubelet_served |= peer == PEER_KUBELET;
		if (!session->served) {
			session->served = true;
			session->events->on_serving(session, session->userdata);
		}
		return;
	}
	session->streams[peer]--;
	if (session->streams[PEER_KUBELET] > 0)
		return;
	if (session->kubelet_served || session->streams[PEER_OTHER] == 0)
		session->events->on_ended(
			session, "the kubelet ended ListAndWatch", session->userdata);
}

void session_free_the_way(struct session *session)
{
	struct rpc_server *server = service_server(session->service);

	if (session->kubelet_pid == 0) {
		session->events->on_ended(session,
			"a client floods the socket, so the kubelet cannot be served",
			session->userdata);
		return;
	}
	log_warning("a client floods the socket, so the kubelet cannot be served; closing "
		    "all connections but the kubelet's");
	rpc_server_end_session(server, label_of(session, PEER_OTHER));
}

int session_new(sd_event *event, struct service *service,
	const struct session_parameters *parameters, int listen_fd,
	const struct session_events *events, void *userdata, struct session **ret)
{
	_cleanup_(session_freep) struct session *session = calloc(1, sizeof(*session));
	_cleanup_close_ int listener = listen_fd;
	int r;

	if (!session)
		return -ENOMEM;
	session->number = parameters->number;
	session->service = service;
	session->events = events;
	session->userdata = userdata;
	session->kubelet_pid = parameters->kubelet_pid;
	r = acceptor_new(event, TAKE_FD(listener), parameters->supervisor_uid, &acceptor_events,
		session, &session->acceptor);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(session);
	return 0;
}

struct session *session_free(struct session *session)
{
	struct rpc_server *server;

	if (!session)
		return NULL;
	server = service_server(session->service);
	(void)acceptor_free(session->acceptor);
	for (unsigned peer = 0; peer < PEERS; peer++)
		rpc_server_end_session(server, label_of(session, (enum peer)peer));
	free(session);
	return NULL;
}
