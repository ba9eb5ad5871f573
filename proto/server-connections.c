/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of a server. gRPC owns the descriptor and tells nothing about its end; a
 * duplicate does. A connection's entry lives until that hangs up.
 */
#include "proto/server.h"

#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <sys/epoll.h>
#include <sys/socket.h>

uint64_t server_session_of(struct rpc_server *server, grpc_call *call)
{
	char *peer = grpc_call_get_peer(call);
	uint64_t session = 0;
	int number;

	if (sscanf(peer, "fd:%d", &number) == 1) {
		(void)pthread_mutex_lock(&server->lock);
		for (struct connection *c = server->connections; c; c = c->next)
			if (c->number == number) {
				session = c->session;
				break;
			}
		(void)pthread_mutex_unlock(&server->lock);
	}
	gpr_free(peer);
	return session;
}

void connection_free(struct connection *connection)
{
	struct rpc_server *server = connection->server;

	(void)pthread_mutex_lock(&server->lock);
	for (struct connection **c = &server->connections; *c; c = &(*c)->next)
		if (*c == connection) {
			*c = connection->next;
			server->n_connections--;
			break;
		}
	(void)pthread_mutex_unlock(&server->lock);
	sd_event_source_disable_unref(connection->source);
	close_fd(connection->duplicate);
	free(connection);
}

static int on_hangup(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	connection_free(userdata);
	return 0;
}

bool rpc_server_is_full(const struct rpc_server *server)
{
	return server->n_connections >= RPC_CONNECTIONS_MAX;
}

static int connection_add(struct rpc_server *server, int fd, uint64_t session)
{
	struct connection *connection;
	int r;

	if (rpc_server_is_full(server))
		return -EMFILE;
	connection = calloc(1, sizeof(*connection));
	if (!connection)
		return -ENOMEM;
	connection->server = server;
	connection->number = fd;
	connection->session = session;
	connection->duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = connection->duplicate < 0 ? -errno : 0;
	if (r >= 0)
		r = sd_event_add_io(server->event, &connection->source, connection->duplicate,
			EPOLLRDHUP | EPOLLHUP | EPOLLET, on_hangup, connection);
	if (r < 0) {
		close_fd(connection->duplicate);
		free(connection);
		return r;
	}
	/* First in the list, so that an entry whose end was not noticed yet is hidden when gRPC's
	 * number is used again. */
	(void)pthread_mutex_lock(&server->lock);
	connection->next = server->connections;
	server->connections = connection;
	server->n_connections++;
	(void)pthread_mutex_unlock(&server->lock);
	return 0;
}

static void serve(struct rpc_server *server, int fd)
{
	grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();

	grpc_server_add_channel_from_fd(server->server, fd, credentials);
	grpc_server_credentials_release(credentials);
}

int rpc_server_add(struct rpc_server *server, int number, uint64_t session)
{
	_cleanup_close_ int fd = number;
	int r = connection_add(server, fd, session);

	if (r >= 0)
		serve(server, TAKE_FD(fd));
	return r;
}

struct adding {
	struct rpc_server *server;
	int fd;
};

static void count_adding(struct rpc_server *server, int change)
{
	(void)pthread_mutex_lock(&server->lock);
	server->n_adding += (size_t)change;
	if (server->n_adding == 0)
		(void)pthread_cond_broadcast(&server->changed);
	(void)pthread_mutex_unlock(&server->lock);
}

static void *serve_stranger(void *userdata)
{
	_cleanup_free_ struct adding *adding = userdata;

	serve(adding->server, adding->fd);
	count_adding(adding->server, -1);
	return NULL;
}

static int start_serving(struct rpc_server *server, int fd)
{
	struct adding *adding = malloc(sizeof(*adding));
	pthread_t thread;
	int r;

	if (!adding)
		return -ENOMEM;
	*adding = (struct adding){ .server = server, .fd = fd };
	count_adding(server, 1);
	r = -pthread_create(&thread, NULL, serve_stranger, adding);
	if (r < 0) {
		count_adding(server, -1);
		free(adding);
		return r;
	}
	(void)pthread_detach(thread);
	return 0;
}

int rpc_server_add_stranger(struct rpc_server *server, int number, uint64_t session)
{
	_cleanup_close_ int fd = number;
	int r = connection_add(server, fd, session);

	if (r < 0)
		return r;
	r = start_serving(server, fd);
	if (r < 0)
		connection_free(server->connections);
	else
		(void)TAKE_FD(fd);
	return r;
}

void connections_await_added(struct rpc_server *server)
{
	(void)pthread_mutex_lock(&server->lock);
	if (server->n_adding > 0)
		for (struct connection *c = server->connections; c; c = c->next)
			(void)shutdown(c->duplicate, SHUT_RDWR);
	while (server->n_adding > 0)
		(void)pthread_cond_wait(&server->changed, &server->lock);
	(void)pthread_mutex_unlock(&server->lock);
}

int rpc_server_evict(struct rpc_server *server, uint64_t session)
{
	struct connection *oldest = NULL;

	/* Only this thread changes the list, and the newest is first. */
	for (struct connection *c = server->connections; c; c = c->next)
		if (c->session == session)
			oldest = c;
	if (!oldest)
		return -ENOENT;
	(void)shutdown(oldest->duplicate, SHUT_RDWR);
	connection_free(oldest);
	return 0;
}

void rpc_server_end_session(struct rpc_server *server, uint64_t session)
{
	/* gRPC notices the end by itself; the entries go when their hang-up arrives. */
	(void)pthread_mutex_lock(&server->lock);
	for (struct connection *c = server->connections; c; c = c->next)
		if (c->session == session)
			(void)shutdown(c->duplicate, SHUT_RDWR);
	(void)pthread_mutex_unlock(&server->lock);
}
