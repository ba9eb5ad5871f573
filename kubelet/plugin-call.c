/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes messages and results from gRPC's thread to the main loop. If a plugin sends faster than
 * they are read, the newest message replaces the waiting ones, because each is the complete list.
 * So memory is bounded.
 */
#include "kubelet/plugin-call.h"

#include "kubelet/registrar.h"
#include "proto/message.h"
#include "proto/methods.h"

#define LISTS_WAITING_MAX 16

struct result {
	struct mailbox_message base;
	struct connection *connection;
	answer_handler handler;
	void *userdata;
	int status;
	char *text;
	uint8_t *data;
	size_t size;
};

static const char *const status_names[] = {
	"OK",
	"Canceled",
	"Unknown",
	"InvalidArgument",
	"DeadlineExceeded",
	"NotFound",
	"AlreadyExists",
	"PermissionDenied",
	"ResourceExhausted",
	"FailedPrecondition",
	"Aborted",
	"OutOfRange",
	"Unimplemented",
	"Internal",
	"Unavailable",
	"DataLoss",
	"Unauthenticated",
};

/* The C core begins the sentence differently from Go. */
static const char too_large[] = "eceived message larger than max";

const char *const answer_unreadable =
	"rpc error: code = Internal desc = grpc: failed to unmarshal the received message: "
	"proto: cannot parse invalid wire-format data";

void answer_describe_unreadable(char *buffer, size_t size, int code)
{
	(void)snprintf(buffer, size, "%s",
		code == -EILSEQ ? "rpc error: code = Internal desc = grpc: failed to unmarshal the "
				  "received message: string field contains invalid UTF-8"
			: code == -EBADMSG ? answer_unreadable
					   : strerror(-code));
}

int connection_new(struct manager *manager, const char *resource, const char *endpoint,
	const char *path, struct connection **ret)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		return -ENOMEM;
	(void)pthread_mutex_init(&connection->lock, NULL);
	connection->manager = manager;
	connection->number = ++manager->last_connection;
	connection->began = manager_now();
	connection->resource = strdup(resource);
	connection->endpoint = strdup(endpoint);
	connection->path = strdup(path);
	connection->next = manager->connections;
	manager->connections = connection;
	if (!connection->resource || !connection->endpoint || !connection->path) {
		connection_release(connection);
		return -ENOMEM;
	}
	*ret = connection;
	return 0;
}

void connection_release(struct connection *connection)
{
	if (connection->client || connection->request || connection->outstanding > 0)
		return;
	for (struct connection **c = &connection->manager->connections; *c; c = &(*c)->next)
		if (*c == connection) {
			*c = connection->next;
			break;
		}
	connection->manager->connections_ended = true;
	sd_event_source_disable_unref(connection->timer);
	(void)pthread_mutex_destroy(&connection->lock);
	free(connection->resource);
	free(connection->endpoint);
	free(connection->path);
	free(connection);
}

void connection_close(struct connection *connection)
{
	connection->client = channel_free(connection->client);
}

struct connection *connection_find(struct manager *manager, uint64_t number)
{
	for (struct connection *c = manager->connections; c; c = c->next)
		if (c->number == number)
			return c->client ? c : NULL;
	return NULL;
}

/* Uses the text of grpc-go where it is known, because this program's errors come from the C
 * core. */
static const char *describe(const struct result *result)
{
	if (!result->text)
		return "out of memory";
	if (result->status == RPC_CANCELLED && !result->connection->client)
		return "grpc: the client connection is closing";
	if (result->status == RPC_RESOURCE_EXHAUSTED && strstr(result->text, too_large))
		return strstr(result->text, too_large);
	if (result->status == RPC_UNAVAILABLE && streq(result->text, "Socket closed"))
		return "error reading from server: EOF";
	return result->text;
}

static const char *status_name(int status)
{
	return status > 0 && (size_t)status < ARRAY_SIZE(status_names) ? status_names[status]
								       : "Unknown";
}

static char *format_error(const struct result *result)
{
	const char *words = describe(result);
	char *text;

	if (asprintf(&text, "rpc error: code = %s desc = %s%s", status_name(result->status),
		    startswith(words, too_large) ? "grpc: r" : "", words) < 0)
		return NULL;
	return text;
}

static void deliver_result(struct mailbox_message *posted, void *userdata)
{
	struct result *result = (struct result *)posted;
	struct connection *connection = result->connection;
	_cleanup_free_ char *error = NULL;

	if (userdata) {
		struct answer answer = {
			.status = result->status,
			.data = result->data,
			.size = result->size,
		};

		if (result->status != RPC_OK) {
			error = format_error(result);
			answer.error = error ? error : "out of memory";
		}
		/* Counts until the handler has returned, so that the handler may release the
		 * connection. */
		result->handler(userdata, &answer, result->userdata);
	}
	connection->outstanding--;
	if (userdata)
		connection_release(connection);
	free(result->text);
	free(result->data);
	free(result);
}

/* On gRPC's thread. */
static void on_result(const struct rpc_result *from, void *userdata)
{
	struct result *result = userdata;

	result->status = from->status;
	result->text = strdup(from->text ? from->text : "");
	if (from->status == RPC_OK) {
		result->size = from->size;
		result->data = malloc(MAX_OF(from->size, (size_t)1));
		if (!result->data)
			result->status = RPC_RESOURCE_EXHAUSTED;
		else if (from->size > 0)
			memcpy(result->data, from->data, from->size);
	}
	mailbox_post(result->connection->manager->mailbox, &result->base);
}

static int result_new(
	struct connection *connection, answer_handler handler, void *userdata, struct result **ret)
{
	struct result *result = calloc(1, sizeof(*result));

	if (!result)
		return -ENOMEM;
	result->base.deliver = deliver_result;
	result->connection = connection;
	result->handler = handler;
	result->userdata = userdata;
	*ret = result;
	return 0;
}

int connection_call(struct connection *connection, const char *method,
	const ProtobufCMessage *request, uint64_t timeout, answer_handler handler, void *userdata)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct result *result;
	size_t size;
	int r;

	r = message_pack(request, &data, &size);
	if (r >= 0)
		r = result_new(connection, handler, userdata, &result);
	if (r < 0)
		return r;
	r = channel_call(connection->client, method, data, size, timeout, on_result, result);
	if (r < 0) {
		free(result);
		return r;
	}
	connection->outstanding++;
	return 0;
}

static void deliver_list(struct mailbox_message *posted, void *userdata)
{
	struct list *list = (struct list *)posted;
	struct connection *connection = list->connection;

	(void)pthread_mutex_lock(&connection->lock);
	connection->waiting--;
	if (connection->newest == list)
		connection->newest = NULL;
	(void)pthread_mutex_unlock(&connection->lock);
	/* The stream's result follows its lists, and keeps the connection until then. */
	if (userdata)
		connection->on_list(connection, list);
	free(list->data);
	free(list);
}

/* Replaces the newest waiting message. The caller holds the lock. */
static void merge_list(struct connection *connection, uint8_t *data, size_t size)
{
	free(connection->newest->data);
	connection->newest->data = data;
	connection->newest->size = size;
	connection->newest->merged++;
}

/* On gRPC's thread. */
static void on_message(const uint8_t *bytes, size_t size, void *userdata)
{
	const struct result *result = userdata;
	struct connection *connection = result->connection;
	uint8_t *data = malloc(MAX_OF(size, (size_t)1));
	struct list *list = calloc(1, sizeof(*list));

	/* Without memory the list is dropped. */
	if (!data || !list) {
		free(data);
		free(list);
		return;
	}
	if (size > 0)
		memcpy(data, bytes, size);
	(void)pthread_mutex_lock(&connection->lock);
	if (connection->waiting >= LISTS_WAITING_MAX && connection->newest) {
		merge_list(connection, data, size);
		free(list);
	} else {
		list->base.deliver = deliver_list;
		list->connection = connection;
		list->data = data;
		list->size = size;
		connection->waiting++;
		connection->newest = list;
		mailbox_post(connection->manager->mailbox, &list->base);
	}
	(void)pthread_mutex_unlock(&connection->lock);
}

int connection_stream(struct connection *connection, const char *method, list_handler on_list,
	answer_handler handler)
{
	struct result *result;
	int r;

	if (!connection->client)
		return -ENOTCONN;
	r = result_new(connection, handler, connection, &result);
	if (r < 0)
		return r;
	connection->on_list = on_list;
	/* The request is an Empty, which has zero bytes. */
	r = channel_stream(
		connection->client, method, (const uint8_t *)"", 0, on_message, on_result, result);
	if (r < 0) {
		free(result);
		return r;
	}
	connection->stream = result;
	connection->outstanding++;
	return 0;
}

void connection_close_all(struct manager *manager)
{
	for (struct connection *c = manager->connections; c; c = c->next)
		connection_close(c);
}

void connection_free_all(struct manager *manager)
{
	struct connection *next;

	for (struct connection *c = manager->connections; c; c = next) {
		struct register_request *request = TAKE_PTR(c->request);

		next = c->next;
		if (request)
			request->answer(request, "the kubelet stops");
		connection_release(c);
	}
}
