/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dialling, the options call, and what happens when a stream ends. A connection is freed after the
 * last mailbox message that refers to it was delivered. As in the kubelet, a connection that is not
 * disconnected stays open until it has been idle for half an hour.
 */
#include "kubelet/connection.h"

#include "kubelet/list-message.h"
#include "kubelet/plugin-call.h"
#include "kubelet/plugin-dir.h"
#include "kubelet/plugin-text.h"
#include "kubelet/pod-readmission.h"
#include "kubelet/registrar.h"
#include "kubelet/utf8-message.h"
#include "proto/message.h"
#include "proto/methods.h"

#define DIAL_TIMEOUT (10 * USEC_PER_SEC)
#define DIAL_BACKOFF (1 * USEC_PER_SEC)
#define IDLE_TIMEOUT (30 * 60 * USEC_PER_SEC)

static void fail_registration(struct connection *connection, const char *text)
{
	struct manager *manager = connection->manager;
	struct register_request *request = TAKE_PTR(connection->request);

	client_table_drop(&manager->model->clients, connection->resource, connection->path);
	manager_emit(manager,
		json_pack("{s:s, s:o, s:o, s:I, s:o}", "event", "register-refused", "resource",
			text_json(connection->resource), "endpoint",
			text_json(connection->endpoint), "connection",
			(json_int_t)connection->number, "error", text_json(text)));
	request->answer(request, text);
}

/* The plugin learns that it is registered. */
static void accept_registration(struct connection *connection)
{
	struct register_request *request = TAKE_PTR(connection->request);

	if (request)
		request->answer(request, NULL);
}

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct connection *connection = userdata;

	connection_close(connection);
	connection_release(connection);
	return 0;
}

/* The kubelet does not disconnect it; its gRPC binding closes an idle connection. */
static void let_idle(struct connection *connection)
{
	struct manager *manager = connection->manager;

	if (!connection->client)
		return;
	sd_event_source_disable_unref(TAKE_PTR(connection->timer));
	if (sd_event_add_time_relative(manager->event, &connection->timer, CLOCK_MONOTONIC,
		    IDLE_TIMEOUT / manager->options->time_scale, 0, on_idle, connection) < 0)
		connection_close(connection);
}

/* Disconnects the client with that number, as the kubelet does: closes its connection and drops all
 * devices of the resource, also those that another client listed. */
static void disconnect(struct manager *manager, const char *resource, uint64_t number)
{
	struct connection *connection = connection_find(manager, number);
	const struct resource *entry = model_find_resource(manager->model, resource);

	if (connection)
		connection_close(connection);
	if (!manager->model->clients.stale_stream_race && entry &&
		entry->endpoint.connection != number)
		return;
	if (!model_plugin_disconnected(manager->model, resource, manager_now()))
		return;
	manager_emit(manager,
		json_pack("{s:s, s:s, s:I}", "event", "disconnected", "resource", resource,
			"connection", (json_int_t)number));
	manager_changed(manager);
}

static void on_stream_ended(struct connection *connection, const char *error)
{
	struct manager *manager = connection->manager;
	uint64_t hit;

	if (!connection->streaming)
		return;
	connection->streaming = false;
	accept_registration(connection);
	hit = client_table_end(&manager->model->clients, connection->resource, connection->path);
	manager_emit(manager,
		json_pack("{s:s, s:s, s:o, s:I, s:o, s:I}", "event", "stream-ended", "resource",
			connection->resource, "endpoint", text_json(connection->endpoint),
			"connection", (json_int_t)connection->number, "error", text_json(error),
			"disconnects", (json_int_t)hit));
	if (hit > 0)
		disconnect(manager, connection->resource, hit);
}

static void on_stream_result(struct manager *manager, const struct answer *answer, void *userdata)
{
	struct connection *connection = userdata;

	on_stream_ended(connection, answer->error ? answer->error : "EOF");
	if (answer->status == RPC_UNAVAILABLE)
		connection_close(connection);
	let_idle(connection);
}

static void tell_list(
	struct connection *connection, const struct resource *resource, const struct list *list)
{
	const struct device_table *devices = resource->devices;
	const char *example = NULL;
	size_t missing = model_missing_devices(connection->manager->model, resource, &example);

	manager_emit(connection->manager,
		json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "event", "list",
			"resource", resource->name, "connection", (json_int_t)connection->number,
			"sequence", (json_int_t)resource->lists, "devices",
			(json_int_t)devices->count, "healthy", (json_int_t)devices->n_healthy,
			"unhealthy", (json_int_t)devices->n_unhealthy, "bytes",
			(json_int_t)list->size, "merged", (json_int_t)list->merged));
	if (missing > 0)
		manager_emit(connection->manager,
			json_pack("{s:s, s:s, s:I, s:o}", "event", "allocated-device-missing",
				"resource", resource->name, "devices", (json_int_t)missing,
				"example", text_json(example)));
}

static int take_list(struct connection *connection, const struct list *list)
{
	_cleanup_message_ struct message message = message_unpack(
		&v1beta1__list_and_watch_response__descriptor, list->data, list->size);
	struct manager *manager = connection->manager;
	struct device_table *devices;
	struct resource *resource;
	int r;

	if (!message.base)
		return -EBADMSG;
	if (manager->model->version->needs_utf8 && !message_is_utf8(message.base))
		return -EILSEQ;
	r = device_table_from_message(
		(const V1beta1__ListAndWatchResponse *)message.base, &devices);
	if (r >= 0)
		r = model_replace_devices(manager->model, connection->resource, devices);
	if (r >= 0)
		r = model_get_resource(manager->model, connection->resource, &resource);
	if (r < 0)
		return r;
	tell_list(connection, resource, list);
	accept_registration(connection);
	manager_save_soon(manager);
	manager_changed(manager);
	pod_readmission_run(manager);
	return 0;
}

static void on_list(struct connection *connection, const struct list *list)
{
	char text[160];
	int r;

	/* The kubelet stops reading a stream after a message that it could not read. */
	if (!connection->streaming)
		return;
	r = take_list(connection, list);
	if (r >= 0)
		return;
	answer_describe_unreadable(text, sizeof(text), r);
	on_stream_ended(connection, text);
	connection_close(connection);
}

static void start_stream(struct connection *connection)
{
	int r;

	connection->streaming = true;
	r = connection_stream(connection, METHOD_LIST_AND_WATCH, on_list, on_stream_result);
	if (r >= 0)
		return;
	/* The connection was closed after the plugin answered, but before the answer was read. */
	on_stream_ended(connection,
		r == -ENOTCONN
			? "rpc error: code = Canceled desc = grpc: the client connection is closing"
			: "out of memory");
	let_idle(connection);
}

static void on_options(struct manager *manager, const struct answer *answer, void *userdata)
{
	struct connection *connection = userdata;
	_cleanup_message_ struct message message = {};
	const V1beta1__DevicePluginOptions *reply;
	_cleanup_free_ char *text = NULL;
	struct plugin_options options;

	if (!connection->request)
		return;
	if (!answer->error)
		message = message_unpack(
			&v1beta1__device_plugin_options__descriptor, answer->data, answer->size);
	if (!message.base) {
		if (asprintf(&text, "failed to get device plugin options: %s",
			    answer->error ? answer->error : answer_unreadable) < 0)
			text = NULL;
		fail_registration(connection, text ? text : "failed to get device plugin options");
		let_idle(connection);
		return;
	}
	reply = (const V1beta1__DevicePluginOptions *)message.base;
	options = (struct plugin_options){
		.pre_start_required = reply->pre_start_required,
		.preferred_allocation = reply->get_preferred_allocation_available,
	};
	if (model_plugin_connected(manager->model, connection->resource, connection->path,
		    connection->number, &options) < 0) {
		fail_registration(connection, "out of memory");
		let_idle(connection);
		return;
	}
	if (!manager->options->faults || !manager->options->faults->early_stream)
		accept_registration(connection);
	manager_emit(manager,
		json_pack("{s:s, s:s, s:o, s:I, s:I, s:b, s:b}", "event", "registered", "resource",
			connection->resource, "endpoint", text_json(connection->endpoint),
			"connection", (json_int_t)connection->number, "took_usec",
			(json_int_t)(manager_now() - connection->began), "pre_start_required",
			options.pre_start_required, "get_preferred_allocation_available",
			options.preferred_allocation));
	start_stream(connection);
	manager_changed(manager);
}

static void fail_dial(struct connection *connection, const char *why)
{
	char text[160];

	sd_event_source_disable_unref(TAKE_PTR(connection->timer));
	(void)snprintf(text, sizeof(text), "failed to dial device plugin: %s", why);
	fail_registration(connection, text);
	connection_release(connection);
}

static void dial(struct connection *connection);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct connection *connection = userdata;

	sd_event_source_disable_unref(TAKE_PTR(connection->timer));
	if (manager_now() >= connection->began + DIAL_TIMEOUT)
		fail_dial(connection, "context deadline exceeded");
	else
		dial(connection);
	return 0;
}

static void dial(struct connection *connection)
{
	struct manager *manager = connection->manager;
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;
	uint64_t now = manager_now(), retry;
	int fd, r;

	r = socket_connect(connection->path, &fd);
	if (r >= 0) {
		r = channel_new(fd, NULL, &connection->client);
		if (r >= 0)
			r = connection_call(
				connection, METHOD_OPTIONS, &empty.base, 0, on_options, connection);
		if (r < 0) {
			connection_close(connection);
			fail_dial(connection, strerror(-r));
		}
		return;
	}
	retry = MIN_OF(now + connection->backoff, connection->began + DIAL_TIMEOUT);
	connection->backoff = connection->backoff * 8 / 5;
	r = sd_event_add_time(manager->event, &connection->timer, CLOCK_MONOTONIC, retry, 1,
		on_retry, connection);
	if (r < 0)
		fail_dial(connection, strerror(-r));
}

int connection_start(struct manager *manager, const char *resource, const char *endpoint,
	const char *path, struct register_request *request)
{
	struct connection *connection;
	int r;

	r = connection_new(manager, resource, endpoint, path, &connection);
	if (r < 0)
		return r;
	r = client_table_put(&manager->model->clients, resource, path, connection->number);
	if (r < 0) {
		connection_release(connection);
		return r;
	}
	connection->request = request;
	connection->backoff = DIAL_BACKOFF;
	dial(connection);
	return 0;
}

void connection_caller_gone(struct manager *manager, uint64_t caller)
{
	struct connection *next;

	for (struct connection *c = manager->connections; c; c = next) {
		next = c->next;
		if (!c->request || c->request->caller != caller)
			continue;
		if (!c->client) {
			fail_dial(c, "context canceled");
			continue;
		}
		fail_registration(c,
			"failed to get device plugin options: rpc error: code = Canceled desc = context canceled");
		let_idle(c);
	}
}

void connection_deregister(struct manager *manager, const char *resource)
{
	struct client_table *clients = &manager->model->clients;
	uint64_t number = client_table_find(clients, resource);
	struct connection *connection = connection_find(manager, number);

	if (number == 0)
		return;
	client_table_drop(clients, resource, connection ? connection->path : "");
	disconnect(manager, resource, number);
}

int connection_end_stream(struct manager *manager, const char *resource)
{
	struct connection *oldest = NULL;

	for (struct connection *c = manager->connections; c; c = c->next)
		if (c->streaming && c->client && streq(c->resource, resource))
			oldest = c;
	if (!oldest)
		return -ENOTCONN;
	channel_cancel(oldest->client, oldest->stream);
	return 0;
}

struct channel *connection_client(struct manager *manager, const char *resource)
{
	const struct resource *entry = model_find_resource(manager->model, resource);
	struct connection *connection;

	if (!entry || !entry->endpoint.present || entry->endpoint.stopped)
		return NULL;
	connection = connection_find(manager, entry->endpoint.connection);
	return connection ? connection->client : NULL;
}

int connection_drop(struct manager *manager, const char *resource)
{
	struct connection *connection =
		connection_find(manager, client_table_find(&manager->model->clients, resource));

	if (!connection)
		return -ENOTCONN;
	connection_close(connection);
	return 0;
}
