/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers the plugin behind a watched socket. An operation is a chain of calls; each call starts
 * the next one or ends in fail(). A failed operation may be retried after a pause that doubles. The
 * connection to the socket lasts as long as the operation.
 */
#include "kubelet/plugin-socket.h"

#include "kubelet/connection.h"
#include "kubelet/dra-driver.h"
#include "kubelet/plugin-call.h"
#include "kubelet/plugin-dir.h"
#include "kubelet/plugin-text.h"
#include "kubelet/registration-check.h"
#include "pluginregistration.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"

/* As grpc-go does: retries within a dial, each time after a longer pause. */
#define DIAL_TIMEOUT     (10 * USEC_PER_SEC)
#define DIAL_PAUSE       (1 * USEC_PER_SEC)
#define GET_INFO_TIMEOUT (1 * USEC_PER_SEC)
#define NOTIFY_TIMEOUT   (5 * USEC_PER_SEC)
#define BACKOFF_FIRST    (500 * USEC_PER_MSEC)
#define BACKOFF_MAX      (122 * USEC_PER_SEC)
#define PLUGIN_TYPE      "DevicePlugin"
#define DRIVER_TYPE      "DRAPlugin"

void plugin_socket_emit(const struct plugin_socket *socket, const char *event, const char *error)
{
	manager_emit(socket->manager,
		json_pack("{s:s, s:o, s:s?, s:o*}", "event", event, "socket",
			text_json(socket->path), "resource", socket->resource, "error",
			error ? text_json(error) : NULL));
}

void plugin_socket_deregister(struct plugin_socket *socket)
{
	if (socket->driver_endpoint)
		dra_driver_remove(socket->manager, socket->resource, socket->driver_endpoint);
	else
		connection_deregister(socket->manager, socket->resource);
}

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
	plugin_socket_emit(socket, "watcher-failed", why);
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
		plugin_socket_deregister(socket);
		fail(socket, answer->error);
		return;
	}
	socket->current = socket->trying;
	socket->backoff = 0;
	plugin_socket_emit(socket, "watcher-registered", NULL);
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

/* The plugin gets the reason; the operation ends when the plugin has received it. */
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

	if (socket->stopping)
		return;
	if (error) {
		/* Older kubelets treat it as registered until its file is removed. */
		if (!socket->manager->model->version->repeats_registration)
			socket->current = socket->trying;
		refuse(socket, "plugin registration failed with err", error);
	} else if (notify(socket, NULL, on_success_told) < 0) {
		fail(socket, "out of memory");
	}
}

static void register_driver(
	struct plugin_socket *socket, const Pluginregistration__PluginInfo *info)
{
	const char *endpoint = info->endpoint[0] ? info->endpoint : socket->path;
	struct error error = {};
	int r;

	free(socket->resource);
	free(socket->driver_endpoint);
	socket->resource = strdup(info->name);
	socket->driver_endpoint = strdup(endpoint);
	r = socket->resource && socket->driver_endpoint
		? dra_driver_add(socket->manager, info->name, endpoint, info->supported_versions,
			  info->n_supported_versions, &error)
		: error_set(&error, -ENOMEM, "out of memory");
	if (r < 0)
		refuse(socket, "plugin validation failed with err", error.message);
	else if (notify(socket, NULL, on_success_told) < 0) {
		plugin_socket_deregister(socket);
		fail(socket, "out of memory");
	}
}

static void register_plugin(
	struct plugin_socket *socket, const Pluginregistration__PluginInfo *info)
{
	struct manager *manager = socket->manager;
	const char *endpoint = info->endpoint[0] ? info->endpoint : socket->path;
	struct resource *resource;
	struct error error = {};
	char words[480];

	if (manager->model->version->dra && streq(info->type, DRIVER_TYPE)) {
		register_driver(socket, info);
		return;
	}
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
	free(socket->driver_endpoint);
	socket->driver_endpoint = NULL;
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

/* A Go client sends this :authority for a socket unless one is set. */
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

static void fail_dial(struct plugin_socket *socket, const char *why)
{
	char text[640];

	(void)snprintf(text, sizeof(text),
		"RegisterPlugin error -- dial failed at socket %.200s, err: failed to dial socket %.200s, err: %s",
		socket->path, socket->path, why);
	fail(socket, text);
}

static int ask(struct plugin_socket *socket, int number)
{
	Pluginregistration__InfoRequest request = PLUGINREGISTRATION__INFO_REQUEST__INIT;
	_cleanup_free_ char *authority = authority_of(socket->path);
	_cleanup_close_ int fd = number;
	int r;

	if (!authority)
		return -ENOMEM;
	r = connection_new(socket->manager, "", socket->path, socket->path, &socket->connection);
	if (r >= 0)
		r = channel_new(TAKE_FD(fd), authority, &socket->connection->client);
	if (r < 0)
		return r;
	return connection_call(socket->connection, METHOD_GET_INFO, &request.base, GET_INFO_TIMEOUT,
		on_info, socket);
}

static void dial(struct plugin_socket *socket);

static int on_dial_again(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin_socket *socket = userdata;

	sd_event_source_disable_unref(TAKE_PTR(socket->dial_source));
	dial(socket);
	return 0;
}

/* A file without a listener is tried again within the time of one dial. */
static void dial(struct plugin_socket *socket)
{
	uint64_t now = manager_now(), again = MIN_OF(now + socket->dial_pause, socket->dial_until);
	int fd, r;

	if (socket_connect(socket->path, &fd) >= 0) {
		r = ask(socket, fd);
	} else if (now >= socket->dial_until) {
		fail_dial(socket, "context deadline exceeded");
		return;
	} else {
		socket->dial_pause = socket->dial_pause * 8 / 5;
		r = sd_event_add_time(socket->manager->event, &socket->dial_source, CLOCK_MONOTONIC,
			again, 1, on_dial_again, socket);
	}
	if (r < 0)
		fail_dial(socket, strerror(-r));
}

void plugin_socket_register(struct plugin_socket *socket)
{
	socket->request.answer = on_connected;
	socket->trying = socket->wanted;
	socket->dial_pause = DIAL_PAUSE;
	socket->dial_until = manager_now() + DIAL_TIMEOUT;
	dial(socket);
}
