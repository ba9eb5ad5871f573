/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the requests of the kubelet and makes its answers. Each claim has an outcome of its own; a
 * call fails as a whole only without memory, or if it is not valid.
 */
#include "dra/dra-call.h"

#include "common/json-read.h"

/* How long a kubelet waits for an answer. A caller without a limit is taken for one. */
#define KUBELET_TIMEOUT (45 * USEC_PER_SEC)
/* Before the caller gives up, so that it gets the reason. */
#define ANSWER_TIME (5 * USEC_PER_SEC)

static void call_free(struct dra_call *call)
{
	for (size_t i = 0; i < call->n_claims && call->outcomes; i++) {
		json_decref(call->outcomes[i].devices);
		free(call->outcomes[i].failure);
	}
	atomic_fetch_sub(call->counter, 1);
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

static int fill_device(struct device_block *block, enum dra_call_kind kind, const json_t *device)
{
	Dra__Device *made = &block->device;

	dra__device__init(made);
	block->request[0] = mutable_text_of(device, "request");
	made->request_names = block->request;
	made->n_request_names = 1;
	made->pool_name = mutable_text_of(device, "pool");
	made->device_name = mutable_text_of(device, "name");
	if (kind == DRA_CALL_PREPARE && *text_of(device, "share"))
		made->share_id = mutable_text_of(device, "share");
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

static int fill_claim(struct claim_block *block, enum dra_call_kind kind, const Dra__Claim *claim,
	const struct dra_outcome *outcome)
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

		if (fill_device(device, kind, json_array_get(outcome->devices, block->n_devices)) <
			0)
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
		r = fill_claim(&blocks[i], call->kind, call->claims[i], &call->outcomes[i]);
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

/* How long a call may take, if its caller waits that long. */
static uint64_t time_for(uint64_t timeout)
{
	uint64_t caller = MIN_OF(timeout, KUBELET_TIMEOUT);

	return caller - MIN_OF(ANSWER_TIME, caller / 2);
}

struct dra_call *dra_call_new(struct rpc_call *rpc, enum dra_call_kind kind, const uint8_t *data,
	size_t size, atomic_size_t *counter)
{
	bool prepare = kind != DRA_CALL_UNPREPARE;
	struct message message =
		message_unpack(prepare ? &dra__node_prepare_resources_request__descriptor
				       : &dra__node_unprepare_resources_request__descriptor,
			data, size);
	struct dra_call *call = NULL;
	bool busy = atomic_fetch_add(counter, 1) >= DRA_CALLS_MAX;

	if (message.base && !busy)
		call = calloc(1, sizeof(*call));
	if (!call) {
		atomic_fetch_sub(counter, 1);
		rpc_fail(rpc, message.base ? RPC_RESOURCE_EXHAUSTED : RPC_INVALID_ARGUMENT,
			message.base ? "too many calls wait for an answer"
				     : "the request is not a message of this method");
		message_done(&message);
		return NULL;
	}
	*call = (struct dra_call){
		.counter = counter,
		.call = rpc,
		.kind = kind,
		.prepare = prepare,
		.arrived_at = now_usec(CLOCK_MONOTONIC),
		.message = message,
	};
	call->until = call->arrived_at + time_for(rpc_call_timeout(rpc));
	/* The request of the other method has the same form. */
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
	if (call->outcomes && call->n_claims <= DRA_CALL_CLAIMS_MAX)
		return call;
	dra_call_fail(call, RPC_RESOURCE_EXHAUSTED, "the call names too many claims");
	return NULL;
}

void dra_call_answer(struct dra_call *call)
{
	if (call->prepare)
		answer_prepare(call);
	else
		answer_unprepare(call);
	call_free(call);
}

void dra_call_fail(struct dra_call *call, enum rpc_status status, const char *text)
{
	rpc_fail(call->call, status, text);
	call_free(call);
}
