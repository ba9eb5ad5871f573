/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Register calls arrive on gRPC's thread, are judged on the main loop and stay open while the
 * plugin is dialled. A server of the binding has a fixed number of connections, a kubelet has not:
 * servers are added as connections come, each filled half, because ends are noticed in no order.
 */
#include "registrar.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/utf8.h"
#include "connection.h"
#include "deviceplugin.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "registration.h"
#include "text.h"
#include "utf8-message.h"

#define CALLERS_PER_SERVER (RPC_CONNECTIONS_MAX / 2)
#define ACCEPT_PAUSE       (100 * USEC_PER_MSEC)

struct register_call {
	struct register_request request;
	struct letter letter;
	struct registrar *registrar;
	struct register_call *next, *next_held;
	struct rpc_call *call; /* NULL once the registrar is gone */
	uint8_t *data;
	size_t size;
};

/* A server and how many callers it has. */
struct slot {
	struct rpc_server *server;
	unsigned n_callers;
};

/* A connection to kubelet.sock. */
struct caller {
	struct registrar *registrar;
	struct caller *next;
	uint64_t number;
	size_t slot;
	int duplicate; /* tells when the caller hangs up */
	sd_event_source *source;
};

struct registrar {
	struct manager *manager;
	int fd;
	sd_event_source *listen_source, *pause_source;
	struct slot *slots;
	size_t n_slots;
	struct caller *callers;
	uint64_t last_caller;
	struct register_call *held; /* by a fault */

	pthread_mutex_t lock; /* below: shared with gRPC's thread */
	bool stopping;
	struct register_call *requests;
};

static struct register_call *from_letter(struct letter *letter)
{
	return (struct register_call *)(void *)((char *)letter -
		offsetof(struct register_call, letter));
}

static void remove_request(struct register_call *request)
{
	struct register_call **r = &request->registrar->requests;

	while (*r != request)
		r = &(*r)->next;
	*r = request->next;
}

static void answer(struct rpc_call *call, enum rpc_status status, const char *error)
{
	/* An Empty is no bytes. */
	if (error)
		rpc_fail(call, status, error);
	else
		rpc_reply(call, (const uint8_t *)"", 0);
}

static void finish(struct register_call *request, enum rpc_status status, const char *error)
{
	if (request->call) {
		(void)pthread_mutex_lock(&request->registrar->lock);
		remove_request(request);
		(void)pthread_mutex_unlock(&request->registrar->lock);
		answer(request->call, status, error);
	}
	free(request->data);
	free(request);
}

static void answer_request(struct register_request *request, const char *error)
{
	/* The kubelet's handler returns plain errors, which grpc-go sends as this. */
	finish((struct register_call *)request, RPC_UNKNOWN, error);
}

static void refuse(
	struct register_call *request, const V1beta1__RegisterRequest *from, const char *text)
{
	manager_emit(request->registrar->manager,
		json_pack("{s:s, s:o, s:o, s:o, s:o}", "event", "register-refused", "resource",
			text_json(from->resource_name), "endpoint", text_json(from->endpoint),
			"version", text_json(from->version), "error", text_json(text)));
	answer_request(&request->request, text);
}

static void hold(struct register_call *request, const V1beta1__RegisterRequest *from)
{
	request->next_held = request->registrar->held;
	request->registrar->held = request;
}

static void refuse_always(struct register_call *request, const V1beta1__RegisterRequest *from)
{
	refuse(request, from, "this kubelet refuses every registration for now");
}

static void fail_unavailable(struct register_call *request, const V1beta1__RegisterRequest *from)
{
	finish(request, RPC_UNAVAILABLE, "this kubelet is not available for now");
}

static void cut(struct register_call *request, const V1beta1__RegisterRequest *from)
{
	const struct registrar *registrar = request->registrar;

	for (const struct caller *c = registrar->callers; c; c = c->next)
		if (c->number == request->request.caller)
			rpc_server_end_session(registrar->slots[c->slot].server, c->number);
	finish(request, RPC_UNAVAILABLE, "the connection is cut");
}

static void (*const inject[])(
	struct register_call *request, const V1beta1__RegisterRequest *from) = {
	[REGISTER_HELD] = hold,
	[REGISTER_REFUSED] = refuse_always,
	[REGISTER_UNAVAILABLE] = fail_unavailable,
	[REGISTER_RESET] = cut,
};

static void take_request(struct register_call *request, const V1beta1__RegisterRequest *from)
{
	struct manager *manager = request->registrar->manager;
	const struct kubelet_faults *faults = manager->options->faults;
	_cleanup_free_ char *path = NULL;
	struct resource *resource;
	struct error error = {};
	int r;

	manager_emit(manager,
		json_pack("{s:s, s:o, s:o, s:o}", "event", "register", "resource",
			text_json(from->resource_name), "endpoint", text_json(from->endpoint),
			"version", text_json(from->version)));
	if (faults && inject[faults->on_register]) {
		inject[faults->on_register](request, from);
		return;
	}
	if (registration_check(from->version, from->resource_name, &error) < 0) {
		refuse(request, from, error.message);
		return;
	}
	path = endpoint_path(manager->options->plugin_dir, from->endpoint);
	r = path ? model_get_resource(manager->model, from->resource_name, &resource) : -ENOMEM;
	if (r >= 0) {
		resource->registrations++;
		r = connection_start(
			manager, from->resource_name, from->endpoint, path, &request->request);
	}
	if (r < 0)
		refuse(request, from, "out of memory");
}

static void deliver(struct letter *letter, void *userdata)
{
	struct register_call *request = from_letter(letter);
	const struct manager *manager = userdata;
	_cleanup_message_ struct message message = {};

	if (!manager) {
		answer_request(&request->request, "the kubelet stops");
		return;
	}
	message = message_unpack(
		&v1beta1__register_request__descriptor, request->data, request->size);
	if (!message.base)
		finish(request, RPC_INTERNAL,
			"grpc: error unmarshalling request: proto: cannot parse invalid wire-format data");
	else if (manager->model->behaviour >= BEHAVIOUR_1_36 && !message_is_utf8(message.base))
		finish(request, RPC_INTERNAL,
			"grpc: error unmarshalling request: string field contains invalid UTF-8");
	else
		take_request(request, (const V1beta1__RegisterRequest *)message.base);
}

/* On gRPC's thread. */
static void on_register(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct registrar *registrar = userdata;
	struct register_call *request = calloc(1, sizeof(*request));
	uint8_t *copy = malloc(MAX_OF(size, (size_t)1));
	bool stopping;

	if (!request || !copy) {
		free(request);
		free(copy);
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	if (size > 0)
		memcpy(copy, data, size);
	request->letter.deliver = deliver;
	request->registrar = registrar;
	request->call = call;
	request->request.answer = answer_request;
	request->request.caller = rpc_call_session(call);
	request->data = copy;
	request->size = size;
	(void)pthread_mutex_lock(&registrar->lock);
	stopping = registrar->stopping;
	if (!stopping) {
		request->next = registrar->requests;
		registrar->requests = request;
		mailbox_post(registrar->manager->mailbox, &request->letter);
	}
	(void)pthread_mutex_unlock(&registrar->lock);
	if (stopping) {
		rpc_fail(call, RPC_UNAVAILABLE, "the kubelet stops");
		free(copy);
		free(request);
	}
}

static const struct rpc_method methods[] = {
	{ .path = METHOD_REGISTER, .on_call = on_register },
};

static void caller_free(struct caller *caller)
{
	struct registrar *registrar = caller->registrar;
	struct caller **c = &registrar->callers;

	while (*c != caller)
		c = &(*c)->next;
	*c = caller->next;
	registrar->slots[caller->slot].n_callers--;
	sd_event_source_disable_unref(caller->source);
	close_fd(caller->duplicate);
	free(caller);
}

static int on_hangup(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct caller *caller = userdata;
	struct manager *manager = caller->registrar->manager;
	uint64_t number = caller->number;

	caller_free(caller);
	if (manager->model->behaviour >= BEHAVIOUR_1_36)
		connection_caller_gone(manager, number);
	return 0;
}

/* A server with room for one more caller. */
static int find_slot(struct registrar *registrar, size_t *ret)
{
	size_t i;
	int r;

	for (i = 0; i < registrar->n_slots; i++)
		if (registrar->slots[i].n_callers < CALLERS_PER_SERVER) {
			*ret = i;
			return 0;
		}
	r = array_reserve(
		(void **)&registrar->slots, registrar->n_slots, sizeof(*registrar->slots));
	if (r < 0)
		return r;
	registrar->slots[i] = (struct slot){};
	r = rpc_server_new(registrar->manager->event, methods, ARRAY_SIZE(methods), registrar,
		&registrar->slots[i].server);
	if (r < 0)
		return r;
	registrar->n_slots++;
	*ret = i;
	return 0;
}

static int add_caller(struct registrar *registrar, int number)
{
	_cleanup_close_ int fd = number;
	struct caller *caller;
	size_t slot;
	int r;

	r = find_slot(registrar, &slot);
	if (r < 0)
		return r;
	caller = calloc(1, sizeof(*caller));
	if (!caller)
		return -ENOMEM;
	caller->registrar = registrar;
	caller->number = ++registrar->last_caller;
	caller->slot = slot;
	caller->next = registrar->callers;
	registrar->callers = caller;
	registrar->slots[slot].n_callers++;
	caller->duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = caller->duplicate < 0 ? -errno : 0;
	if (r >= 0)
		r = sd_event_add_io(registrar->manager->event, &caller->source, caller->duplicate,
			EPOLLRDHUP | EPOLLHUP | EPOLLET, on_hangup, caller);
	if (r >= 0)
		r = rpc_server_add(registrar->slots[slot].server, TAKE_FD(fd), caller->number);
	if (r < 0)
		caller_free(caller);
	return r;
}

static int on_pause_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct registrar *registrar = userdata;

	return sd_event_source_set_enabled(registrar->listen_source, SD_EVENT_ON);
}

/* Without descriptors the connection stays in the backlog, and the loop must not spin on it. */
static int pause_accepting(struct registrar *registrar)
{
	int r;

	sd_event_source_disable_unref(TAKE_PTR(registrar->pause_source));
	r = sd_event_add_time_relative(registrar->manager->event, &registrar->pause_source,
		CLOCK_MONOTONIC, ACCEPT_PAUSE, 0, on_pause_over, registrar);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(registrar->listen_source, SD_EVENT_OFF);
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct registrar *registrar = userdata;
	int connected, r;

	connected = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (connected < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
		log_warning("cannot accept a connection: %s; trying again", strerror(errno));
		return pause_accepting(registrar);
	}
	if (connected < 0)
		return 0;
	r = add_caller(registrar, connected);
	if (r < 0)
		log_warning("cannot serve a connection: %s", strerror(-r));
	return 0;
}

int registrar_new(struct manager *manager, int number, struct registrar **ret)
{
	_cleanup_close_ int fd = number;
	struct registrar *registrar = calloc(1, sizeof(*registrar));
	int r;

	if (!registrar)
		return -ENOMEM;
	(void)pthread_mutex_init(&registrar->lock, NULL);
	registrar->manager = manager;
	registrar->fd = TAKE_FD(fd);
	r = sd_event_add_io(manager->event, &registrar->listen_source, registrar->fd, EPOLLIN,
		on_accept, registrar);
	if (r < 0) {
		(void)registrar_free(registrar);
		return r;
	}
	*ret = registrar;
	return 0;
}

struct registrar *registrar_free(struct registrar *registrar)
{
	struct register_call *requests;

	if (!registrar)
		return NULL;
	sd_event_source_disable_unref(registrar->listen_source);
	sd_event_source_disable_unref(registrar->pause_source);

	/* A server ends only when every call was answered. The requests are freed by who has
	 * them. */
	(void)pthread_mutex_lock(&registrar->lock);
	registrar->stopping = true;
	requests = TAKE_PTR(registrar->requests);
	(void)pthread_mutex_unlock(&registrar->lock);
	for (; requests; requests = requests->next)
		answer(TAKE_PTR(requests->call), RPC_UNAVAILABLE, "the kubelet stops");
	for (struct register_call *next, *held = registrar->held; held; held = next) {
		next = held->next_held;
		finish(held, RPC_UNAVAILABLE, "the kubelet stops");
	}
	while (registrar->callers)
		caller_free(registrar->callers);
	for (size_t i = 0; i < registrar->n_slots; i++) {
		rpc_server_stop(registrar->slots[i].server, 0);
		rpc_server_free(registrar->slots[i].server);
	}
	free(registrar->slots);
	close_fd(registrar->fd);
	(void)pthread_mutex_destroy(&registrar->lock);
	free(registrar);
	return NULL;
}
