/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The services of the driver: Registration, DRAPlugin, DRAResourceHealth.
 */
#include "common/json-read.h"
#include "dra.pb-c.h"
#include "drahealth.pb-c.h"
#include "pluginregistration.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "small-driver.h"

static char *mutable(const char *text)
{
	return (char *)(uintptr_t)text;
}

/* --- registration --- */

static void on_get_info(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	Pluginregistration__PluginInfo info = PLUGINREGISTRATION__PLUGIN_INFO__INIT;
	struct driver *driver = userdata;
	enum driver_fault fault = driver->fault;
	char *services[4];
	size_t n = 0;

	if (fault == DRIVER_FAULT_ANSWERS_ONCE && driver->infos++ > 0) {
		rpc_fail(call, RPC_FAILED_PRECONDITION, "the driver is registered already");
		return;
	}
	services[n++] = mutable(fault == DRIVER_FAULT_NO_SERVICE ? "v1.0.0" : "v1.DRAPlugin");
	if (fault == DRIVER_FAULT_ANNOUNCES_MORE)
		services[n++] = mutable("v1beta1.DRAPlugin");
	if (fault != DRIVER_FAULT_NO_HEALTH)
		services[n++] = mutable("v1alpha1.DRAResourceHealth");
	info.type = mutable(fault == DRIVER_FAULT_WRONG_TYPE ? "Driver" : "DRAPlugin");
	info.name = mutable(DRIVER_NAME);
	info.endpoint =
		mutable(fault == DRIVER_FAULT_RELATIVE_ENDPOINT ? "driver.sock" : driver->socket);
	info.supported_versions = services;
	info.n_supported_versions = n;
	message_reply(call, &info.base);
}

static void on_notify(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	/* RegistrationStatusResponse has no fields. */
	rpc_reply(call, (const uint8_t *)"", 0);
}

/* --- prepare --- */

struct entry {
	Dra__NodePrepareResourcesResponse__ClaimsEntry entry;
	Dra__NodePrepareResourceResponse response;
	Dra__Device *devices, **pointers;
	char **strings; /* two for each device */
	struct error error;
};

static void fill(struct entry *entry, const Dra__Claim *claim, const json_t *devices)
{
	size_t n = json_array_size(devices);

	dra__node_prepare_resources_response__claims_entry__init(&entry->entry);
	dra__node_prepare_resource_response__init(&entry->response);
	entry->entry.key = claim->uid;
	entry->entry.value = &entry->response;
	if (!devices)
		entry->response.error = entry->error.message;
	entry->devices = calloc(n + 1, sizeof(*entry->devices));
	entry->pointers = calloc(n + 1, sizeof(*entry->pointers));
	entry->strings = calloc(n * 2 + 1, sizeof(*entry->strings));
	if (!entry->devices || !entry->pointers || !entry->strings)
		abort();
	for (size_t i = 0; i < n; i++) {
		const json_t *device = json_array_get(devices, i);
		Dra__Device *made = entry->pointers[i] = &entry->devices[i];

		dra__device__init(made);
		entry->strings[i * 2] = mutable_text_of(device, "request");
		entry->strings[i * 2 + 1] = mutable_text_of(device, "cdi");
		made->request_names = &entry->strings[i * 2];
		made->cdi_device_ids = &entry->strings[i * 2 + 1];
		made->n_request_names = made->n_cdi_device_ids = 1;
		made->pool_name = mutable_text_of(device, "pool");
		made->device_name = mutable_text_of(device, "device");
	}
	entry->response.devices = entry->pointers;
	entry->response.n_devices = n;
}

static void refuse_malformed(struct rpc_call *call)
{
	rpc_fail(call, RPC_INVALID_ARGUMENT, "the request is malformed");
}

static void answer_prepare(struct driver *driver, struct rpc_call *call,
	const Dra__NodePrepareResourcesRequest *request)
{
	Dra__NodePrepareResourcesResponse response = DRA__NODE_PREPARE_RESOURCES_RESPONSE__INIT;
	_cleanup_free_ struct entry *entries = calloc(request->n_claims + 1, sizeof(*entries));
	_cleanup_free_ Dra__NodePrepareResourcesResponse__ClaimsEntry **pointers = calloc(
		request->n_claims + 1, sizeof(Dra__NodePrepareResourcesResponse__ClaimsEntry *));
	const char *failure = NULL;

	if (!entries || !pointers)
		abort();
	for (size_t i = 0; i < request->n_claims; i++) {
		const Dra__Claim *claim = request->claims[i];
		const json_t *devices = driver_prepare(
			driver, claim->namespace_, claim->name, claim->uid, &entries[i].error);

		fill(&entries[i], claim, devices);
		failure = devices ? failure : entries[i].error.message;
		pointers[i] = &entries[i].entry;
	}
	response.claims = pointers;
	response.n_claims = driver->fault == DRIVER_FAULT_SKIPS_CLAIMS
		? MIN_OF(request->n_claims, (size_t)1)
		: request->n_claims;
	if (failure && driver->fault == DRIVER_FAULT_FAILS_ALL)
		rpc_fail(call, RPC_UNKNOWN, failure);
	else
		message_reply(call, &response.base);
	for (size_t i = 0; i < request->n_claims; i++) {
		free(entries[i].devices);
		free(entries[i].pointers);
		free(entries[i].strings);
	}
}

static void on_prepare(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	const Dra__NodePrepareResourcesRequest empty = DRA__NODE_PREPARE_RESOURCES_REQUEST__INIT;
	_cleanup_message_ struct message message =
		message_unpack(&dra__node_prepare_resources_request__descriptor, data, size);
	struct driver *driver = userdata;

	if (!message.base && driver->fault == DRIVER_FAULT_DIES)
		_exit(1);
	if (message.base)
		answer_prepare(driver, call, (const void *)message.base);
	else if (driver->fault == DRIVER_FAULT_TAKES_MALFORMED)
		answer_prepare(driver, call, &empty);
	else
		refuse_malformed(call);
}

/* --- unprepare --- */

static void on_unprepare(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	_cleanup_message_ struct message message =
		message_unpack(&dra__node_unprepare_resources_request__descriptor, data, size);
	const Dra__NodeUnprepareResourcesRequest *request = (const void *)message.base;
	Dra__NodeUnprepareResourcesResponse response = DRA__NODE_UNPREPARE_RESOURCES_RESPONSE__INIT;
	size_t n = request ? request->n_claims : 0;
	_cleanup_free_ struct error *errors = calloc(n + 1, sizeof(*errors));
	_cleanup_free_ Dra__NodeUnprepareResourceResponse *values = calloc(n + 1, sizeof(*values));
	_cleanup_free_ Dra__NodeUnprepareResourcesResponse__ClaimsEntry *entries =
		calloc(n + 1, sizeof(*entries));
	_cleanup_free_ Dra__NodeUnprepareResourcesResponse__ClaimsEntry **pointers =
		calloc(n + 1, sizeof(Dra__NodeUnprepareResourcesResponse__ClaimsEntry *));

	if (!request) {
		refuse_malformed(call);
		return;
	}
	if (!errors || !values || !entries || !pointers)
		abort();
	for (size_t i = 0; i < n; i++) {
		dra__node_unprepare_resource_response__init(&values[i]);
		dra__node_unprepare_resources_response__claims_entry__init(&entries[i]);
		if (driver_unprepare(userdata, request->claims[i]->uid, &errors[i]) < 0)
			values[i].error = errors[i].message;
		entries[i].key = request->claims[i]->uid;
		entries[i].value = &values[i];
		pointers[i] = &entries[i];
	}
	response.claims = pointers;
	response.n_claims = n;
	message_reply(call, &response.base);
}

/* --- health --- */

void driver_publish(struct driver *driver)
{
	Drahealth__NodeWatchResourcesResponse response =
		DRAHEALTH__NODE_WATCH_RESOURCES_RESPONSE__INIT;
	Drahealth__DeviceHealth health[DRIVER_DEVICES], *pointers[DRIVER_DEVICES];
	Drahealth__DeviceIdentifier ids[DRIVER_DEVICES];
	char names[DRIVER_DEVICES][4];
	uint8_t *data;
	size_t size;

	for (size_t i = 0; i < DRIVER_DEVICES; i++) {
		bool failed = i == 0 &&
			(driver->fault == DRIVER_FAULT_NEVER_RECOVERS ? driver->ever_failed
								      : driver->failed);

		(void)snprintf(names[i], sizeof(names[i]), "d%u", (unsigned)(i % DRIVER_DEVICES));
		drahealth__device_identifier__init(&ids[i]);
		ids[i].pool_name = mutable(DRIVER_POOL);
		ids[i].device_name = names[i];
		drahealth__device_health__init(&health[i]);
		health[i].device = &ids[i];
		health[i].health = failed && driver->fault != DRIVER_FAULT_HEALTH_STAYS
			? DRAHEALTH__HEALTH_STATUS__UNHEALTHY
			: DRAHEALTH__HEALTH_STATUS__HEALTHY;
		health[i].last_updated_time = (int64_t)(now_usec(CLOCK_REALTIME) / USEC_PER_SEC);
		health[i].health_check_timeout_seconds = 3600;
		pointers[i] = &health[i];
	}
	response.devices = pointers;
	response.n_devices = DRIVER_DEVICES;
	if (driver->fault == DRIVER_FAULT_PARTIAL_HEALTH) {
		response.devices++;
		response.n_devices--;
	}
	if (message_pack(&response.base, &data, &size) < 0)
		abort();
	rpc_publish(driver->server, data, size);
}

const struct rpc_method driver_methods[] = {
	{ .path = METHOD_GET_INFO, .on_call = on_get_info },
	{ .path = METHOD_NOTIFY_REGISTRATION_STATUS, .on_call = on_notify },
	{ .path = METHOD_DRA("v1", DRA_PREPARE), .on_call = on_prepare },
	{ .path = METHOD_DRA("v1", DRA_UNPREPARE), .on_call = on_unprepare },
	{ .path = METHOD_DRA_HEALTH("v1alpha1") },
};

size_t driver_count_methods(enum driver_fault fault)
{
	return ARRAY_SIZE(driver_methods) - (fault == DRIVER_FAULT_NO_HEALTH);
}
