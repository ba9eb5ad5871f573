/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the calls to a DRA driver that several cases need, and decides what a valid answer is.
 * Claims come from the command line, or are made in the driver's API server.
 */
#include "kubelet/conformance/dra-calls.h"

#include "common/json-read.h"
#include "kubelet/conformance/cdi-directories.h"
#include "proto/methods.h"

/* Between two calls of NodePrepareResources. */
#define REPEAT_USEC (100 * USEC_PER_MSEC)

const struct claim_name unknown_claim = {
	.namespace = "default",
	.name = UNKNOWN_CLAIM,
	.uid = "00000000-0000-4000-8000-000000000000",
};

/* --- the claims --- */

static const json_t *results_of(const json_t *claim)
{
	const json_t *allocation = json_object_get(json_object_get(claim, "status"), "allocation");

	return json_object_get(json_object_get(allocation, "devices"), "results");
}

int claims_check(const json_t *claims, struct error *error)
{
	const json_t *claim, *result;
	size_t i, k;

	json_array_foreach(claims, i, claim)
	{
		const json_t *metadata = json_object_get(claim, "metadata");

		if (!set_text_of(metadata, "name") || !set_text_of(metadata, "namespace") ||
			!set_text_of(metadata, "uid"))
			return error_set(error, -EINVAL,
				"claim %zu is not a ResourceClaim as the API server prints it",
				i + 1);
		if (json_array_size(results_of(claim)) == 0)
			return error_set(error, -EINVAL, "ResourceClaim %s is not allocated",
				text_of(metadata, "name"));
		json_array_foreach(results_of(claim), k, result)
		{
			if (!set_text_of(result, "driver") || !set_text_of(result, "pool") ||
				!set_text_of(result, "device") || !set_text_of(result, "request"))
				return error_set(error, -EINVAL,
					"driver, pool, device or request is missing in a result of the ResourceClaim %s",
					text_of(metadata, "name"));
		}
	}
	return 0;
}

/* Counts only claims of the driver. */
static const json_t *claim_at(const struct trial *trial, size_t wanted)
{
	const json_t *claim, *result;
	size_t i, k;

	json_array_foreach(trial->claims, i, claim)
	{
		bool found = false;

		json_array_foreach(results_of(claim), k, result)
		{
			found = found || streq(text_of(result, "driver"), trial->resource);
		}
		if (found && wanted-- == 0)
			return claim;
	}
	return NULL;
}

size_t claims_count(const struct trial *trial)
{
	size_t n = 0;

	while (trial->resource && claim_at(trial, n))
		n++;
	return n;
}

struct claim_name claims_name(const struct trial *trial, size_t i)
{
	const json_t *metadata = json_object_get(claim_at(trial, i), "metadata");

	return (struct claim_name){
		.namespace = text_of(metadata, "namespace"),
		.name = text_of(metadata, "name"),
		.uid = text_of(metadata, "uid"),
	};
}

json_t *claims_results(const struct trial *trial, size_t i)
{
	json_t *mine = json_array(), *result;
	size_t k;

	json_array_foreach(results_of(claim_at(trial, i)), k, result)
	{
		if (streq(text_of(result, "driver"), trial->resource))
			(void)json_array_append(mine, result);
	}
	return mine;
}

static bool shares_device(const json_t *a, const json_t *b)
{
	const json_t *one, *other;
	size_t i, k;

	json_array_foreach(a, i, one)
	{
		json_array_foreach(b, k, other)
		{
			if (streq(text_of(one, "pool"), text_of(other, "pool")) &&
				streq(text_of(one, "device"), text_of(other, "device")))
				return true;
		}
	}
	return false;
}

bool claims_find(const struct trial *trial, bool sharing, size_t *ret)
{
	json_auto_t *first = claims_results(trial, 0);

	for (size_t i = 1; i < claims_count(trial); i++) {
		json_auto_t *other = claims_results(trial, i);

		if (shares_device(first, other) != sharing)
			continue;
		*ret = i;
		return true;
	}
	return false;
}

/* --- calls --- */

/* Returns 0, or negative errno with the trial's message; -ETIMEDOUT: there was no answer. */
static int call(struct trial *trial, const char *name, const struct claim_name *names, size_t n,
	uint64_t limit, const ProtobufCMessageDescriptor *type, struct message *ret)
{
	/* The request of the other method has the same form. */
	Dra__NodePrepareResourcesRequest request = DRA__NODE_PREPARE_RESOURCES_REQUEST__INIT;
	_cleanup_free_ Dra__Claim *claims = calloc(n + 1, sizeof(*claims));
	_cleanup_free_ Dra__Claim **pointers = calloc(n + 1, sizeof(*pointers));
	_cleanup_reply_ struct reply reply = {};
	_cleanup_free_ uint8_t *data = NULL;
	char method[CALL_METHOD_MAX];
	size_t size;

	if (!claims || !pointers)
		abort();
	for (size_t i = 0; i < n; i++) {
		dra__claim__init(&claims[i]);
		claims[i].namespace_ = (char *)(uintptr_t)names[i].namespace;
		claims[i].name = (char *)(uintptr_t)names[i].name;
		claims[i].uid = (char *)(uintptr_t)names[i].uid;
		pointers[i] = &claims[i];
	}
	request.claims = pointers;
	request.n_claims = n;
	if (message_pack(&request.base, &data, &size) < 0)
		abort();
	call_with_deadline(trial, call_dra_method(trial, name, method), data, size, limit, &reply);
	if (reply.status == RPC_OK)
		*ret = message_unpack(type, reply.data, reply.size);
	if (reply.status == RPC_OK && ret->base)
		return 0;
	(void)trial_fail(trial, "%s failed: %s", name,
		reply.status == RPC_OK ? "the answer cannot be read" : reply.text);
	return reply.status < 0 ? reply.status : -EBADMSG;
}

bool dra_prepare_call(
	struct trial *trial, const struct claim_name *claims, size_t n, struct message *ret)
{
	return call(trial, DRA_PREPARE, claims, n, trial->options->timeout,
		       &dra__node_prepare_resources_response__descriptor, ret) >= 0;
}

bool dra_unprepare_call(
	struct trial *trial, const struct claim_name *claims, size_t n, struct message *ret)
{
	return call(trial, DRA_UNPREPARE, claims, n, trial->options->timeout,
		       &dra__node_unprepare_resources_response__descriptor, ret) >= 0;
}

const Dra__NodePrepareResourceResponse *dra_find_prepared(
	const struct message *message, const char *uid)
{
	const Dra__NodePrepareResourcesResponse *response = (const void *)message->base;

	for (size_t i = 0; i < response->n_claims; i++)
		if (streq(response->claims[i]->key, uid))
			return response->claims[i]->value;
	return NULL;
}

const Dra__NodeUnprepareResourceResponse *dra_find_unprepared(
	const struct message *message, const char *uid)
{
	/* A success is an empty message, which may be absent. */
	static const Dra__NodeUnprepareResourceResponse done =
		DRA__NODE_UNPREPARE_RESOURCE_RESPONSE__INIT;
	const Dra__NodeUnprepareResourcesResponse *response = (const void *)message->base;

	for (size_t i = 0; i < response->n_claims; i++)
		if (streq(response->claims[i]->key, uid))
			return response->claims[i]->value ? response->claims[i]->value : &done;
	return NULL;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *join(char *const *items, size_t n)
{
	_cleanup_free_ char **sorted = calloc(n + 1, sizeof(*sorted));
	size_t size;
	char *text;
	FILE *stream = open_memstream(&text, &size);

	if (!sorted || !stream)
		abort();
	for (size_t i = 0; i < n; i++)
		sorted[i] = items[i];
	qsort(sorted, n, sizeof(*sorted), compare_lines);
	for (size_t i = 0; i < n; i++)
		(void)fprintf(stream, "%s%s", i > 0 ? ", " : "", sorted[i]);
	(void)fclose(stream);
	return text;
}

char *dra_describe_devices(const Dra__NodePrepareResourceResponse *prepared)
{
	_cleanup_free_ char **lines = calloc(prepared->n_devices + 1, sizeof(*lines));
	char *text;

	if (!lines)
		abort();
	for (size_t i = 0; i < prepared->n_devices; i++) {
		const Dra__Device *device = prepared->devices[i];
		_cleanup_free_ char *requests =
			join(device->request_names, device->n_request_names);
		_cleanup_free_ char *cdi = join(device->cdi_device_ids, device->n_cdi_device_ids);

		if (asprintf(&lines[i], "%s/%s for [%s]: [%s]", device->pool_name,
			    device->device_name, requests, cdi) < 0)
			abort();
	}
	text = join(lines, prepared->n_devices);
	for (size_t i = 0; i < prepared->n_devices; i++)
		free(lines[i]);
	return text;
}

/* Returns 0, or negative errno with the trial's message; -ETIMEDOUT: there was no answer. */
static int prepare_within(
	struct trial *trial, const struct claim_name *claim, uint64_t limit, char **ret)
{
	_cleanup_message_ struct message message = {};
	const Dra__NodePrepareResourceResponse *prepared;
	int r;

	r = call(trial, DRA_PREPARE, claim, 1, limit,
		&dra__node_prepare_resources_response__descriptor, &message);
	if (r < 0)
		return r;
	prepared = dra_find_prepared(&message, claim->uid);
	if (!prepared)
		(void)trial_fail(
			trial, "the answer of " DRA_PREPARE " has no entry for %s", claim->uid);
	else if (*prepared->error)
		(void)trial_fail(trial, DRA_PREPARE " of %s/%s: %s", claim->namespace, claim->name,
			prepared->error);
	else if (ret)
		*ret = dra_describe_devices(prepared);
	return prepared && !*prepared->error ? 0 : -EREMOTEIO;
}

bool dra_prepare_one(struct trial *trial, const struct claim_name *claim, char **ret)
{
	return prepare_within(trial, claim, trial->options->timeout, ret) >= 0;
}

bool dra_unprepare_one(struct trial *trial, const struct claim_name *claim)
{
	_cleanup_message_ struct message message = {};
	const Dra__NodeUnprepareResourceResponse *result;

	if (!dra_unprepare_call(trial, claim, 1, &message))
		return false;
	result = dra_find_unprepared(&message, claim->uid);
	if (!result)
		(void)trial_fail(
			trial, "the answer of " DRA_UNPREPARE " has no entry for %s", claim->uid);
	else if (*result->error)
		(void)trial_fail(trial, DRA_UNPREPARE " of %s/%s: %s", claim->namespace,
			claim->name, result->error);
	return result && !*result->error;
}

size_t dra_count_described(
	const struct trial *trial, const Dra__NodePrepareResourceResponse *prepared)
{
	size_t n = 0;

	for (size_t i = 0; i < prepared->n_devices; i++)
		for (size_t k = 0; k < prepared->devices[i]->n_cdi_device_ids; k++)
			n += cdi_count(trial->options, prepared->devices[i]->cdi_device_ids[k]);
	return n;
}

bool dra_prepare_waiting(
	struct trial *trial, const struct claim_name *claim, struct message *ret_message)
{
	uint64_t end = manager_now() + trial->options->timeout;
	const Dra__NodePrepareResourceResponse *prepared;

	for (;;) {
		if (!dra_prepare_call(trial, claim, 1, ret_message))
			return false;
		prepared = dra_find_prepared(ret_message, claim->uid);
		if (prepared && !*prepared->error)
			return true;
		if (!prepared || manager_now() >= end || trial->interrupted)
			break;
		message_done(ret_message);
		trial_pass(trial, REPEAT_USEC);
	}
	(void)trial_fail(trial, DRA_PREPARE " of %s/%s: %s", claim->namespace, claim->name,
		prepared ? prepared->error : "the claim is missing in the answer");
	return false;
}

enum outcome dra_check_refused_within(
	struct trial *trial, const struct claim_name *claim, const char *what, uint64_t limit)
{
	_cleanup_free_ char *devices = NULL;
	int r = prepare_within(trial, claim, limit, &devices);

	if (r >= 0)
		return trial_fail(trial, "%s was prepared: %s", what, devices);
	if (r == -ETIMEDOUT)
		return OUTCOME_NOT_OK;
	trial->message[0] = '\0';
	return trial_check_alive(trial, what);
}

enum outcome dra_check_refused(
	struct trial *trial, const struct claim_name *claim, const char *what)
{
	return dra_check_refused_within(trial, claim, what, trial->options->timeout);
}

enum outcome dra_end(struct trial *trial, const struct claim_name *claim)
{
	return dra_unprepare_one(trial, claim) ? OUTCOME_OK : OUTCOME_NOT_OK;
}

void dra_unprepare_all(struct trial *trial)
{
	for (size_t i = 0; i < claims_count(trial); i++) {
		struct claim_name claim = claims_name(trial, i);

		(void)dra_unprepare_one(trial, &claim);
	}
	trial->message[0] = '\0';
}

bool dra_check_removed(struct trial *trial, const Dra__NodePrepareResourceResponse *prepared)
{
	size_t n = dra_count_described(trial, prepared);

	if (n > 0)
		(void)trial_fail(trial,
			"after " DRA_UNPREPARE " %zu CDI devices of the claim are still described",
			n);
	return n == 0;
}
