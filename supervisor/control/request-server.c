/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides who may connect to the control sockets and which requests are answered. The mode of a
 * socket decides who can connect; the peer's credentials from the kernel decide who may change
 * something. A client has one request at a time; while it waits for its answer nothing is read from
 * it. The documents of devices are sent as the client reads them. Clients that may only read take
 * turns, in the order of their requests. Clients are freed from their own callbacks or from
 * request_server_changed(), so no pointer to one may be kept over such a call.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/accounts.h"
#include "common/foreign.h"
#include "common/pace.h"
#include "common/request-message.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/control/request-server.h"
#include "supervisor/control/request.h"
#include "supervisor/files/runtime-files.h"

#define BACKLOG        64
#define TIMER_ACCURACY (10 * USEC_PER_MSEC)
/* The size of the buffer of a client's socket, in bytes; the kernel doubles it. It has room for the
 * longest packet, and bounds the descriptors that wait for clients: the kernel allows a user as
 * many of them in all sockets as open files. */
#define SEND_BUFFER 32768

struct client {
	struct request_server *server;
	int fd;
	bool privileged;
	sd_event_source *source, *timer;
	uint64_t waits_since; /* for its turn; 0: it does not */
	bool has_turn;
	const struct verb *verb; /* of the request that waits, NULL: none */
	struct request request;
	json_t *arguments;
	bool sending; /* documents of devices */
	size_t next;  /* the child whose document is the next */
};

struct listener {
	struct request_server *server;
	const char *name;
	int fd;
	sd_event_source *source;
};

struct request_server {
	struct manager *manager;
	struct listener listeners[2];
	struct pace others;    /* the requests of all clients that may only read */
	sd_event_source *turn; /* of the next of them */
	struct client *clients[REQUEST_CLIENTS_MAX]; /* NULL: free place */
};

static struct client *client_free(struct client *client)
{
	if (!client)
		return NULL;
	for (size_t i = 0; i < REQUEST_CLIENTS_MAX; i++)
		if (client->server->clients[i] == client)
			client->server->clients[i] = NULL;
	sd_event_source_disable_unref(client->source);
	sd_event_source_disable_unref(client->timer);
	(void)foreign_close_socket(client->fd);
	json_decref(client->arguments);
	free(client);
	return NULL;
}
DEFINE_CLEANUP(struct client *, client_free)

int request_string(
	const struct request *request, const char *key, const char **ret, struct error *error)
{
	const json_t *member = json_object_get(request->arguments, key);

	if (member && !json_is_string(member))
		return error_set(error, -EINVAL, "\"%s\" must be a string", key);
	*ret = json_string_value(member);
	return 0;
}

/* --- answers --- */

/* Takes the reference. */
static int send_document(int fd, json_t *document)
{
	_cleanup_free_ char *text = NULL;

	if (document &&
		json_object_set_new(document, "version", json_integer(REQUEST_VERSION)) >= 0)
		text = json_dumps(document, JSON_COMPACT);
	json_decref(document);
	return text ? request_send(fd, text, strlen(text)) : -ENOMEM;
}

static json_t *describe_error(const struct error *error, int code)
{
	return json_pack("{s:s, s:s}", "error", error->code < 0 ? error->message : strerror(-code),
		"errno", strerrorname_np(-code) ?: "EIO");
}

static int set_timer(struct client *client, uint64_t timeout)
{
	int r = sd_event_source_set_time(client->timer, now_usec(CLOCK_MONOTONIC) + timeout);

	return r < 0 ? r : sd_event_source_set_enabled(client->timer, SD_EVENT_ONESHOT);
}

/* -EAGAIN: the client has to read first. */
static int send_devices(struct client *client)
{
	const struct manager *manager = client->server->manager;

	for (; client->next < manager->n_children; client->next++) {
		const struct child *child = manager->children[client->next];
		int r = child->devices_fd < 0 ? 0
					      : request_send_devices(client->fd,
							child->resource->name, child->devices_fd);

		if (r < 0)
			return r;
	}
	return request_send(client->fd, "{}", 2);
}

/* When the answer is sent, the client can send its next request; if anything failed, it is freed.
 */
static void go_on(struct client *client, int r)
{
	if (r >= 0 && client->sending)
		r = send_devices(client);
	client->sending = client->sending && r == -EAGAIN;
	if (client->sending)
		r = 0;
	if (r >= 0)
		r = set_timer(client, REQUEST_IDLE_TIMEOUT);
	if (r >= 0)
		r = sd_event_source_set_io_events(
			client->source, client->sending ? EPOLLOUT : EPOLLIN);
	if (r < 0)
		(void)client_free(client);
}

static void answer(struct client *client, json_t *document)
{
	int r = send_document(client->fd, document);

	client->sending = r >= 0 && client->request.devices_follow;
	client->next = 0;
	client->verb = NULL;
	json_decref(client->arguments);
	client->arguments = NULL;
	go_on(client, r);
}

static void answer_error(struct client *client, const struct error *error, int code)
{
	answer(client, describe_error(error, code));
}

static void handle(struct client *client)
{
	struct error error = { 0 };
	json_t *document = NULL;
	bool first = client->request.first;
	int r;

	if (client->sending) {
		go_on(client, 0);
		return;
	}
	r = client->verb->handle(&client->request, &document, &error);
	client->request.first = false;
	if (r == REQUEST_LATER && client->request.expired)
		r = error_set(&error, -ETIMEDOUT, "timed out after %u s", client->verb->timeout);
	if (r < 0) {
		answer_error(client, &error, r);
		return;
	}
	if (r == 0) {
		answer(client, document ?: json_object());
		return;
	}
	/* With no events, only the end of the connection is reported. */
	if (first &&
		(set_timer(client, client->verb->timeout * USEC_PER_SEC) < 0 ||
			sd_event_source_set_io_events(client->source, 0) < 0))
		(void)client_free(client);
}

static void serve(struct client *client)
{
	struct pace *pace = client->privileged ? NULL : &client->server->others;
	uint64_t due;

	if (!pace) {
		handle(client);
		return;
	}
	due = pace->not_before;
	pace_begin(pace);
	handle(client);
	(void)pace_end(pace, USEC_PER_SEC / REQUEST_RATE);
	/* Several clients may be answered at once; their pauses add up. */
	if (due > pace->begun)
		pace->not_before += due - pace->begun;
}

/* --- turns --- */

static struct client *find_next(const struct request_server *server)
{
	struct client *next = NULL;

	for (size_t i = 0; i < REQUEST_CLIENTS_MAX; i++) {
		struct client *client = server->clients[i];

		if (client && client->waits_since > 0 &&
			(!next || client->waits_since < next->waits_since))
			next = client;
	}
	return next;
}

static int plan_turn(struct request_server *server, uint64_t at)
{
	int r = sd_event_source_set_time(server->turn, at);

	return r < 0 ? r : sd_event_source_set_enabled(server->turn, SD_EVENT_ONESHOT);
}

/* Whether the client has to wait for its turn. */
static bool must_wait(struct client *client)
{
	struct request_server *server = client->server;
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	bool idle = server->others.not_before <= now && !find_next(server);

	if (client->privileged || client->has_turn || idle) {
		client->has_turn = false;
		return false;
	}
	/* While its source is off, not even the end of the connection is reported. */
	if (plan_turn(server, pace_next(&server->others)) < 0 ||
		sd_event_source_set_enabled(client->source, SD_EVENT_OFF) < 0)
		return false;
	client->waits_since = now;
	return true;
}

static int on_turn(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct request_server *server = userdata;
	uint64_t now = now_usec(CLOCK_MONOTONIC), next_turn = server->others.not_before;
	struct client *next = find_next(server);

	if (next && next_turn <= now) {
		next->waits_since = 0;
		next->has_turn = true;
		next_turn = now + USEC_PER_SEC / REQUEST_RATE;
		if (sd_event_source_set_enabled(next->source, SD_EVENT_ON) < 0)
			(void)client_free(next);
	}
	if (find_next(server))
		(void)plan_turn(server, next_turn);
	return 0;
}

/* --- requests --- */

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < n_verbs; i++)
		if (streq(verbs[i].name, name))
			return &verbs[i];
	return NULL;
}

/* Returns the verb or NULL with the error filled. */
static const struct verb *check_request(
	const struct client *client, const json_t *document, struct error *error)
{
	const char *name = json_string_value(json_object_get(document, "verb"));
	const struct verb *verb;

	if (json_integer_value(json_object_get(document, "version")) != REQUEST_VERSION) {
		(void)error_set(error, -EPROTO,
			"the request is not a JSON object with \"version\": %d", REQUEST_VERSION);
		return NULL;
	}
	verb = name ? find_verb(name) : NULL;
	if (!verb) {
		(void)error_set(error, -EOPNOTSUPP, "unknown verb \"%.64s\"", name ?: "");
		return NULL;
	}
	if (verb->needs_root && !client->privileged) {
		(void)error_set(error, -EPERM, "\"%s\" needs root", verb->name);
		return NULL;
	}
	return verb;
}

static void take_request(struct client *client, const char *text, size_t size)
{
	struct error error = { 0 };

	client->arguments = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	client->verb = check_request(client, client->arguments, &error);
	if (!client->verb) {
		answer_error(client, &error, error.code);
		return;
	}
	client->request = (struct request){
		.manager = client->server->manager,
		.arguments = client->arguments,
		.first = true,
		.asked_at = now_usec(CLOCK_MONOTONIC),
	};
	serve(client);
}

static int on_client(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct client *client = userdata;
	char text[REQUEST_MAX + 1];
	size_t size;
	int r;

	if (client->verb) {
		(void)client_free(client);
		return 0;
	}
	if (must_wait(client))
		return 0;
	if (client->sending) {
		serve(client);
		return 0;
	}
	r = request_receive(fd, text, &size);
	if (r == -EAGAIN)
		return 0;
	if (r < 0)
		(void)client_free(client);
	else
		take_request(client, text, size);
	return 0;
}

static int on_client_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct client *client = userdata;

	if (!client->verb) {
		(void)client_free(client);
		return 0;
	}
	client->request.expired = true;
	serve(client);
	return 0;
}

void request_server_changed(struct request_server *server)
{
	for (size_t i = 0; i < REQUEST_CLIENTS_MAX; i++)
		if (server->clients[i] && server->clients[i]->verb)
			serve(server->clients[i]);
}

/* --- clients --- */

static bool is_privileged(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
		(peer.uid == 0 || peer.uid == geteuid());
}

/* Returns the free place for one more client, or NULL. */
static struct client **find_place(struct request_server *server, bool privileged)
{
	struct client **place = NULL;
	unsigned others = 0;

	for (size_t i = 0; i < REQUEST_CLIENTS_MAX; i++) {
		if (!server->clients[i])
			place = &server->clients[i];
		else if (!server->clients[i]->privileged)
			others++;
	}
	return !privileged && others >= REQUEST_OTHER_CLIENTS_MAX ? NULL : place;
}

static int add_client(struct request_server *server, int fd)
{
	static const int send_buffer = SEND_BUFFER;
	_cleanup_(client_freep) struct client *client = calloc(1, sizeof(*client));
	sd_event *event = server->manager->event;
	struct client **place;
	int r;

	if (!client) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	client->server = server;
	client->fd = fd;
	client->privileged = is_privileged(fd);
	place = find_place(server, client->privileged);
	if (!place)
		return -EUSERS;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
	r = sd_event_add_io(event, &client->source, fd, EPOLLIN, on_client, client);
	if (r >= 0 && client->privileged)
		r = sd_event_source_set_ratelimit(client->source, USEC_PER_SEC, REQUEST_RATE);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &client->timer, CLOCK_MONOTONIC,
			REQUEST_IDLE_TIMEOUT, TIMER_ACCURACY, on_client_timer, client);
	if (r < 0)
		return r;
	*place = TAKE_PTR(client);
	return 0;
}

static int on_connection(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	const struct listener *listener = userdata;
	int client_fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	/* A client that finds no place sees the end of its connection. */
	if (client_fd >= 0)
		(void)add_client(listener->server, client_fd);
	return 0;
}

/* --- the sockets --- */

/* Lets the group connect, if the host has the group and we may change the socket's group. */
static void admit_group(int directory_fd)
{
	gid_t group;

	if (account_find_group(REQUEST_GROUP, &group) >= 0 &&
		fchownat(directory_fd, REQUEST_VIEW_SOCKET, (uid_t)-1, group, 0) == 0)
		(void)fchmodat(directory_fd, REQUEST_VIEW_SOCKET, 0660, 0);
}

static int listen_there(struct listener *listener, int directory_fd)
{
	int r;

	/* The lock of runtime_dir shows that no other daemon listens on it. */
	r = runtime_files_remove_any(directory_fd, listener->name);
	if (r < 0)
		return r;
	listener->fd = request_bind(directory_fd, listener->name);
	if (listener->fd < 0)
		return listener->fd;
	if (fcntl(listener->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return listen(listener->fd, BACKLOG) < 0 ? -errno : 0;
}

static int listen_at(struct listener *listener)
{
	const struct manager *manager = listener->server->manager;
	int r;

	listener->source = sd_event_source_disable_unref(listener->source);
	listener->fd = close_fd(listener->fd);
	r = listen_there(listener, runtime_files_directory(manager->files));
	if (r >= 0)
		r = sd_event_add_io(manager->event, &listener->source, listener->fd, EPOLLIN,
			on_connection, listener);
	if (r >= 0)
		r = sd_event_source_set_ratelimit(
			listener->source, USEC_PER_SEC, REQUEST_CONNECTION_RATE);
	return r < 0 ? r : 0;
}

int request_server_listen(struct request_server *server)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(server->listeners) && r >= 0; i++)
		r = listen_at(&server->listeners[i]);
	admit_group(runtime_files_directory(server->manager->files));
	return r;
}

bool request_server_is_there(const struct request_server *server)
{
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(server->listeners); i++)
		if (fstatat(runtime_files_directory(server->manager->files),
			    server->listeners[i].name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			!S_ISSOCK(st.st_mode))
			return false;
	return true;
}

int request_server_new(struct manager *manager, struct request_server **ret, struct error *error)
{
	static const char *const names[] = { REQUEST_SOCKET, REQUEST_VIEW_SOCKET };
	_cleanup_(request_server_freep) struct request_server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return error_set(error, -ENOMEM, "out of memory");
	server->manager = manager;
	for (size_t i = 0; i < ARRAY_SIZE(server->listeners); i++)
		server->listeners[i] =
			(struct listener){ .server = server, .name = names[i], .fd = -EBADF };
	r = sd_event_add_time(manager->event, &server->turn, CLOCK_MONOTONIC, USEC_INFINITY,
		USEC_PER_MSEC, on_turn, server);
	if (r >= 0)
		r = request_server_listen(server);
	if (r < 0)
		return error_set(error, r, "cannot listen on %s/%s: %s",
			manager->config->runtime_dir, REQUEST_SOCKET, strerror(-r));
	*ret = TAKE_PTR(server);
	return 0;
}

struct request_server *request_server_free(struct request_server *server)
{
	if (!server)
		return NULL;
	for (size_t i = 0; i < REQUEST_CLIENTS_MAX; i++)
		(void)client_free(server->clients[i]);
	for (size_t i = 0; i < ARRAY_SIZE(server->listeners); i++) {
		struct listener *listener = &server->listeners[i];

		sd_event_source_disable_unref(listener->source);
		if (listener->fd >= 0)
			runtime_files_remove(server->manager->files, listener->name);
		(void)close_fd(listener->fd);
	}
	sd_event_source_disable_unref(server->turn);
	free(server);
	return NULL;
}
