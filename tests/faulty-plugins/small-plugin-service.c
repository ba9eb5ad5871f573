/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DevicePlugin service over four devices. A fault is a condition at the line that it spoils.
 */
#include "small-plugin.h"

#include <fcntl.h>
#include <pthread.h>

#include "deviceplugin.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"

#define OVERSIZE   70000
#define ID_SIZE    72
#define LEAK_FILES 2

static void name_device(const struct plugin *plugin, size_t i, char *id)
{
	if (plugin->fault == FAULT_DUPLICATE_IDS && i == DEVICES - 1)
		i = 0;
	if (plugin->fault == FAULT_NOT_UTF8 && i == 0)
		(void)snprintf(id, ID_SIZE, "d\xff");
	else if (plugin->fault == FAULT_CHANGING_IDS)
		(void)snprintf(id, ID_SIZE, "d%zu-of-%u", i, plugin->tries);
	else if (plugin->fault == FAULT_OVERSIZE_LIST)
		(void)snprintf(id, ID_SIZE, "%063zu", i);
	else
		(void)snprintf(id, ID_SIZE, "d%zu", i);
}

static bool is_healthy(const struct plugin *plugin, size_t i)
{
	if (i == 1 && plugin->fault == FAULT_NEVER_RECOVERS && plugin->ever_failed)
		return false;
	return (i != 1 || !plugin->failed) && (i != 2 || !plugin->unplugged);
}

void service_publish(struct plugin *plugin)
{
	static const char unhealthy[] = DEVICE_UNHEALTHY, healthy[] = DEVICE_HEALTHY,
			  odd[] = "healthy";
	size_t n = plugin->fault == FAULT_OVERSIZE_LIST ? OVERSIZE : DEVICES, used = 0;
	V1beta1__ListAndWatchResponse list = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;
	V1beta1__NUMANode node = V1BETA1__NUMANODE__INIT, *nodes[] = { &node };
	V1beta1__TopologyInfo topology = V1BETA1__TOPOLOGY_INFO__INIT;
	_cleanup_free_ V1beta1__Device *devices = calloc(n, sizeof(*devices));
	_cleanup_free_ char *ids = calloc(n, ID_SIZE);
	_cleanup_free_ V1beta1__Device **all = calloc(n, sizeof(*all));
	uint8_t *data;
	size_t size;

	if (!devices || !ids || !all)
		abort();
	node.id = plugin->fault == FAULT_NUMA_MINUS_ONE ? -1 : 0;
	topology.n_nodes = 1;
	topology.nodes = nodes;
	for (size_t i = 0; i < n; i++) {
		V1beta1__Device *device = &devices[used];

		if (i == 2 && plugin->unplugged && plugin->fault == FAULT_DROPS_DEVICE)
			continue;
		v1beta1__device__init(device);
		device->id = ids + i * ID_SIZE;
		name_device(plugin, i, device->id);
		device->health = (char *)(uintptr_t)(!is_healthy(plugin, i)   ? unhealthy
				: plugin->fault == FAULT_ODD_HEALTH && i == 0 ? odd
									      : healthy);
		device->topology = &topology;
		all[used++] = device;
	}
	list.n_devices = used;
	list.devices = all;
	if (message_pack(&list.base, &data, &size) < 0)
		abort();
	(void)rpc_publish(plugin->server, data, size);
	plugin->published = now_usec(CLOCK_MONOTONIC);
}

static void on_options(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

	options.pre_start_required = true;
	options.get_preferred_allocation_available = true;
	message_reply(call, &options.base);
}

/* --- Allocate --- */

static bool is_known(const struct plugin *plugin, const char *id)
{
	char known[ID_SIZE];

	for (size_t i = 0; i < DEVICES; i++) {
		name_device(plugin, i, known);
		if (streq(known, id))
			return true;
	}
	return false;
}

static void answer_allocate(
	struct plugin *plugin, struct rpc_call *call, const V1beta1__AllocateRequest *request)
{
	static _Thread_local char last[ID_SIZE];
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;
	V1beta1__ContainerAllocateResponse container = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;
	V1beta1__ContainerAllocateResponse__EnvsEntry env =
		V1BETA1__CONTAINER_ALLOCATE_RESPONSE__ENVS_ENTRY__INIT;
	V1beta1__ContainerAllocateResponse__EnvsEntry *envs[] = { &env };
	V1beta1__ContainerAllocateResponse *containers[2] = { &container, &container };
	char value[ID_SIZE] = "", text[160];

	if (request->n_container_requests > ARRAY_SIZE(containers)) {
		rpc_fail(call, RPC_INVALID_ARGUMENT, "too many containers");
		return;
	}
	for (size_t i = 0; i < request->n_container_requests; i++)
		for (size_t k = 0; k < request->container_requests[i]->n_devices_ids; k++) {
			const char *id = request->container_requests[i]->devices_ids[k];

			if (!is_known(plugin, id)) {
				(void)snprintf(
					text, sizeof(text), "there is no device \"%.80s\"", id);
				rpc_fail(call, RPC_NOT_FOUND, text);
				return;
			}
			(void)snprintf(value, sizeof(value), "%.70s", id);
		}
	env.key = (char[]){ "DEVICE" };
	env.value = value;
	/* Now and then with what another call asked for. */
	if (plugin->fault == FAULT_MIXES_ANSWERS && last[0] &&
		atomic_fetch_add(&plugin->allocations, 1) % 32 == 17)
		env.value = last;
	container.n_envs = 1;
	container.envs = envs;
	response.container_responses = containers;
	response.n_container_responses = request->n_container_requests;
	if (plugin->fault == FAULT_EMPTY_ANSWER)
		response.n_container_responses = 0;
	if (plugin->fault == FAULT_ONE_ANSWER)
		response.n_container_responses = MIN_OF(response.n_container_responses, (size_t)1);
	message_reply(call, &response.base);
	memcpy(last, value, sizeof(last));
}

static void handle_allocate(
	struct plugin *plugin, struct rpc_call *call, const uint8_t *data, size_t size)
{
	_cleanup_message_ struct message message =
		message_unpack(&v1beta1__allocate_request__descriptor, data, size);
	const V1beta1__AllocateRequest empty = V1BETA1__ALLOCATE_REQUEST__INIT;

	if (message.base)
		answer_allocate(plugin, call, (const V1beta1__AllocateRequest *)message.base);
	else if (plugin->fault == FAULT_TAKES_MALFORMED)
		answer_allocate(plugin, call, &empty);
	else
		rpc_fail(call, RPC_INVALID_ARGUMENT, "the request is malformed");
}

/* A call that is answered late. */
struct late_call {
	struct mailbox_message base;
	struct plugin *plugin;
	struct rpc_call *call;
	size_t size;
	uint8_t data[];
};

static void finish_late(struct late_call *late)
{
	handle_allocate(late->plugin, late->call, late->data, late->size);
	free(late);
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	finish_late(userdata);
	return 0;
}

static void deliver_late(struct mailbox_message *posted, void *userdata)
{
	struct late_call *late = (struct late_call *)posted;

	if (!userdata ||
		sd_event_add_time_relative(late->plugin->event, NULL, CLOCK_MONOTONIC,
			late->plugin->delay, 0, on_late, late) < 0)
		finish_late(late);
}

static void on_allocate(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct plugin *plugin = userdata;
	struct late_call *late;

	if (plugin->fault == FAULT_DIES)
		_exit(1);
	for (unsigned i = 0; plugin->fault == FAULT_LEAKS && i < LEAK_FILES; i++)
		if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
			break;
	if (plugin->fault != FAULT_SLOW_ALLOCATE) {
		handle_allocate(plugin, call, data, size);
		return;
	}
	late = malloc(sizeof(*late) + size);
	if (!late)
		abort();
	*late = (struct late_call){ .plugin = plugin, .call = call, .size = size };
	late->base.deliver = deliver_late;
	memcpy(late->data, data, size);
	mailbox_post(plugin->mailbox, &late->base);
}

/* --- GetPreferredAllocation --- */

static bool is_in(char *const *ids, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (streq(ids[i], id))
			return true;
	return false;
}

/* First what must be included, then in the order given. */
static size_t choose(const struct plugin *plugin,
	const V1beta1__ContainerPreferredAllocationRequest *wish, char **chosen)
{
	size_t n = 0, wanted = wish->allocation_size > 0 ? (size_t)wish->allocation_size : 0;

	if (wanted > wish->n_available_deviceids || wish->n_must_include_deviceids > wanted)
		return 0;
	for (size_t i = 0; i < wish->n_must_include_deviceids; i++) {
		if (plugin->fault == FAULT_PREFERRED_WRONG)
			break;
		if (!is_in(wish->available_deviceids, wish->n_available_deviceids,
			    wish->must_include_deviceids[i]))
			return 0;
		chosen[n++] = wish->must_include_deviceids[i];
	}
	for (size_t i = 0; i < wish->n_available_deviceids && n < wanted; i++)
		if (!is_in(wish->must_include_deviceids, wish->n_must_include_deviceids,
			    wish->available_deviceids[i]))
			chosen[n++] = wish->available_deviceids[i];
	return n == wanted ? n : 0;
}

static void on_preferred(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	const struct plugin *plugin = userdata;
	_cleanup_message_ struct message message =
		message_unpack(&v1beta1__preferred_allocation_request__descriptor, data, size);
	const V1beta1__PreferredAllocationRequest *request =
		(const V1beta1__PreferredAllocationRequest *)message.base;
	V1beta1__PreferredAllocationResponse response =
		V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;
	V1beta1__ContainerPreferredAllocationResponse container =
		V1BETA1__CONTAINER_PREFERRED_ALLOCATION_RESPONSE__INIT;
	V1beta1__ContainerPreferredAllocationResponse *containers[] = { &container };
	const V1beta1__ContainerPreferredAllocationRequest *wish;
	_cleanup_free_ char **chosen = NULL;

	if (plugin->fault == FAULT_WRONG_OPTIONS) {
		rpc_fail(call, RPC_UNIMPLEMENTED, "not implemented");
		return;
	}
	if (!request || request->n_container_requests != 1) {
		message_reply(call, &response.base);
		return;
	}
	wish = request->container_requests[0];
	chosen = calloc(
		wish->n_available_deviceids + wish->n_must_include_deviceids + 1, sizeof(*chosen));
	if (!chosen)
		abort();
	container.deviceids = chosen;
	container.n_deviceids = choose(plugin, wish, chosen);
	if (container.n_deviceids == 0 && plugin->fault == FAULT_PREFERRED_ERROR) {
		rpc_fail(call, RPC_INVALID_ARGUMENT, "the wish cannot be granted");
		return;
	}
	response.n_container_responses = 1;
	response.container_responses = containers;
	message_reply(call, &response.base);
}

static void on_pre_start(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct plugin *plugin = userdata;
	V1beta1__PreStartContainerResponse response = V1BETA1__PRE_START_CONTAINER_RESPONSE__INIT;

	if (plugin->fault == FAULT_PRE_START_ONCE && size > 0 &&
		atomic_fetch_add(&plugin->pre_starts, 1) > 0)
		rpc_fail(call, RPC_FAILED_PRECONDITION, "the device is started already");
	else
		message_reply(call, &response.base);
}

/* --- streams --- */

struct stream_message {
	struct mailbox_message base;
	struct plugin *plugin;
	uint64_t session;
	bool opened;
};

static void deliver_stream(struct mailbox_message *posted, void *userdata)
{
	struct stream_message *stream = (struct stream_message *)posted;

	if (userdata)
		registration_on_stream(stream->plugin, stream->session, stream->opened);
	free(stream);
}

static void post_stream(struct plugin *plugin, uint64_t session, bool opened)
{
	struct stream_message *stream = calloc(1, sizeof(*stream));

	if (!stream)
		abort();
	stream->base.deliver = deliver_stream;
	stream->plugin = plugin;
	stream->session = session;
	stream->opened = opened;
	mailbox_post(plugin->mailbox, &stream->base);
}

static void on_opened(uint64_t session, void *userdata)
{
	post_stream(userdata, session, true);
}

static void on_closed(uint64_t session, void *userdata)
{
	post_stream(userdata, session, false);
}

const struct rpc_method service_methods[] = {
	{ .path = METHOD_OPTIONS, .on_call = on_options },
	{ .path = METHOD_LIST_AND_WATCH, .on_opened = on_opened, .on_closed = on_closed },
	{ .path = METHOD_ALLOCATE, .on_call = on_allocate },
	{ .path = METHOD_PREFERRED_ALLOCATION, .on_call = on_preferred },
	{ .path = METHOD_PRE_START_CONTAINER, .on_call = on_pre_start },
};
const size_t service_n_methods = ARRAY_SIZE(service_methods);
