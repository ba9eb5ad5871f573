/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a connection of a server is closed and freed. The core owns a connection's
 * descriptor and does not report its end; a duplicate does. Invariants: the thread that runs the
 * loop adds connections and decides that they end; the queue's thread ends them, and takes one from
 * the list when the core has returned every tag of it.
 */
#include "proto/server.h"

#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <sys/epoll.h>
#include <sys/socket.h>
/* Where it exists, it declares the insecure credentials. */
#if __has_include(<grpc/credentials.h>)
	#include <grpc/credentials.h>
#endif

static grpc_arg integer_argument(const char *key, int value)
{
	return (grpc_arg){
		.type = GRPC_ARG_INTEGER,
		.key = (char *)(uintptr_t)key,
		.value.integer = value,
	};
}

static grpc_server *core_server_new(const struct rpc_server *server)
{
	/* Not GRPC_ARG_MINIMAL_STACK: it drops the filter that bounds message sizes. */
	grpc_arg list[] = {
		integer_argument(GRPC_ARG_HTTP2_BDP_PROBE, 0),
		integer_argument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
		integer_argument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
		integer_argument(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RPC_REQUEST_MAX),
		integer_argument(GRPC_ARG_MAX_CONCURRENT_STREAMS, server->calls_max),
		integer_argument(GRPC_ARG_ENABLE_CHANNELZ, 0),
	};
	grpc_channel_args arguments = { .num_args = ARRAY_SIZE(list), .args = list };

	return grpc_server_create(&arguments, NULL);
}

void connection_unref(struct connection *connection)
{
	struct rpc_server *server = connection->server;

	if (--connection->n_pending > 0)
		return;
	(void)pthread_mutex_lock(&server->lock);
	for (struct connection **c = &server->connections; *c; c = &(*c)->next)
		if (*c == connection) {
			*c = connection->next;
			break;
		}
	(void)pthread_mutex_unlock(&server->lock);
	/* The server may be freed from here on. */
	grpc_server_destroy(connection->core);
	close_fd(connection->duplicate);
	free(connection);
}

static void on_ended(struct tag *tag, bool ok)
{
	connection_unref(TAG_OWNER(tag, struct connection, ended_tag));
}

static void on_end(struct tag *tag, bool ok)
{
	struct connection *connection = TAG_OWNER(tag, struct connection, end_tag);

	grpc_server_shutdown_and_notify(connection->core, rpc_queue(), &connection->ended_tag);
}

/* On the queue's thread, where the core hands out most new calls: one that it hands out while
 * another thread shuts the server down can stay permanently, and the connection with it (seen with
 * 1.51). */
static void core_end(struct connection *connection)
{
	rpc_queue_post(&connection->end_tag);
}

/* With the lock held: ends the connection without regard to its calls. */
static void connection_end(struct connection *connection)
{
	if (connection->ending)
		return;
	connection->ending = true;
	connection->server->n_connections--;
	connection->source = sd_event_source_disable_unref(connection->source);
	/* gRPC waits without a limit for a write that the peer does not take. */
	(void)shutdown(connection->duplicate, SHUT_RDWR);
	/* The thread reads as long as data arrives, and then ends the core's server. */
	if (!connection->adding)
		core_end(connection);
}

static int on_hangup(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct connection *connection = userdata;
	struct rpc_server *server = connection->server;

	/* Otherwise, a peer that only ends its own direction would keep a connection open to which
	 * the core is writing. */
	(void)pthread_mutex_lock(&server->lock);
	connection_end(connection);
	(void)pthread_mutex_unlock(&server->lock);
	return 0;
}

bool rpc_server_is_full(const struct rpc_server *server)
{
	return server->n_connections >= RPC_CONNECTIONS_MAX;
}

bool rpc_server_is_behind(struct rpc_server *server)
{
	size_t n_ending = 0;

	(void)pthread_mutex_lock(&server->lock);
	for (const struct connection *c = server->connections; c; c = c->next)
		n_ending += c->ending;
	(void)pthread_mutex_unlock(&server->lock);
	return n_ending >= RPC_ENDING_MAX;
}

static void core_start(struct connection *connection)
{
	struct rpc_server *server = connection->server;

	connection->core = core_server_new(server);
	grpc_server_register_completion_queue(connection->core, rpc_queue(), NULL);
	/* One more than the methods: the call to any other method. */
	for (size_t i = 0; i <= server->n_methods; i++) {
		struct armed_method *armed = &connection->methods[i];

		armed->tag.on_event = on_new_call;
		armed->connection = connection;
		if (i == server->n_methods)
			break;
		armed->method = &server->methods[i];
		armed->registered = grpc_server_register_method(connection->core,
			armed->method->path, NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
	}
	grpc_server_start(connection->core);
	connection->end_tag.on_event = on_end;
	connection->ended_tag.on_event = on_ended;
	connection->n_pending = server->n_methods + 2;
	for (size_t i = 0; i <= server->n_methods; i++)
		method_arm(&connection->methods[i]);
}

static int connection_new(
	struct rpc_server *server, int fd, uint64_t session, struct connection **ret)
{
	struct connection *connection;
	int r;

	if (rpc_server_is_full(server))
		return -EMFILE;
	connection = calloc(
		1, sizeof(*connection) + (server->n_methods + 1) * sizeof(connection->methods[0]));
	if (!connection)
		return -ENOMEM;
	connection->server = server;
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
	core_start(connection);
	(void)pthread_mutex_lock(&server->lock);
	connection->next = server->connections;
	server->connections = connection;
	server->n_connections++;
	(void)pthread_mutex_unlock(&server->lock);
	*ret = connection;
	return 0;
}

static void serve(struct connection *connection, int fd)
{
	grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();

	grpc_server_add_channel_from_fd(connection->core, fd, credentials);
	grpc_server_credentials_release(credentials);
}

int rpc_server_add(struct rpc_server *server, int number, uint64_t session)
{
	_cleanup_close_ int fd = number;
	struct connection *connection;
	int r = connection_new(server, fd, session, &connection);

	if (r >= 0)
		serve(connection, TAKE_FD(fd));
	return r;
}

struct adding {
	struct connection *connection;
	int fd;
};

static void *serve_unknown(void *userdata)
{
	_cleanup_free_ struct adding *adding = userdata;
	struct connection *connection = adding->connection;
	struct rpc_server *server = connection->server;

	serve(connection, adding->fd);
	(void)pthread_mutex_lock(&server->lock);
	connection->adding = false;
	if (connection->ending)
		core_end(connection);
	(void)pthread_mutex_unlock(&server->lock);
	return NULL;
}

static int start_serving(struct connection *connection, int fd)
{
	struct adding *adding = malloc(sizeof(*adding));
	pthread_t thread;
	int r;

	if (!adding)
		return -ENOMEM;
	*adding = (struct adding){ .connection = connection, .fd = fd };
	connection->adding = true;
	r = -pthread_create(&thread, NULL, serve_unknown, adding);
	if (r < 0) {
		connection->adding = false;
		free(adding);
		return r;
	}
	(void)pthread_detach(thread);
	return 0;
}

int rpc_server_add_unknown(struct rpc_server *server, int number, uint64_t session)
{
	_cleanup_close_ int fd = number;
	struct connection *connection;
	int r = connection_new(server, fd, session, &connection);

	if (r < 0)
		return r;
	r = start_serving(connection, fd);
	if (r >= 0) {
		(void)TAKE_FD(fd);
		return r;
	}
	(void)pthread_mutex_lock(&server->lock);
	connection_end(connection);
	(void)pthread_mutex_unlock(&server->lock);
	return r;
}

int rpc_server_evict(struct rpc_server *server, uint64_t session)
{
	struct connection *oldest = NULL;

	(void)pthread_mutex_lock(&server->lock);
	/* The newest is first. */
	for (struct connection *c = server->connections; c; c = c->next)
		if (c->session == session && !c->ending)
			oldest = c;
	if (oldest)
		connection_end(oldest);
	(void)pthread_mutex_unlock(&server->lock);
	return oldest ? 0 : -ENOENT;
}

void rpc_server_end_session(struct rpc_server *server, uint64_t session)
{
	(void)pthread_mutex_lock(&server->lock);
	for (struct connection *c = server->connections; c; c = c->next)
		if (c->session == session)
			connection_end(c);
	(void)pthread_mutex_unlock(&server->lock);
}
