/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers PodResources calls. They arrive on gRPC's thread and are answered on the main loop, which
 * owns the model. As in the kubelet, all callers and methods share one token bucket.
 */
#include "kubelet/pod-resources-service.h"

#include <limits.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/log.h"
#include "kubelet/file.h"
#include "kubelet/plugin-dir.h"
#include "kubelet/pod-resources-message.h"
#include "kubelet/server-end.h"
#include "kubelet/utf8-message.h"
#include "podresources.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/rpc.h"

#define DIRECTORY "pod-resources"

enum method {
	METHOD_LIST,
	METHOD_LIST_V1ALPHA1,
	METHOD_ALLOCATABLE,
	METHOD_GET,
};

struct pod_call {
	struct mailbox_message base;
	struct pod_resources *server;
	struct pod_call *next;
	enum method method;
	struct rpc_call *call; /* NULL after the server was freed */
	size_t size;
	uint8_t data[];
};

struct pod_resources {
	struct manager *manager;
	struct rpc_server *server;
	int fd;
	sd_event_source *source;
	uint64_t tokens, refilled; /* in millionths; when */

	pthread_mutex_t lock; /* below: shared with gRPC's thread */
	bool stopping;
	struct pod_call *calls;
};

static bool take_token(struct pod_resources *server)
{
	uint64_t now = manager_now(), full = POD_RESOURCES_BURST * USEC_PER_SEC;

	server->tokens =
		MIN_OF(server->tokens + (now - server->refilled) * POD_RESOURCES_QPS, full);
	server->refilled = now;
	if (server->tokens < USEC_PER_SEC)
		return false;
	server->tokens -= USEC_PER_SEC;
	return true;
}

/* Returns 0 with an answer, or a status with the kubelet's error text. */
static enum rpc_status answer_get(const struct model *model, const struct pod_call *call,
	uint8_t **ret, size_t *ret_size, char *text, size_t size)
{
	_cleanup_message_ struct message message =
		message_unpack(&v1__get_pod_resources_request__descriptor, call->data, call->size);
	const V1__GetPodResourcesRequest *request =
		(const V1__GetPodResourcesRequest *)message.base;
	int r;

	if (!request || !message_is_utf8(message.base)) {
		(void)snprintf(text, size, "grpc: error unmarshalling request");
		return RPC_INTERNAL;
	}
	if (!model->version->pod_resources_get) {
		(void)snprintf(text, size, "PodResources API Get method disabled");
		return RPC_UNKNOWN;
	}
	r = pod_resources_encode_pod(
		model, request->pod_namespace, request->pod_name, ret, ret_size);
	if (r == -ENOENT)
		(void)snprintf(text, size, "pod %.253s in namespace %.253s not found",
			request->pod_name, request->pod_namespace);
	else if (r < 0)
		(void)snprintf(text, size, "out of memory");
	return r < 0 ? RPC_UNKNOWN : RPC_OK;
}

static int (*const encode[])(const struct model *model, uint8_t **ret, size_t *ret_size) = {
	[METHOD_LIST] = pod_resources_encode_list,
	[METHOD_LIST_V1ALPHA1] = pod_resources_encode_list_v1alpha1,
	[METHOD_ALLOCATABLE] = pod_resources_encode_allocatable,
};

static enum rpc_status answer(struct pod_resources *server, const struct pod_call *call,
	uint8_t **ret, size_t *ret_size, char *text, size_t size)
{
	struct model *model = server->manager->model;
	int r;

	if (!take_token(server)) {
		(void)snprintf(text, size, "rejected by rate limit");
		return RPC_RESOURCE_EXHAUSTED;
	}
	if (call->method == METHOD_GET)
		return answer_get(model, call, ret, ret_size, text, size);
	if (call->method != METHOD_ALLOCATABLE)
		(void)model_collect_allocations(model);
	r = encode[call->method](model, ret, ret_size);
	if (r < 0)
		(void)snprintf(text, size, "out of memory");
	return r < 0 ? RPC_RESOURCE_EXHAUSTED : RPC_OK;
}

static void remove_call(struct pod_call *call)
{
	struct pod_resources *server = call->server;

	(void)pthread_mutex_lock(&server->lock);
	for (struct pod_call **c = &server->calls; *c; c = &(*c)->next)
		if (*c == call) {
			*c = call->next;
			break;
		}
	(void)pthread_mutex_unlock(&server->lock);
}

static void deliver(struct mailbox_message *posted, void *userdata)
{
	struct pod_call *call = (struct pod_call *)posted;
	_cleanup_free_ uint8_t *data = NULL;
	enum rpc_status status;
	char text[600];
	size_t size;

	if (call->call) {
		remove_call(call);
		status = answer(call->server, call, &data, &size, text, sizeof(text));
		if (status == RPC_OK)
			rpc_reply(call->call, data, size);
		else
			rpc_fail(call->call, status, text);
	}
	free(call);
}

/* On gRPC's thread. */
static void take_call(struct pod_resources *server, enum method method, struct rpc_call *call,
	const uint8_t *data, size_t size)
{
	struct pod_call *pod_call = malloc(sizeof(*pod_call) + size);
	bool stopping;

	if (!pod_call) {
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	*pod_call = (struct pod_call){
		.base.deliver = deliver,
		.server = server,
		.method = method,
		.call = call,
		.size = size,
	};
	memcpy(pod_call->data, data, size);
	(void)pthread_mutex_lock(&server->lock);
	stopping = server->stopping;
	if (!stopping) {
		pod_call->next = server->calls;
		server->calls = pod_call;
		mailbox_post(server->manager->mailbox, &pod_call->base);
	}
	(void)pthread_mutex_unlock(&server->lock);
	if (stopping) {
		rpc_fail(call, RPC_UNAVAILABLE, "the kubelet stops");
		free(pod_call);
	}
}

static void on_list(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	take_call(userdata, METHOD_LIST, call, data, size);
}

static void on_list_v1alpha1(
	struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	take_call(userdata, METHOD_LIST_V1ALPHA1, call, data, size);
}

static void on_allocatable(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	take_call(userdata, METHOD_ALLOCATABLE, call, data, size);
}

static void on_get(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	take_call(userdata, METHOD_GET, call, data, size);
}

static const struct rpc_method methods[] = {
	{ .path = METHOD_POD_RESOURCES_LIST, .on_call = on_list },
	{ .path = METHOD_POD_RESOURCES_V1ALPHA1_LIST, .on_call = on_list_v1alpha1 },
	{ .path = METHOD_POD_RESOURCES_GET_ALLOCATABLE, .on_call = on_allocatable },
	{ .path = METHOD_POD_RESOURCES_GET, .on_call = on_get },
};

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct pod_resources *server = userdata;
	int connected = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), r;

	if (connected < 0)
		return 0;
	r = rpc_server_add(server->server, connected, 0);
	if (r < 0)
		log_warning("cannot serve a client of pod-resources: %s", strerror(-r));
	return 0;
}

static int listen_in(const char *state_dir, int *ret_fd, struct error *error)
{
	char directory[PATH_MAX], path[PATH_MAX + 32];
	int n, r;

	n = snprintf(directory, sizeof(directory), "%s/" DIRECTORY, state_dir);
	if (n < 0 || (size_t)n >= sizeof(directory))
		return error_set(error, -ENAMETOOLONG, "%s: the path is too long", state_dir);
	(void)snprintf(path, sizeof(path), "%s/" KUBELET_SOCKET_NAME, directory);
	r = make_directory(directory, 0750);
	if (r < 0)
		return error_set(error, r, "cannot make %s: %s", directory, strerror(-r));
	r = socket_publish(path, ret_fd);
	if (r < 0)
		return error_set(error, r, "cannot listen on %s: %s", path, strerror(-r));
	return 0;
}

int pod_resources_new(struct manager *manager, struct pod_resources **ret, struct error *error)
{
	struct pod_resources *server;
	_cleanup_close_ int fd = -EBADF;
	int r;

	r = listen_in(manager->options->state_dir, &fd, error);
	if (r < 0)
		return r;
	server = calloc(1, sizeof(*server));
	if (!server)
		return error_set(error, -ENOMEM, "out of memory");
	(void)pthread_mutex_init(&server->lock, NULL);
	server->manager = manager;
	server->fd = TAKE_FD(fd);
	r = rpc_server_new(manager->event, methods, ARRAY_SIZE(methods), server, &server->server);
	if (r >= 0)
		r = sd_event_add_io(
			manager->event, &server->source, server->fd, EPOLLIN, on_accept, server);
	if (r < 0) {
		(void)pod_resources_free(server);
		return error_set(error, r, "cannot serve pod-resources: %s", strerror(-r));
	}
	*ret = server;
	return 0;
}

struct pod_resources *pod_resources_free(struct pod_resources *server)
{
	struct pod_call *calls;

	if (!server)
		return NULL;
	sd_event_source_disable_unref(server->source);
	/* A server ends only after every call was answered; the mailbox frees the messages. */
	(void)pthread_mutex_lock(&server->lock);
	server->stopping = true;
	calls = TAKE_PTR(server->calls);
	(void)pthread_mutex_unlock(&server->lock);
	for (; calls; calls = calls->next)
		rpc_fail(TAKE_PTR(calls->call), RPC_UNAVAILABLE, "the kubelet stops");
	if (server->server) {
		server_end(server->server);
	}
	close_fd(server->fd);
	(void)pthread_mutex_destroy(&server->lock);
	free(server);
	return NULL;
}
