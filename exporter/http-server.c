/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs libmicrohttpd in the caller's loop: an epoll descriptor and a timeout show when it has work.
 * Its own timeout restarts with every byte of a client, so each connection also has a final
 * deadline. While all places are taken and others wait, the oldest connection without a request is
 * closed: idle clients cannot keep out other clients.
 */
#include "exporter/http-server.h"

#include <microhttpd.h>
#include <sys/socket.h>

#include "common/log.h"
#include "exporter/exposition.h"

/* Memory for the headers of a request and of the answer, and for the library's state of a
 * connection. */
#define CONNECTION_MEMORY (HTTP_REQUEST_MAX + 2048)
#define TEXT_UNAVAILABLE  "devplugd does not answer; see devplugctl status\n"
#define TEXT_ROOT         "devplugd-exporter: see /metrics\n"
#define TEXT_NOT_FOUND    "not found: see /metrics\n"
#define TEXT_METHOD       "only GET and HEAD are supported\n"
#define TEXT_HEALTHY      "ok\n"
#define TEXT_PLAIN        "text/plain; charset=utf-8"

struct client {
	struct MHD_Connection *connection; /* NULL: this one is free */
	struct http_server *server;
	uint64_t begun, end; /* CLOCK_MONOTONIC */
	bool idle;           /* it has sent no complete request */
	bool waits;          /* for the metrics, or for readiness */
	bool asked;
};

struct http_server {
	struct MHD_Daemon *daemon;
	http_wanted_handler on_wanted;
	void *userdata;
	bool wanted; /* an answer was requested and has not arrived */
	bool ended;  /* a connection has ended since the library ran */
	struct MHD_Response *metrics, *readiness;
	bool ready;
	sd_event_source *io, *timer;
	sd_event_source *pressure; /* others wait for a place; while all are taken */
	struct client clients[HTTP_CLIENTS_MAX];
};

/* --- requests --- */

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status,
	const char *content_type, const char *text)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result respond_plain(
	struct MHD_Connection *connection, unsigned status, const char *text)
{
	return respond(connection, status, TEXT_PLAIN, text);
}

/* The answer needs the state of the supervisor. */
static enum MHD_Result ask(struct client *client)
{
	struct http_server *server = client->server;

	client->end = now_usec(CLOCK_MONOTONIC) + HTTP_REQUEST_TIME;
	client->asked = client->waits = true;
	MHD_suspend_connection(client->connection);
	if (!server->wanted) {
		server->wanted = true;
		server->on_wanted(server->userdata);
	}
	return MHD_YES;
}

static enum MHD_Result answer(struct client *client, unsigned status, struct MHD_Response *response)
{
	client->end = now_usec(CLOCK_MONOTONIC) + HTTP_REQUEST_TIME;
	return response
		? MHD_queue_response(client->connection, status, response)
		: respond_plain(client->connection, MHD_HTTP_SERVICE_UNAVAILABLE, TEXT_UNAVAILABLE);
}

static enum MHD_Result handle_metrics(struct client *client)
{
	return client->asked ? answer(client, MHD_HTTP_OK, client->server->metrics) : ask(client);
}

static enum MHD_Result handle_readiness(struct client *client)
{
	const struct http_server *server = client->server;
	unsigned status = server->ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;

	return client->asked ? answer(client, status, server->readiness) : ask(client);
}

static struct client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static enum MHD_Result on_request(void *userdata, struct MHD_Connection *connection,
	const char *url, const char *method, const char *version, const char *upload_data,
	size_t *upload_data_size, void **request)
{
	static int seen;
	struct client *client = client_of(connection);

	/* The first call only announces the headers; an answer is possible when the whole request
	 * has arrived. */
	if (!*request) {
		*request = &seen;
		return client ? MHD_YES : MHD_NO;
	}
	client->idle = false;
	if (*upload_data_size > 0 ||
		(!streq(method, MHD_HTTP_METHOD_GET) && !streq(method, MHD_HTTP_METHOD_HEAD))) {
		*upload_data_size = 0;
		return respond_plain(connection, MHD_HTTP_METHOD_NOT_ALLOWED, TEXT_METHOD);
	}
	if (streq(url, "/metrics"))
		return handle_metrics(client);
	if (streq(url, "/readyz"))
		return handle_readiness(client);
	if (streq(url, "/healthz"))
		return respond_plain(connection, MHD_HTTP_OK, TEXT_HEALTHY);
	return streq(url, "/") ? respond_plain(connection, MHD_HTTP_OK, TEXT_ROOT)
			       : respond_plain(connection, MHD_HTTP_NOT_FOUND, TEXT_NOT_FOUND);
}

/* --- connections --- */

static void begin_client(
	struct http_server *server, struct MHD_Connection *connection, void **context)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	for (size_t i = 0; i < HTTP_CLIENTS_MAX; i++) {
		struct client *client = &server->clients[i];

		if (client->connection)
			continue;
		*client = (struct client){
			.connection = connection,
			.server = server,
			.begun = now,
			.end = now + HTTP_REQUEST_TIME,
			.idle = true,
		};
		*context = client;
		return;
	}
}

static void on_connection(void *userdata, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct http_server *server = userdata;
	struct client *client = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		begin_client(server, connection, context);
	else if (client)
		*client = (struct client){ 0 };
	server->ended |= code != MHD_CONNECTION_NOTIFY_STARTED;
}

static void end_client(struct client *client)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(client->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (info)
		(void)shutdown(info->connect_fd, SHUT_RDWR);
	client->end = now_usec(CLOCK_MONOTONIC) + HTTP_REQUEST_TIME;
	client->idle = false;
}

/* Ends connections whose time is over. Returns when the next one is due, or USEC_INFINITY. */
static uint64_t end_overdue(struct http_server *server)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC), next = USEC_INFINITY;

	for (size_t i = 0; i < HTTP_CLIENTS_MAX; i++) {
		struct client *client = &server->clients[i];

		/* A waiting connection is answered in bounded time, and cannot be ended earlier. */
		if (!client->connection || client->waits)
			continue;
		if (client->end > now) {
			next = MIN_OF(next, client->end);
			continue;
		}
		end_client(client);
		next = MIN_OF(next, now + 10 * USEC_PER_MSEC);
	}
	return next;
}

/* The connection to close for a waiting client, or NULL if there is a free place or all have sent a
 * request. */
static struct client *find_oldest_idle(struct http_server *server)
{
	struct client *oldest = NULL;

	for (size_t i = 0; i < HTTP_CLIENTS_MAX; i++) {
		struct client *client = &server->clients[i];

		if (!client->connection)
			return NULL;
		if (client->idle && (!oldest || client->begun < oldest->begun))
			oldest = client;
	}
	return oldest;
}

/* --- the loop --- */

/* Watches for waiting clients if a connection could be closed for them now. Returns when one
 * can. */
static uint64_t plan_pressure(struct http_server *server)
{
	const struct client *oldest = find_oldest_idle(server);
	uint64_t at = oldest ? oldest->begun + HTTP_REQUEST_TIME_MIN : USEC_INFINITY;
	bool due = oldest && at <= now_usec(CLOCK_MONOTONIC);

	(void)sd_event_source_set_enabled(server->pressure, due ? SD_EVENT_ON : SD_EVENT_OFF);
	return due ? USEC_INFINITY : at;
}

static void plan(struct http_server *server)
{
	uint64_t next = end_overdue(server), pressure = plan_pressure(server);
	MHD_UNSIGNED_LONG_LONG milliseconds;

	next = MIN_OF(next, pressure);
	if (MHD_get_timeout(server->daemon, &milliseconds) == MHD_YES)
		next = MIN_OF(next, now_usec(CLOCK_MONOTONIC) + milliseconds * USEC_PER_MSEC);
	if (next != USEC_INFINITY)
		(void)sd_event_source_set_time(server->timer, next);
	(void)sd_event_source_set_enabled(
		server->timer, next == USEC_INFINITY ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

static void run(struct http_server *server)
{
	/* At the limit of connections, the library stops listening until it runs after a connection
	 * ended. */
	do {
		server->ended = false;
		(void)MHD_run(server->daemon);
	} while (server->ended);
	plan(server);
}

/* Reads the received data first, because connections with a complete request stay. */
static int on_pressure(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct http_server *server = userdata;
	struct client *oldest;

	run(server);
	oldest = find_oldest_idle(server);
	if (oldest && oldest->begun + HTTP_REQUEST_TIME_MIN <= now_usec(CLOCK_MONOTONIC)) {
		end_client(oldest);
		run(server);
	}
	return 0;
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	run(userdata);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	run(userdata);
	return 0;
}

/* Takes the text. */
static struct MHD_Response *make_response(char *text, size_t size, const char *content_type)
{
	struct MHD_Response *response;

	if (!text)
		return NULL;
	response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		free(text);
		return NULL;
	}
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	return response;
}

static void drop_answer(struct http_server *server)
{
	if (server->metrics)
		MHD_destroy_response(server->metrics);
	if (server->readiness)
		MHD_destroy_response(server->readiness);
	server->metrics = server->readiness = NULL;
}

void http_server_answer(struct http_server *server, struct http_answer *answer)
{
	char *readiness = TAKE_PTR(answer->readiness);

	drop_answer(server);
	server->metrics =
		make_response(TAKE_PTR(answer->metrics), answer->size, EXPOSITION_CONTENT_TYPE);
	server->readiness = make_response(readiness, readiness ? strlen(readiness) : 0, TEXT_PLAIN);
	server->ready = answer->ready;
	server->wanted = false;
	for (size_t i = 0; i < HTTP_CLIENTS_MAX; i++)
		if (server->clients[i].waits) {
			server->clients[i].waits = false;
			MHD_resume_connection(server->clients[i].connection);
		}
	/* Resumed clients are answered in this turn and keep a reference to the text. */
	run(server);
	drop_answer(server);
}

_printf_(2, 0) static void on_library_message(void *userdata, const char *format, va_list ap)
{
	char text[256];

	(void)vsnprintf(text, sizeof(text), format, ap);
	text[strcspn(text, "\n")] = '\0';
	log_debug("libmicrohttpd: %s", text);
}

int http_server_new(sd_event *event, int fd, http_wanted_handler on_wanted, void *userdata,
	struct http_server **ret)
{
	_cleanup_(http_server_freep) struct http_server *server = calloc(1, sizeof(*server));
	const union MHD_DaemonInfo *info;
	int r;

	if (!server) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	server->on_wanted = on_wanted;
	server->userdata = userdata;
	server->daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
		on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_library_message, server,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, HTTP_CLIENTS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(HTTP_REQUEST_TIME / USEC_PER_SEC),
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
	if (!server->daemon) {
		(void)close_fd(fd);
		return -EIO;
	}
	info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -EIO;
	r = sd_event_add_io(event, &server->io, info->epoll_fd, EPOLLIN, on_io, server);
	if (r >= 0)
		r = sd_event_add_io(event, &server->pressure, fd, EPOLLIN, on_pressure, server);
	if (r >= 0)
		r = sd_event_add_time(event, &server->timer, CLOCK_MONOTONIC, USEC_INFINITY,
			10 * USEC_PER_MSEC, on_timer, server);
	if (r < 0)
		return r;
	plan(server);
	*ret = TAKE_PTR(server);
	return 0;
}

struct http_server *http_server_free(struct http_server *server)
{
	if (!server)
		return NULL;
	server->io = sd_event_source_disable_unref(server->io);
	server->timer = sd_event_source_disable_unref(server->timer);
	server->pressure = sd_event_source_disable_unref(server->pressure);
	for (size_t i = 0; i < HTTP_CLIENTS_MAX; i++)
		if (server->clients[i].waits)
			MHD_resume_connection(server->clients[i].connection);
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	drop_answer(server);
	free(server);
	return NULL;
}
