/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files say what is wanted, a reconciler brings it about: every second, unregistrations first, one
 * operation at a time for each socket. A socket that is removed and made again is another one. What
 * happens to the plugin's stream is of no interest here, as in the kubelet.
 */
#include "plugin-watcher.h"

#include <dirent.h>
#include <limits.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "connection.h"
#include "file.h"
#include "plugin-call.h"
#include "plugin-dir.h"
#include "pluginregistration.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "registrar.h"
#include "registration.h"
#include "text.h"

#define RECONCILE_INTERVAL (1 * USEC_PER_SEC)
#define GET_INFO_TIMEOUT   (1 * USEC_PER_SEC)
#define NOTIFY_TIMEOUT     (5 * USEC_PER_SEC)
#define BACKOFF_FIRST      (500 * USEC_PER_MSEC)
#define BACKOFF_MAX        (122 * USEC_PER_SEC)
#define DIRECTORY_DEPTH    8
#define PLUGIN_TYPE        "DevicePlugin"

/* A socket that was seen. Outlives its file until the reconciler has taken note of that. */
struct plugin_socket {
	struct register_request request; /* first: while the connection is being made */
	struct plugin_watcher *watcher;
	struct plugin_socket *next;
	char *path;
	uint64_t wanted;               /* which incarnation is there, 0: none */
	uint64_t current;              /* which one is registered, 0: none */
	uint64_t trying;               /* which one an operation works on, 0: none is under way */
	char *resource;                /* as registered, or while that is tried */
	struct connection *connection; /* to this socket, during an operation */
	uint64_t backoff, not_before;
};

struct watched_directory {
	struct plugin_watcher *watcher;
	struct watched_directory *next;
	unsigned depth;
	sd_event_source *source;
	char path[];
};

struct plugin_watcher {
	struct manager *manager;
	sd_event_source *timer;
	struct watched_directory *directories;
	struct plugin_socket *sockets;
	uint64_t incarnations;
	bool stopping;
};

static void emit(const struct plugin_socket *socket, const char *event, const char *error)
{
	manager_emit(socket->watcher->manager,
		json_pack("{s:s, s:o, s:s?, s:o*}", "event", event, "socket",
			text_json(socket->path), "resource", socket->resource, "error",
			error ? text_json(error) : NULL));
}

/* --- one operation --- */

static void end_operation(struct plugin_socket *socket)
{
	struct connection *connection = TAKE_PTR(socket->connection);

	socket->trying = 0;
	if (!connection)
		return;
	connection_close(connection);
	connection_release(connection);
}

static void note_failure(struct plugin_socket *socket, const char *why)
{
	emit(socket, "watcher-failed", why);
	socket->backoff =
		socket->backoff > 0 ? MIN_OF(socket->backoff * 2, BACKOFF_MAX) : BACKOFF_FIRST;
	socket->not_before = manager_now() + socket->backoff;
}

static void fail(struct plugin_socket *socket, const char *why)
{
	note_failure(socket, why);
	end_operation(socket);
}

static void on_failure_told(struct manager *manager, const struct answer *answer, void *userdata)
{
	end_operation(userdata);
}

static void on_success_told(struct manager *manager, const struct answer *answer, void *userdata)
{
	struct plugin_socket *socket = userdata;

	if (answer->error) {
		connection_deregister(manager, socket->resource);
		fail(socket, answer->error);
		return;
	}
	socket->current = socket->trying;
	socket->backoff = 0;
	emit(socket, "watcher-registered", NULL);
	end_operation(socket);
}

static int notify(struct plugin_socket *socket, const char *error, answer_handler handler)
{
	Pluginregistration__RegistrationStatus status =
		PLUGINREGISTRATION__REGISTRATION_STATUS__INIT;

	status.plugin_registered = !error;
	status.error = (char *)(uintptr_t)(error ? error : "");
	return connection_call(socket->connection, METHOD_NOTIFY_REGISTRATION_STATUS, &status.base,
		NOTIFY_TIMEOUT, handler, socket);
}

/* The plugin is told why; the operation ends when it has taken note. */
static void refuse(struct plugin_socket *socket, const char *why, const char *words)
{
	char text[640];

	(void)snprintf(text, sizeof(text), "RegisterPlugin error -- %s: %s", why, words);
	note_failure(socket, text);
	if (notify(socket, text, on_failure_told) < 0)
		end_operation(socket);
}

static void on_connected(struct register_request *request, const char *error)
{
	struct plugin_socket *socket = (struct plugin_socket *)request;

	if (socket->watcher->stopping)
		return;
	if (error)
		refuse(socket, "plugin registration failed with err", error);
	else if (notify(socket, NULL, on_success_told) < 0)
		fail(socket, "out of memory");
}

static void register_plugin(
	struct plugin_socket *socket, const Pluginregistration__PluginInfo *info)
{
	struct manager *manager = socket->watcher->manager;
	const char *endpoint = info->endpoint[0] ? info->endpoint : socket->path;
	struct resource *resource;
	struct error error = {};
	char words[480];

	if (!streq(info->type, PLUGIN_TYPE)) {
		(void)snprintf(
			words, sizeof(words), "%.160s at socket %.240s", info->type, socket->path);
		refuse(socket, "no handler registered for plugin type", words);
		return;
	}
	if (registration_check_info(
		    info->name, info->supported_versions, info->n_supported_versions, &error) < 0) {
		refuse(socket, "plugin validation failed with err", error.message);
		return;
	}
	free(socket->resource);
	socket->resource = strdup(info->name);
	manager_emit(manager,
		json_pack("{s:s, s:s, s:o, s:s, s:o}", "event", "register", "resource", info->name,
			"endpoint", text_json(endpoint), "version", DEVICE_PLUGIN_VERSION, "socket",
			text_json(socket->path)));
	if (!socket->resource || model_get_resource(manager->model, info->name, &resource) < 0 ||
		connection_start(manager, info->name, endpoint, endpoint, &socket->request) < 0)
		refuse(socket, "plugin registration failed with err", "out of memory");
}

static void on_info(struct manager *manager, const struct answer *answer, void *userdata)
{
	struct plugin_socket *socket = userdata;
	_cleanup_message_ struct message message = {};
	char text[640];

	if (!answer->error)
		message = message_unpack(
			&pluginregistration__plugin_info__descriptor, answer->data, answer->size);
	if (message.base) {
		register_plugin(socket, (const Pluginregistration__PluginInfo *)message.base);
		return;
	}
	(void)snprintf(text, sizeof(text),
		"RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket %.200s, err: %.300s",
		socket->path, answer->error ? answer->error : answer_unreadable);
	fail(socket, text);
}

/* What a Go client without an authority of its own sends for a socket. */
static char *authority_of(const char *path)
{
	static const char plain[] = "-._~";
	char *authority = malloc(strlen(path) * 3 + 1), *end = authority;

	for (; authority && *path; path++) {
		unsigned char c = (unsigned char)*path;
		bool alnum =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (alnum || strchr(plain, c))
			*end++ = (char)c;
		else
			end += sprintf(end, "%%%02X", c);
	}
	if (authority)
		*end = '\0';
	return authority;
}

static int ask(struct plugin_socket *socket)
{
	Pluginregistration__InfoRequest request = PLUGINREGISTRATION__INFO_REQUEST__INIT;
	_cleanup_free_ char *authority = authority_of(socket->path);
	int fd, r;

	if (!authority)
		return -ENOMEM;
	r = connection_new(
		socket->watcher->manager, "", socket->path, socket->path, &socket->connection);
	if (r < 0)
		return r;
	r = socket_connect(socket->path, &fd);
	if (r >= 0)
		r = rpc_client_new_for(fd, authority, &socket->connection->client);
	if (r < 0)
		return r;
	return connection_call(socket->connection, METHOD_GET_INFO, &request.base, GET_INFO_TIMEOUT,
		on_info, socket);
}

static void begin_operation(struct plugin_socket *socket)
{
	char text[400];
	int r;

	socket->trying = socket->wanted;
	r = ask(socket);
	if (r >= 0)
		return;
	(void)snprintf(text, sizeof(text),
		"RegisterPlugin error -- dial failed at socket %.200s, err: %s", socket->path,
		strerror(-r));
	fail(socket, text);
}

/* --- reconciling --- */

static void socket_free(struct plugin_socket *socket)
{
	struct plugin_socket **s = &socket->watcher->sockets;

	while (*s != socket)
		s = &(*s)->next;
	*s = socket->next;
	free(socket->path);
	free(socket->resource);
	free(socket);
}

static void reconcile_socket(struct plugin_socket *socket)
{
	if (socket->trying > 0)
		return;
	if (socket->current > 0 && socket->current != socket->wanted) {
		emit(socket, "watcher-unregistered", NULL);
		connection_deregister(socket->watcher->manager, socket->resource);
		socket->current = 0;
		return;
	}
	if (socket->wanted == 0)
		socket_free(socket);
	else if (socket->current == 0 && manager_now() >= socket->not_before)
		begin_operation(socket);
}

static int on_reconcile(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin_watcher *watcher = userdata;
	struct plugin_socket *next;
	int r;

	for (struct plugin_socket *s = watcher->sockets; s; s = next) {
		next = s->next;
		reconcile_socket(s);
	}
	r = sd_event_source_set_time_relative(source, RECONCILE_INTERVAL);
	return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* --- files --- */

static struct plugin_socket *find_socket(struct plugin_watcher *watcher, const char *path)
{
	for (struct plugin_socket *s = watcher->sockets; s; s = s->next)
		if (streq(s->path, path))
			return s;
	return NULL;
}

static int add_socket(struct plugin_watcher *watcher, const char *path)
{
	struct plugin_socket *socket = find_socket(watcher, path);

	if (!socket) {
		socket = calloc(1, sizeof(*socket));
		if (!socket)
			return -ENOMEM;
		socket->path = strdup(path);
		if (!socket->path) {
			free(socket);
			return -ENOMEM;
		}
		socket->request.answer = on_connected;
		socket->watcher = watcher;
		socket->next = watcher->sockets;
		watcher->sockets = socket;
	}
	socket->wanted = ++watcher->incarnations;
	return 0;
}

static int add_directory(struct plugin_watcher *watcher, const char *path, unsigned depth);

static int add_entry(const struct watched_directory *directory, const char *name)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/%s", directory->path, name);

	if (name[0] == '.' || n < 0 || (size_t)n >= sizeof(path) || stat(path, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return add_directory(directory->watcher, path, directory->depth + 1);
	return S_ISSOCK(st.st_mode) ? add_socket(directory->watcher, path) : 0;
}

static int on_file(sd_event_source *source, const struct inotify_event *event, void *userdata)
{
	struct watched_directory *directory = userdata;
	struct plugin_socket *socket;
	char path[PATH_MAX];

	if (event->len == 0)
		return 0;
	if (event->mask & (IN_CREATE | IN_MOVED_TO)) {
		if (add_entry(directory, event->name) < 0)
			manager_emit(directory->watcher->manager,
				json_pack(
					"{s:s, s:s}", "event", "error", "error", "out of memory"));
		return 0;
	}
	(void)snprintf(path, sizeof(path), "%s/%s", directory->path, event->name);
	socket = find_socket(directory->watcher, path);
	if (socket)
		socket->wanted = 0;
	return 0;
}

static int walk(const struct watched_directory *directory)
{
	DIR *dir = opendir(directory->path);
	const struct dirent *entry;
	int r = 0;

	/* It may be gone already. */
	if (!dir)
		return 0;
	while (r >= 0 && (entry = readdir(dir)))
		r = add_entry(directory, entry->d_name);
	(void)closedir(dir);
	return r;
}

static int add_directory(struct plugin_watcher *watcher, const char *path, unsigned depth)
{
	struct watched_directory *directory;
	int r;

	if (depth > DIRECTORY_DEPTH)
		return 0;
	directory = calloc(1, sizeof(*directory) + strlen(path) + 1);
	if (!directory)
		return -ENOMEM;
	directory->watcher = watcher;
	directory->depth = depth;
	(void)stpcpy(directory->path, path);
	r = sd_event_add_inotify(watcher->manager->event, &directory->source, path,
		IN_CREATE | IN_MOVED_TO | IN_DELETE, on_file, directory);
	if (r < 0) {
		free(directory);
		return depth > 0 && r == -ENOENT ? 0 : r;
	}
	directory->next = watcher->directories;
	watcher->directories = directory;
	return walk(directory);
}

int plugin_watcher_new(struct manager *manager, const char *directory, struct plugin_watcher **ret,
	struct error *error)
{
	struct plugin_watcher *watcher = calloc(1, sizeof(*watcher));
	int r;

	if (!watcher)
		return error_set(error, -ENOMEM, "out of memory");
	watcher->manager = manager;
	r = make_directory(directory, 0755);
	if (r >= 0)
		r = add_directory(watcher, directory, 0);
	if (r >= 0)
		r = sd_event_add_time_relative(manager->event, &watcher->timer, CLOCK_MONOTONIC, 0,
			1, on_reconcile, watcher);
	if (r < 0) {
		(void)plugin_watcher_free(watcher);
		return error_set(error, r, "cannot watch %s: %s", directory, strerror(-r));
	}
	*ret = watcher;
	return 0;
}

void plugin_watcher_stop(struct plugin_watcher *watcher)
{
	if (watcher)
		watcher->stopping = true;
}

struct plugin_watcher *plugin_watcher_free(struct plugin_watcher *watcher)
{
	struct watched_directory *next;

	if (!watcher)
		return NULL;
	sd_event_source_disable_unref(watcher->timer);
	for (struct watched_directory *d = watcher->directories; d; d = next) {
		next = d->next;
		sd_event_source_disable_unref(d->source);
		free(d);
	}
	while (watcher->sockets)
		socket_free(watcher->sockets);
	free(watcher);
	return NULL;
}
