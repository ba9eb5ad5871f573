/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers the kubelet's calls to prepare and unprepare claims. gRPC's thread copies a request into
 * a mailbox message; everything else runs on the loop's thread. The supervisor knows the prepared
 * claims and is therefore asked first: the API server is only needed for a new claim.
 */
#include "dra/dra-node.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "common/json-read.h"
#include "common/log.h"
#include "common/sealed.h"
#include "dra.pb-c.h"
#include "dra/dra-allocation.h"
#include "dra/model/dra-names.h"
#include "pluginregistration.pb-c.h"
#include "proto/mailbox.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/rpc.h"

#define PLUGIN_TYPE     "DRAPlugin"
#define PREPARED_MAX    (1U << 20)
#define CLAIMS_MAX      1024 /* of a call */
#define CALLS_MAX       256
#define ACCEPTS_AT_ONCE 16

/* The result of one claim of a call. */
struct outcome {
	json_t *devices;
	char *failure;
};

/* A call of the kubelet. */
struct dra_call {
	struct letter letter;
	struct dra_call *next;
	struct dra_node *node;
	struct rpc_call *call;
	bool prepare;
	uint64_t arrived_at; /* CLOCK_MONOTONIC */
	struct message message;
	Dra__Claim **claims; /* in the message */
	size_t n_claims, at;
	struct outcome *outcomes;
};

struct verdict {
	struct letter letter;
	uint64_t session;
	bool registered;
	char text[480];
};

struct dra_node {
	struct dra_node_options options;
	struct mailbox *mailbox;
	struct rpc_server *server;
	struct dra_call *calls; /* the first one is being handled */
	atomic_size_t n_calls;
	uint64_t number; /* of the open request to the supervisor; 0: none */
	uint64_t last_number;
	uint64_t timed_out_at; /* when the API server last did not answer; CLOCK_MONOTONIC */

	uint64_t session;
	int listener_fd;
	sd_event_source *accept_source;
	struct log_budget log_budget; /* of refused connections */

	pthread_mutex_t lock; /* of the answer to GetInfo */
	uint8_t *info;
	size_t info_size;
};

/* A kubelet uses the first claim service that it knows. */
static const char *const versions[] = { "v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth",
	"v1alpha1.DRAResourceHealth" };

static void next_claim(struct dra_node *node);

/* --- answers --- */

static void call_free(struct dra_call *call)
{
	for (size_t i = 0; i < call->n_claims && call->outcomes; i++) {
		json_decref(call->outcomes[i].devices);
		free(call->outcomes[i].failure);
	}
	atomic_fetch_sub(&call->node->n_calls, 1);
	free(call->outcomes);
	message_done(&call->message);
	free(call);
}

/* The strings of an array in protobuf-c's form; the array keeps them. */
static size_t take_strings(const json_t *array, char ***ret)
{
	size_t n = 0;

	*ret = calloc(json_array_size(array) + 1, sizeof(**ret));
	while (*ret && n < json_array_size(array)) {
		(*ret)[n] = (char *)(uintptr_t)json_string_value(json_array_get(array, n));
		n++;
	}
	return n;
}

struct device_block {
	Dra__Device device;
	char *request[1];
};

static int fill_device(struct device_block *block, const json_t *device)
{
	Dra__Device *made = &block->device;

	dra__device__init(made);
	block->request[0] = mutable_text_of(device, "request");
	made->request_names = block->request;
	made->n_request_names = 1;
	made->pool_name = mutable_text_of(device, "pool");
	made->device_name = mutable_text_of(device, "name");
	made->n_cdi_device_ids =
		take_strings(json_object_get(device, "cdi"), &made->cdi_device_ids);
	return made->cdi_device_ids ? 0 : -ENOMEM;
}

struct claim_block {
	Dra__NodePrepareResourcesResponse__ClaimsEntry entry;
	Dra__NodePrepareResourceResponse response;
	struct device_block *devices;
	Dra__Device **pointers;
	size_t n_devices;
};

static int fill_claim(
	struct claim_block *block, const Dra__Claim *claim, const struct outcome *outcome)
{
	size_t n = json_array_size(outcome->devices);

	dra__node_prepare_resources_response__claims_entry__init(&block->entry);
	dra__node_prepare_resource_response__init(&block->response);
	block->entry.key = claim->uid;
	block->entry.value = &block->response;
	if (outcome->failure)
		block->response.error = outcome->failure;
	block->devices = calloc(n + 1, sizeof(*block->devices));
	block->pointers = calloc(n + 1, sizeof(Dra__Device *));
	if (!block->devices || !block->pointers)
		return -ENOMEM;
	for (; block->n_devices < n; block->n_devices++) {
		struct device_block *device = &block->devices[block->n_devices];

		if (fill_device(device, json_array_get(outcome->devices, block->n_devices)) < 0)
			return -ENOMEM;
		block->pointers[block->n_devices] = &device->device;
	}
	block->response.devices = block->pointers;
	block->response.n_devices = n;
	return 0;
}

static void claim_block_done(struct claim_block *block)
{
	for (size_t i = 0; i < block->n_devices; i++)
		free(block->devices[i].device.cdi_device_ids);
	free(block->devices);
	free(block->pointers);
}

static void answer_prepare(struct dra_call *call)
{
	Dra__NodePrepareResourcesResponse response = DRA__NODE_PREPARE_RESOURCES_RESPONSE__INIT;
	_cleanup_free_ struct claim_block *blocks = calloc(call->n_claims + 1, sizeof(*blocks));
	_cleanup_free_ Dra__NodePrepareResourcesResponse__ClaimsEntry **entries =
		calloc(call->n_claims + 1, sizeof(*entries));
	int r = blocks && entries ? 0 : -ENOMEM;

	for (size_t i = 0; i < call->n_claims && r >= 0; i++) {
		r = fill_claim(&blocks[i], call->claims[i], &call->outcomes[i]);
		entries[i] = &blocks[i].entry;
	}
	response.claims = entries;
	response.n_claims = call->n_claims;
	if (r >= 0)
		message_reply(call->call, &response.base);
	else
		rpc_fail(call->call, RPC_RESOURCE_EXHAUSTED, "out of memory");
	for (size_t i = 0; i < call->n_claims && blocks; i++)
		claim_block_done(&blocks[i]);
}

static void answer_unprepare(struct dra_call *call)
{
	Dra__NodeUnprepareResourcesResponse response = DRA__NODE_UNPREPARE_RESOURCES_RESPONSE__INIT;
	size_t n = call->n_claims;
	_cleanup_free_ Dra__NodeUnprepareResourceResponse *values = calloc(n + 1, sizeof(*values));
	_cleanup_free_ Dra__NodeUnprepareResourcesResponse__ClaimsEntry *made =
		calloc(n + 1, sizeof(*made));
	_cleanup_free_ Dra__NodeUnprepareResourcesResponse__ClaimsEntry **entries =
		calloc(n + 1, sizeof(*entries));

	if (!values || !made || !entries) {
		rpc_fail(call->call, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		dra__node_unprepare_resource_response__init(&values[i]);
		dra__node_unprepare_resources_response__claims_entry__init(&made[i]);
		if (call->outcomes[i].failure)
			values[i].error = call->outcomes[i].failure;
		made[i].key = call->claims[i]->uid;
		made[i].value = &values[i];
		entries[i] = &made[i];
	}
	response.claims = entries;
	response.n_claims = n;
	message_reply(call->call, &response.base);
}

/* --- one claim after the other --- */

static void set_outcome(struct dra_node *node, json_t *devices, const char *failure)
{
	struct dra_call *call = node->calls;
	struct outcome *outcome = &call->outcomes[call->at++];

	outcome->devices = devices;
	if (failure && *failure)
		outcome->failure = strdup(failure);
}

static void end_claim(struct dra_node *node, json_t *devices, const char *failure)
{
	set_outcome(node, devices, failure);
	next_claim(node);
}

static void end_claim_error(struct dra_node *node, const struct error *error)
{
	end_claim(node, NULL, error->message);
}

static const Dra__Claim *current(const struct dra_node *node)
{
	return node->calls->claims[node->calls->at];
}

static int ask_supervisor(struct dra_node *node, uint32_t type, const json_t *claim)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(type);
	_cleanup_free_ char *text = NULL;
	int r;

	if (claim) {
		text = json_dumps(claim, JSON_COMPACT);
		message.fds[0] = text ? sealed_new("claim", text, strlen(text)) : -EBADF;
		if (message.fds[0] < 0)
			return -ENOMEM;
	} else
		(void)snprintf(message.text, sizeof(message.text), "%s", current(node)->uid);
	message.number = ++node->last_number;
	r = control_send(CONTROL_FD, &message);
	if (r >= 0)
		node->number = message.number;
	return r;
}

static void on_claim_read(const struct dra_answer *answer, void *userdata)
{
	struct dra_node *node = userdata;
	const struct dra_node_options *options = &node->options;
	struct error error = { 0 };
	json_auto_t *claim = NULL;
	int r;

	if (answer->timed_out)
		node->timed_out_at = now_usec(CLOCK_MONOTONIC);
	if (answer->failure) {
		(void)error_set(&error, -EIO, "cannot read the claim: %s", answer->failure);
		end_claim_error(node, &error);
		return;
	}
	r = dra_allocation_read(answer->body, current(node)->uid, options->driver,
		options->pool(options->userdata), options->names(options->userdata), &claim,
		&error);
	if (r >= 0) {
		r = ask_supervisor(node, CLUSTER_PREPARE, claim);
		if (r < 0)
			(void)error_set(
				&error, r, "cannot send the request to devplugd: %s", strerror(-r));
	}
	if (r < 0)
		end_claim_error(node, &error);
}

/* Claims that waited while the API server did not answer share one timeout, so that many claims do
 * not wait longer. The kubelet retries. */
static void read_claim(struct dra_node *node)
{
	const Dra__Claim *claim = current(node);
	char path[640];

	if (node->calls->arrived_at < node->timed_out_at) {
		end_claim(node, NULL,
			"cannot read the claim: the API server did not answer an earlier request in time");
		return;
	}
	(void)snprintf(path, sizeof(path),
		"/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s", claim->namespace_,
		claim->name);
	if (dra_api_request(node->options.api, "GET", path, NULL, on_claim_read, node) < 0)
		end_claim(node, NULL, "out of memory");
}

void dra_node_take_prepared(struct dra_node *node, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_t *devices;
	size_t size;

	if (message->number != node->number || !node->calls)
		return;
	node->number = 0;
	if (message->text[0] || !node->calls->prepare) {
		end_claim(node, NULL, message->text);
		return;
	}
	if (message->fds[0] < 0) {
		read_claim(node);
		return;
	}
	devices = sealed_read(message->fds[0], PREPARED_MAX, &text, &size) < 0
		? NULL
		: json_loadb(text, size, 0, NULL);
	end_claim(node, devices, devices ? NULL : "devplugd sent no devices");
}

/* Returns whether its result follows later. */
static bool begin_claim(struct dra_node *node)
{
	const Dra__Claim *claim = current(node);
	json_auto_t *question = NULL;
	int r;

	if (!dra_name_is_valid(claim->namespace_, DRA_OBJECT_NAME_MAX) ||
		!dra_name_is_valid(claim->name, DRA_OBJECT_NAME_MAX) ||
		!dra_name_is_valid(claim->uid, DRA_CLAIM_ID_MAX) || strchr(claim->uid, '.')) {
		set_outcome(node, NULL, "the claim has no valid namespace, name and uid");
		return false;
	}
	if (node->calls->prepare)
		question = json_pack("{s:s, s:s, s:s}", "uid", claim->uid, "namespace",
			claim->namespace_, "name", claim->name);
	r = ask_supervisor(
		node, node->calls->prepare ? CLUSTER_PREPARE : CLUSTER_UNPREPARE, question);
	if (r < 0)
		set_outcome(node, NULL, "devplugd does not read its control socket");
	return r >= 0;
}

static void next_claim(struct dra_node *node)
{
	struct dra_call *call;

	while ((call = node->calls)) {
		if (call->at < call->n_claims) {
			if (begin_claim(node))
				return;
			continue;
		}
		if (call->prepare)
			answer_prepare(call);
		else
			answer_unprepare(call);
		node->calls = call->next;
		call_free(call);
	}
}

/* --- from gRPC's thread --- */

static void deliver_call(struct letter *base, void *userdata)
{
	struct dra_call *call = (struct dra_call *)(void *)base, **last;
	struct dra_node *node = call->node;
	bool idle = !node->calls;

	if (!userdata) {
		rpc_fail(call->call, RPC_UNAVAILABLE,
			"the driver is stopping; the kubelet will retry");
		call_free(call);
		return;
	}
	for (last = &node->calls; *last; last = &(*last)->next)
		;
	*last = call;
	if (idle)
		next_claim(node);
}

static void take_call(struct dra_node *node, struct rpc_call *rpc, bool prepare,
	const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size)
{
	struct message message = message_unpack(type, data, size);
	struct dra_call *call = NULL;
	bool busy = atomic_fetch_add(&node->n_calls, 1) >= CALLS_MAX;

	if (message.base && !busy)
		call = calloc(1, sizeof(*call));
	if (!call) {
		atomic_fetch_sub(&node->n_calls, 1);
		rpc_fail(rpc, message.base ? RPC_RESOURCE_EXHAUSTED : RPC_INVALID_ARGUMENT,
			message.base ? "too many calls wait for an answer"
				     : "the request is not a message of this method");
		message_done(&message);
		return;
	}
	*call = (struct dra_call){
		.letter.deliver = deliver_call,
		.node = node,
		.call = rpc,
		.prepare = prepare,
		.arrived_at = now_usec(CLOCK_MONOTONIC),
		.message = message,
	};
	if (prepare) {
		const Dra__NodePrepareResourcesRequest *request = (const void *)message.base;

		call->claims = request->claims;
		call->n_claims = request->n_claims;
	} else {
		const Dra__NodeUnprepareResourcesRequest *request = (const void *)message.base;

		call->claims = request->claims;
		call->n_claims = request->n_claims;
	}
	call->outcomes = calloc(call->n_claims + 1, sizeof(*call->outcomes));
	if (!call->outcomes || call->n_claims > CLAIMS_MAX) {
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "the call names too many claims");
		call_free(call);
		return;
	}
	mailbox_post(node->mailbox, &call->letter);
}

static void on_prepare(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	take_call(
		userdata, call, true, &dra__node_prepare_resources_request__descriptor, data, size);
}

static void on_unprepare(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	take_call(userdata, call, false, &dra__node_unprepare_resources_request__descriptor, data,
		size);
}

static void on_get_info(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct dra_node *node = userdata;

	(void)pthread_mutex_lock(&node->lock);
	rpc_reply(call, node->info, node->info_size);
	(void)pthread_mutex_unlock(&node->lock);
}

static void deliver_verdict(struct letter *base, void *userdata)
{
	struct verdict *verdict = (struct verdict *)(void *)base;
	struct dra_node *node = userdata;
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_REGISTERED);

	if (node && verdict->session == node->session) {
		message.session = verdict->session;
		if (!verdict->registered) {
			message.type = CLUSTER_SESSION_ENDED;
			(void)snprintf(message.text, sizeof(message.text), "%s", verdict->text);
		}
		(void)control_send(CONTROL_FD, &message);
		if (verdict->registered)
			node->options.on_registered(node->options.userdata);
	}
	free(verdict);
}

static void on_notify(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	_cleanup_message_ struct message message =
		message_unpack(&pluginregistration__registration_status__descriptor, data, size);
	const Pluginregistration__RegistrationStatus *status = (const void *)message.base;
	struct verdict *verdict = status ? calloc(1, sizeof(*verdict)) : NULL;
	struct dra_node *node = userdata;

	if (!verdict) {
		rpc_fail(call, status ? RPC_RESOURCE_EXHAUSTED : RPC_INVALID_ARGUMENT,
			"the request cannot be read");
		return;
	}
	verdict->letter.deliver = deliver_verdict;
	verdict->session = rpc_call_session(call);
	verdict->registered = status->plugin_registered;
	(void)snprintf(verdict->text, sizeof(verdict->text), "%s",
		*status->error ? status->error : "the kubelet gave no reason");
	/* RegistrationStatusResponse has no fields. */
	rpc_reply(call, (const uint8_t *)"", 0);
	mailbox_post(node->mailbox, &verdict->letter);
}

static const struct rpc_method methods[] = {
	{ .path = METHOD_GET_INFO, .on_call = on_get_info },
	{ .path = METHOD_NOTIFY_REGISTRATION_STATUS, .on_call = on_notify },
	{ .path = METHOD_DRA("v1", DRA_PREPARE), .on_call = on_prepare },
	{ .path = METHOD_DRA("v1", DRA_UNPREPARE), .on_call = on_unprepare },
	{ .path = METHOD_DRA("v1beta1", DRA_PREPARE), .on_call = on_prepare },
	{ .path = METHOD_DRA("v1beta1", DRA_UNPREPARE), .on_call = on_unprepare },
	{ .path = METHOD_DRA_HEALTH("v1") },
	{ .path = METHOD_DRA_HEALTH("v1alpha1") },
};

/* --- the socket --- */

static void log_refused(struct dra_node *node, const struct ucred *peer, const char *why)
{
	if (log_budget_admits(&node->log_budget, NULL))
		log_warning("refused a connection from process %d of user %u: %s", (int)peer->pid,
			(unsigned)peer->uid, why);
}

static int add_connection(struct dra_node *node, int number)
{
	_cleanup_close_ int fd = number;

	if (rpc_server_is_behind(node->server))
		return -EMFILE;
	if (rpc_server_is_full(node->server))
		(void)rpc_server_evict(node->server, node->session);
	return rpc_server_add_unknown(node->server, TAKE_FD(fd), node->session);
}

/* Returns 1 if a connection was taken or refused, 0 if none waits, negative errno if accepting
 * failed. */
static int accept_one(struct dra_node *node)
{
	_cleanup_close_ int fd = -EBADF;
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);
	int r;

	fd = accept4(node->listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return errno == EAGAIN ? 0 : errno == ECONNABORTED || errno == EINTR ? 1 : -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
		(peer.uid != 0 && peer.uid != node->options.supervisor_uid)) {
		log_refused(node, &peer, "only root may call");
		return 1;
	}
	r = add_connection(node, TAKE_FD(fd));
	if (r < 0)
		log_refused(node, &peer, r == -EMFILE ? "too many connections" : strerror(-r));
	return 1;
}

static void close_session(struct dra_node *node)
{
	node->accept_source = sd_event_source_disable_unref(node->accept_source);
	node->listener_fd = close_fd(node->listener_fd);
	if (node->session != 0)
		rpc_server_end_session(node->server, node->session);
	node->session = 0;
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_SESSION_ENDED);
	struct dra_node *node = userdata;
	unsigned taken = 0;
	int r = 1;

	while (taken < ACCEPTS_AT_ONCE && (r = accept_one(node)) > 0)
		taken++;
	if (r >= 0 || taken > 0)
		return 0;
	/* Otherwise the peer would wait in the backlog, and the loop would spin. */
	message.session = node->session;
	(void)snprintf(message.text, sizeof(message.text),
		"cannot accept connections: out of descriptors or memory");
	close_session(node);
	(void)control_send(CONTROL_FD, &message);
	return 0;
}

static int make_info(struct dra_node *node, const char *endpoint)
{
	Pluginregistration__PluginInfo info = PLUGINREGISTRATION__PLUGIN_INFO__INIT;
	uint8_t *data;
	size_t size;
	int r;

	info.type = (char *)(uintptr_t)PLUGIN_TYPE;
	info.name = (char *)(uintptr_t)node->options.driver;
	info.endpoint = (char *)(uintptr_t)endpoint;
	info.supported_versions = (char **)(uintptr_t)versions;
	info.n_supported_versions = ARRAY_SIZE(versions);
	r = message_pack(&info.base, &data, &size);
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&node->lock);
	free(node->info);
	node->info = data;
	node->info_size = size;
	(void)pthread_mutex_unlock(&node->lock);
	return 0;
}

void dra_node_open_session(struct dra_node *node, struct control_message *message)
{
	int r;

	close_session(node);
	node->session = message->session;
	node->listener_fd = TAKE_FD(message->fds[0]);
	r = make_info(node, message->text);
	if (r >= 0)
		r = sd_event_add_io(node->options.event, &node->accept_source, node->listener_fd,
			EPOLLIN, on_accept, node);
	if (r < 0)
		log_error("cannot serve the kubelet: %s", strerror(-r));
}

/* The kubelet cannot be distinguished from other clients; it connects again. */
void dra_node_free_the_way(struct dra_node *node)
{
	if (!rpc_is_held_up())
		return;
	log_warning("a client floods the socket, so the kubelet cannot be served; closing "
		    "all connections to the DRA driver");
	rpc_server_end_session(node->server, node->session);
}

/* --- --- */

int dra_node_new(const struct dra_node_options *options, struct dra_node **ret)
{
	struct dra_node *node = calloc(1, sizeof(*node));
	int r;

	if (!node)
		return -ENOMEM;
	node->options = *options;
	node->listener_fd = -EBADF;
	(void)pthread_mutex_init(&node->lock, NULL);
	r = mailbox_new(options->event, node, &node->mailbox);
	if (r >= 0)
		r = rpc_start();
	if (r >= 0)
		r = rpc_server_new(
			options->event, methods, ARRAY_SIZE(methods), node, &node->server);
	if (r < 0) {
		free(node);
		return r;
	}
	*ret = node;
	return 0;
}

struct rpc_server *dra_node_server(const struct dra_node *node)
{
	return node->server;
}

void dra_node_stop(struct dra_node *node, uint64_t grace)
{
	mailbox_close(node->mailbox);
	while (node->calls) {
		struct dra_call *call = node->calls;

		node->calls = call->next;
		rpc_fail(call->call, RPC_UNAVAILABLE,
			"the driver is stopping; the kubelet will retry");
		call_free(call);
	}
	rpc_server_drain(node->server, grace);
}
