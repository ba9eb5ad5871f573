/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides in which order the drivers of a pod are called, and which parts of their answers are
 * kept. As in a kubelet, the first failure ends the operation.
 */
#include "kubelet/dra-operation.h"

#include "common/json-read.h"
#include "dra.pb-c.h"
#include "kubelet/claim-table.h"
#include "kubelet/dra-driver.h"
#include "kubelet/plugin-text.h"
#include "proto/message.h"
#include "proto/methods.h"

struct dra_operation {
	struct dra_operation *next;
	struct manager *manager;
	struct pod *pod;
	bool prepare;
	json_t *batches; /* of claim-table.h; the driver that is being called is the first one */
	uint64_t called;
	dra_operation_handler handler;
	void *userdata;
};

static const char *current_driver(const struct dra_operation *operation)
{
	return json_object_iter_key(json_object_iter(operation->batches));
}

static const json_t *current_batch(const struct dra_operation *operation)
{
	return json_object_get(operation->batches, current_driver(operation));
}

static const char *method_name(const struct dra_operation *operation)
{
	return operation->prepare ? DRA_PREPARE : DRA_UNPREPARE;
}

/* --- the end --- */

static void operation_free(struct dra_operation *operation)
{
	for (struct dra_operation **o = &operation->manager->dra_operations; *o; o = &(*o)->next)
		if (*o == operation) {
			*o = operation->next;
			break;
		}
	json_decref(operation->batches);
	free(operation);
}

static void end(struct dra_operation *operation, const char *failure)
{
	struct manager *manager = operation->manager;
	dra_operation_handler handler = operation->handler;
	struct pod *pod = operation->pod;
	void *userdata = operation->userdata;
	struct error error = {};

	if (!failure && operation->prepare)
		claim_table_set_prepared(manager->claims, pod);
	else if (!failure)
		claim_table_remove_pod(manager->claims, pod);
	if (claim_table_write(manager->claims, manager->options->state_dir, &error) < 0 && !failure)
		failure = error.message;
	operation_free(operation);
	handler(manager, pod, failure, userdata);
}

_printf_(2, 3) static void fail(struct dra_operation *operation, const char *format, ...)
{
	_cleanup_free_ char *why = NULL, *text = NULL;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&why, format, ap) < 0)
		why = NULL;
	va_end(ap);
	if (!why ||
		asprintf(&text, "%s dynamic resources: %s",
			operation->prepare ? "prepare" : "unprepare", why) < 0)
		text = NULL;
	end(operation, text ? text : "out of memory");
}

/* --- answers --- */

static json_t *find_claim(const struct dra_operation *operation, const char *uid)
{
	const json_t *batch = current_batch(operation);

	for (size_t i = 0; i < json_array_size(batch); i++)
		if (streq(text_of(json_array_get(batch, i), "uid"), uid))
			return json_array_get(batch, i);
	return NULL;
}

static json_t *strings(char *const *items, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n && array; i++)
		(void)json_array_append_new(array, text_json(items[i]));
	return array;
}

static int keep_devices(struct manager *manager, const json_t *claim, const char *driver,
	const Dra__NodePrepareResourceResponse *result)
{
	json_t *devices = json_object_get(json_object_get(claim, "drivers"), driver);
	bool changed = false;
	int r;

	for (size_t i = 0; i < result->n_devices; i++) {
		const Dra__Device *device = result->devices[i];
		json_t *share = *device->share_id ? text_json(device->share_id) : NULL;

		r = claim_table_add_device(devices,
			json_pack("{s:o, s:o, s:o, s:o, s:o*}", "requests",
				strings(device->request_names, device->n_request_names), "pool",
				text_json(device->pool_name), "device",
				text_json(device->device_name), "cdi",
				strings(device->cdi_device_ids, device->n_cdi_device_ids), "share",
				share));
		if (r < 0)
			return r;
		changed |= r > 0;
	}
	if (changed)
		manager_emit(manager,
			json_pack("{s:s, s:s, s:s, s:s}", "event", "claim-changed", "driver",
				driver, "claim", text_of(claim, "name"), "namespace",
				text_of(claim, "namespace")));
	return 0;
}

/* Checks the result of one claim. Returns whether it has an error, in which case the operation has
 * ended. */
static bool has_failed(struct dra_operation *operation, const char *uid, const char *error)
{
	const json_t *claim = find_claim(operation, uid);

	if (!claim)
		fail(operation, "%s returned result for unknown claim UID %s",
			method_name(operation), uid);
	else if (*error)
		fail(operation, "%s failed for ResourceClaim %s: %s", method_name(operation),
			text_of(claim, "name"), error);
	return !claim || *error;
}

static bool take_prepared(struct dra_operation *operation, const struct message *message)
{
	const Dra__NodePrepareResourcesResponse *response = (const void *)message->base;

	for (size_t i = 0; i < response->n_claims; i++) {
		const char *uid = response->claims[i]->key;
		const Dra__NodePrepareResourceResponse *result = response->claims[i]->value;

		if (has_failed(operation, uid, result ? result->error : ""))
			return false;
		if (result &&
			keep_devices(operation->manager, find_claim(operation, uid),
				current_driver(operation), result) < 0) {
			fail(operation, "out of memory");
			return false;
		}
	}
	return true;
}

static bool take_unprepared(struct dra_operation *operation, const struct message *message)
{
	const Dra__NodeUnprepareResourcesResponse *response = (const void *)message->base;

	for (size_t i = 0; i < response->n_claims; i++)
		if (has_failed(operation, response->claims[i]->key,
			    response->claims[i]->value ? response->claims[i]->value->error : ""))
			return false;
	return true;
}

static void next_driver(struct dra_operation *operation);

static void take_answer(struct dra_operation *operation, const struct message *message)
{
	size_t asked = json_array_size(current_batch(operation));
	size_t answered = operation->prepare
		? ((const Dra__NodePrepareResourcesResponse *)message->base)->n_claims
		: ((const Dra__NodeUnprepareResourcesResponse *)message->base)->n_claims;

	if (!(operation->prepare ? take_prepared(operation, message)
				 : take_unprepared(operation, message)))
		return;
	if (asked != answered) {
		fail(operation, "%s skipped %zd ResourceClaims", method_name(operation),
			(ssize_t)asked - (ssize_t)answered);
		return;
	}
	(void)json_object_del(operation->batches, current_driver(operation));
	next_driver(operation);
}

static void emit_call(const struct dra_operation *operation, const char *event, const char *error)
{
	manager_emit(operation->manager,
		json_pack("{s:s, s:s, s:s, s:s, s:I, s:o*}", "event", event, "driver",
			current_driver(operation), "pod", operation->pod->name, "namespace",
			operation->pod->namespace, "took_usec",
			(json_int_t)(manager_now() - operation->called), "error",
			error ? text_json(error) : NULL));
}

static void on_answer(struct manager *manager, const struct answer *answer, void *userdata)
{
	struct dra_operation *operation = userdata;
	_cleanup_message_ struct message message = {};

	dra_driver_answered(manager, current_driver(operation), answer);
	if (!answer->error)
		message = message_unpack(operation->prepare
				? &dra__node_prepare_resources_response__descriptor
				: &dra__node_unprepare_resources_response__descriptor,
			answer->data, answer->size);
	if (operation->prepare)
		emit_call(operation, "prepare", answer->error);
	else
		emit_call(operation, "unprepare", answer->error);
	if (!message.base)
		fail(operation, "%s: %s", method_name(operation),
			answer->error ? answer->error : answer_unreadable);
	else
		take_answer(operation, &message);
}

/* --- calls --- */

static int call(struct dra_operation *operation, struct error *error)
{
	/* The request of the other method has the same form. */
	Dra__NodePrepareResourcesRequest prepare = DRA__NODE_PREPARE_RESOURCES_REQUEST__INIT;
	Dra__NodeUnprepareResourcesRequest unprepare = DRA__NODE_UNPREPARE_RESOURCES_REQUEST__INIT;
	const json_t *batch = current_batch(operation);
	size_t n = json_array_size(batch);
	_cleanup_free_ Dra__Claim *claims = calloc(n + 1, sizeof(*claims));
	_cleanup_free_ Dra__Claim **pointers = calloc(n + 1, sizeof(*pointers));

	if (!claims || !pointers)
		return error_set(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const json_t *claim = json_array_get(batch, i);

		dra__claim__init(&claims[i]);
		claims[i].namespace_ = mutable_text_of(claim, "namespace");
		claims[i].name = mutable_text_of(claim, "name");
		claims[i].uid = mutable_text_of(claim, "uid");
		pointers[i] = &claims[i];
	}
	prepare.claims = unprepare.claims = pointers;
	prepare.n_claims = unprepare.n_claims = n;
	operation->called = manager_now();
	return dra_driver_call(operation->manager, current_driver(operation),
		method_name(operation), operation->prepare ? &prepare.base : &unprepare.base,
		on_answer, operation, error);
}

static void next_driver(struct dra_operation *operation)
{
	struct error error = {};

	if (json_object_size(operation->batches) == 0)
		end(operation, NULL);
	else if (call(operation, &error) < 0)
		fail(operation, "%s", error.message);
}

/* All drivers must be known before the first one is called. */
static int check_drivers(const struct dra_operation *operation, struct error *error)
{
	const char *driver;
	json_t *batch;

	json_object_foreach(operation->batches, driver, batch)
	{
		int r = dra_driver_check(operation->manager, driver, error);

		if (r < 0)
			return r;
	}
	return 0;
}

static void begin(struct manager *manager, struct pod *pod, bool prepare,
	dra_operation_handler handler, void *userdata)
{
	struct dra_operation *operation = calloc(1, sizeof(*operation));
	struct error error = {};
	int r = 0;

	if (!operation) {
		handler(manager, pod, "out of memory", userdata);
		return;
	}
	*operation = (struct dra_operation){ .next = manager->dra_operations,
		.manager = manager,
		.pod = pod,
		.prepare = prepare,
		.handler = handler,
		.userdata = userdata };
	manager->dra_operations = operation;
	if (prepare)
		r = claim_table_add_pod(manager->claims, pod, &error);
	/* A kubelet that ends during the call finds the claim in its file, and unprepares it. */
	if (r >= 0 && prepare)
		r = claim_table_write(manager->claims, manager->options->state_dir, &error);
	if (r >= 0) {
		operation->batches = prepare ? claim_table_unprepared(manager->claims, pod)
					     : claim_table_last_used(manager->claims, pod);
		r = operation->batches ? check_drivers(operation, &error)
				       : error_set(&error, -ENOMEM, "out of memory");
	}
	if (r < 0)
		fail(operation, "%s", error.message);
	else
		next_driver(operation);
}

void dra_prepare(
	struct manager *manager, struct pod *pod, dra_operation_handler handler, void *userdata)
{
	begin(manager, pod, true, handler, userdata);
}

void dra_unprepare(
	struct manager *manager, struct pod *pod, dra_operation_handler handler, void *userdata)
{
	begin(manager, pod, false, handler, userdata);
}

bool dra_is_under_way(const struct manager *manager, const struct pod *pod)
{
	for (const struct dra_operation *o = manager->dra_operations; o; o = o->next)
		if (o->pod == pod)
			return true;
	return false;
}

void dra_operation_free_all(struct manager *manager)
{
	while (manager->dra_operations)
		operation_free(manager->dra_operations);
}
