/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a registration begins and ends in the child. Connections are labelled with the
 * session's number and whether they come from the process that listens on kubelet.sock: a session
 * lives as long as the kubelet's streams, independent of other root processes. Where process ids do
 * not help (another pid namespace, a kubelet that connects on its own), it lives as long as any
 * stream.
 */
#include "proto/plugin/plugin-session.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/log.h"
#include "deviceplugin.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"

/* The kubelet dials back for up to 10 s inside Register. */
#define REGISTER_TIMEOUT (20 * USEC_PER_SEC)
#define ACCEPTS_AT_ONCE  16

enum peer { PEER_OTHER, PEER_KUBELET, PEERS };

struct session {
	uint64_t number;
	struct service *service;
	const struct session_events *events;
	void *userdata;
	uid_t supervisor_uid;
	pid_t kubelet_pid;
	int listen_fd;
	sd_event_source *accept_source, *timeout_source;
	struct rpc_client *kubelet;
	struct registration *registration; /* while Register is pending */
	unsigned streams[PEERS];
	bool served, kubelet_served;
	bool announced;               /* to the plugin watcher */
	struct log_budget log_budget; /* of refused connections */
};

/* A pending Register; outlives the session if the session ends first. */
struct registration {
	struct letter letter;
	struct mailbox *mailbox;
	struct session *session; /* NULL: the session is over. Main thread only */
	int status;
	char text[480];
};

static uint64_t label_of(const struct session *session, enum peer peer)
{
	return session->number * PEERS + peer;
}

uint64_t session_number(const struct session *session)
{
	return session->number;
}

static void forget_registration(struct session *session)
{
	if (session->registration)
		session->registration->session = NULL;
	session->registration = NULL;
	session->kubelet = rpc_client_free(session->kubelet);
	session->timeout_source = sd_event_source_disable_unref(session->timeout_source);
}

static void end_refused(struct session *session, const char *text)
{
	char why[600];

	(void)snprintf(why, sizeof(why), "the kubelet refused the registration: %s", text);
	session->events->on_ended(session, why, session->userdata);
}

static void deliver_registration(struct letter *base, void *userdata)
{
	struct registration *registration = (struct registration *)(void *)base;
	struct session *session = registration->session;

	if (userdata && session) {
		forget_registration(session);
		if (registration->status == RPC_OK)
			session->events->on_registered(session, session->userdata);
		else if (registration->status == RPC_UNAVAILABLE)
			session->events->on_ended(session,
				"the kubelet closed the connection before it answered Register",
				session->userdata);
		else
			end_refused(session, registration->text);
	}
	free(registration);
}

static void on_register_result(const struct rpc_result *result, void *userdata)
{
	struct registration *registration = userdata;

	registration->status = result->status;
	(void)snprintf(registration->text, sizeof(registration->text), "%s", result->text);
	mailbox_post(registration->mailbox, &registration->letter);
}

static int on_register_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct session *session = userdata;

	session->events->on_ended(session,
		"the kubelet did not answer Register within 20 s; see its log for the reason",
		session->userdata);
	return 0;
}

static int register_start(
	struct session *session, sd_event *event, const struct session_parameters *parameters)
{
	V1beta1__RegisterRequest request = V1BETA1__REGISTER_REQUEST__INIT;
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	struct registration *registration;
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;
	int r;

	options.pre_start_required = parameters->pre_start_required;
	options.get_preferred_allocation_available = true;
	request.version = (char *)(uintptr_t)DEVICE_PLUGIN_VERSION;
	request.endpoint = (char *)(uintptr_t)parameters->endpoint;
	request.resource_name = (char *)(uintptr_t)parameters->resource;
	request.options = &options;
	r = message_pack(&request.base, &data, &size);
	if (r < 0)
		return r;
	r = sd_event_add_time_relative(event, &session->timeout_source, CLOCK_MONOTONIC,
		REGISTER_TIMEOUT, 0, on_register_timeout, session);
	if (r < 0)
		return r;
	registration = calloc(1, sizeof(*registration));
	if (!registration)
		return -ENOMEM;
	registration->letter.deliver = deliver_registration;
	registration->mailbox = service_mailbox(session->service);
	registration->session = session;
	session->registration = registration;
	/* No deadline goes with the call: from 1.36 on it would bound the kubelet's dial back, too.
	 */
	r = rpc_client_call(
		session->kubelet, METHOD_REGISTER, data, size, on_register_result, registration);
	if (r < 0) {
		session->registration = NULL;
		free(registration);
	}
	return r;
}

static void log_refused(struct session *session, const struct ucred *peer, const char *why)
{
	if (log_budget_admits(&session->log_budget, NULL))
		log_warning("refused a connection from process %d of user %u: %s", (int)peer->pid,
			(unsigned)peer->uid, why);
}

/* Other clients must not take the kubelet's place; a new one replaces the oldest of them. */
static int add_connection(struct session *session, enum peer kind, int number)
{
	struct rpc_server *server = service_server(session->service);
	_cleanup_close_ int fd = number;

	if (kind == PEER_OTHER && rpc_server_is_behind(server))
		return -EMFILE;
	if (session->kubelet_pid != 0 && rpc_server_is_full(server))
		(void)rpc_server_evict(server, label_of(session, PEER_OTHER));
	return (kind == PEER_KUBELET ? rpc_server_add : rpc_server_add_unknown)(
		server, TAKE_FD(fd), label_of(session, kind));
}

/* Returns 1 if a connection was taken, 0 if none waits, negative errno if accepting failed. */
static int accept_one(struct session *session)
{
	_cleanup_close_ int fd = -EBADF;
	struct ucred peer = {};
	socklen_t size = sizeof(peer);
	enum peer kind;
	int r;

	fd = accept4(session->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return errno == EAGAIN ? 0 : errno == ECONNABORTED || errno == EINTR ? 1 : -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return 1;
	if (peer.uid != 0 && peer.uid != session->supervisor_uid) {
		log_refused(session, &peer, "only root may call");
		return 1;
	}
	kind = peer.pid != 0 && peer.pid == session->kubelet_pid ? PEER_KUBELET : PEER_OTHER;
	r = add_connection(session, kind, TAKE_FD(fd));
	if (r < 0)
		log_refused(session, &peer, r == -EMFILE ? "too many connections" : strerror(-r));
	return 1;
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct session *session = userdata;
	unsigned taken = 0;
	int r = 1;

	while (taken < ACCEPTS_AT_ONCE && (r = accept_one(session)) > 0)
		taken++;
	/* Out of descriptors or memory, and a peer waits in the backlog. After one was accepted
	 * there need not be another: the kernel returns EMFILE before it checks. */
	if (r < 0 && taken == 0)
		session->events->on_ended(session,
			"cannot accept connections: out of descriptors or memory",
			session->userdata);
	return 0;
}

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

void session_on_registration(
	struct session *session, uint64_t label, bool registered, const char *text)
{
	if (label / PEERS != session->number || !session->announced)
		return;
	if (registered)
		session->events->on_registered(session, session->userdata);
	else
		end_refused(session, text);
}

int session_new(sd_event *event, struct service *service,
	const struct session_parameters *parameters, int listen_fd, int kubelet_fd,
	const struct session_events *events, void *userdata, struct session **ret)
{
	_cleanup_(session_freep) struct session *session = NULL;
	_cleanup_close_ int kubelet = kubelet_fd, listener = listen_fd;
	struct ucred peer = {};
	socklen_t size = sizeof(peer);
	int r;

	session = calloc(1, sizeof(*session));
	if (!session)
		return -ENOMEM;
	session->number = parameters->number;
	session->service = service;
	session->events = events;
	session->userdata = userdata;
	session->supervisor_uid = parameters->supervisor_uid;
	session->listen_fd = TAKE_FD(listener);
	if (kubelet >= 0 && getsockopt(kubelet, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
		session->kubelet_pid = peer.pid;
	r = sd_event_add_io(
		event, &session->accept_source, session->listen_fd, EPOLLIN, on_accept, session);
	if (r < 0)
		return r;
	if (kubelet < 0) {
		r = service_announce(service, parameters->resource, parameters->endpoint);
		session->announced = r >= 0;
	} else {
		r = rpc_client_new(TAKE_FD(kubelet), &session->kubelet);
		if (r >= 0)
			r = register_start(session, event, parameters);
	}
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
	sd_event_source_disable_unref(session->accept_source);
	close_fd(session->listen_fd);
	if (session->announced)
		(void)service_announce(session->service, NULL, NULL);
	forget_registration(session);
	for (unsigned peer = 0; peer < PEERS; peer++)
		rpc_server_end_session(server, label_of(session, (enum peer)peer));
	free(session);
	return NULL;
}
