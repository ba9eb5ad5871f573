/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the optional calls, GetPreferredAllocation and PreStartContainer, and the options that
 * announce them. If a plugin does not offer a call, its cases are skipped.
 */
#include "kubelet/conformance/conformance.h"

#include "deviceplugin.pb-c.h"
#include "kubelet/conformance/devices.h"
#include "proto/message.h"
#include "proto/methods.h"

#define MANY_IDS 70000
#define ID_SIZE  63

struct options {
	bool pre_start, preferred;
};

static bool get_options(struct trial *trial, struct options *ret)
{
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;
	_cleanup_reply_ struct reply reply = {};
	_cleanup_message_ struct message message = {};
	const V1beta1__DevicePluginOptions *options;

	call_message(trial, METHOD_OPTIONS, &empty.base, &reply);
	if (reply.status == RPC_OK)
		message = message_unpack(
			&v1beta1__device_plugin_options__descriptor, reply.data, reply.size);
	options = (const V1beta1__DevicePluginOptions *)message.base;
	if (!options) {
		(void)trial_fail(trial, "GetDevicePluginOptions: %s",
			reply.status == RPC_OK ? "the answer cannot be decoded" : reply.text);
		return false;
	}
	*ret = (struct options){
		.pre_start = options->pre_start_required,
		.preferred = options->get_preferred_allocation_available,
	};
	return true;
}

/* A GetPreferredAllocation request for one container. */
struct wish {
	const char *what;
	char **available, **must_include;
	size_t n_available, n_must_include;
	int32_t size;
};

static void ask(struct trial *trial, const struct wish *wish, struct reply *ret)
{
	V1beta1__ContainerPreferredAllocationRequest container =
		V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest *containers[] = { &container };
	V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;

	container.n_available_deviceids = wish->n_available;
	container.available_deviceids = wish->available;
	container.n_must_include_deviceids = wish->n_must_include;
	container.must_include_deviceids = wish->must_include;
	container.allocation_size = wish->size;
	request.n_container_requests = 1;
	request.container_requests = containers;
	call_message(trial, METHOD_PREFERRED_ALLOCATION, &request.base, ret);
}

static bool is_in(char *const *list, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (streq(list[i], id))
			return true;
	return false;
}

static enum outcome check_preferred(
	struct trial *trial, const struct wish *wish, const struct reply *reply)
{
	_cleanup_message_ struct message message = {};
	const V1beta1__PreferredAllocationResponse *response;
	const V1beta1__ContainerPreferredAllocationResponse *chosen;

	if (reply->status != RPC_OK)
		return trial_fail(
			trial, "GetPreferredAllocation of %s: %s", wish->what, reply->text);
	message = message_unpack(
		&v1beta1__preferred_allocation_response__descriptor, reply->data, reply->size);
	response = (const V1beta1__PreferredAllocationResponse *)message.base;
	if (!response)
		return trial_fail(trial, "GetPreferredAllocation: the answer cannot be decoded");
	if (response->n_container_responses == 0 ||
		response->container_responses[0]->n_deviceids == 0)
		return OUTCOME_OK;
	chosen = response->container_responses[0];
	if (wish->size < 0 || chosen->n_deviceids != (size_t)wish->size)
		return trial_fail(trial,
			"GetPreferredAllocation of %s chose %zu devices instead of %d", wish->what,
			chosen->n_deviceids, (int)wish->size);
	for (size_t i = 0; i < chosen->n_deviceids; i++) {
		if (!is_in(wish->available, wish->n_available, chosen->deviceids[i]))
			return trial_fail(trial,
				"GetPreferredAllocation chose \"%.100s\", which is not available",
				chosen->deviceids[i]);
		if (is_in(chosen->deviceids, i, chosen->deviceids[i]))
			return trial_fail(trial, "GetPreferredAllocation chose \"%.100s\" twice",
				chosen->deviceids[i]);
	}
	for (size_t i = 0; i < wish->n_must_include; i++)
		if (!is_in(chosen->deviceids, chosen->n_deviceids, wish->must_include[i]))
			return trial_fail(trial,
				"GetPreferredAllocation left out \"%.100s\", which must be included",
				wish->must_include[i]);
	return OUTCOME_OK;
}

static enum outcome check_offers_preference(struct trial *trial)
{
	struct options options;

	if (!get_options(trial, &options))
		return OUTCOME_NOT_OK;
	if (options.preferred)
		return OUTCOME_OK;
	return trial_skip(trial, "the plugin offers no GetPreferredAllocation");
}

static enum outcome prefers(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_ids_ struct ids ids = {};
	enum outcome outcome = check_offers_preference(trial);

	if (outcome != OUTCOME_OK)
		return outcome;
	if (!ids_take(trial, &ids))
		return OUTCOME_NOT_OK;
	{
		size_t half = (ids.n + 1) / 2;
		const struct wish wishes[] = {
			{ "one device", ids.list, NULL, ids.n, 0, 1 },
			{ "half of the devices", ids.list, NULL, ids.n, 0, (int32_t)half },
			{ "all devices", ids.list, NULL, ids.n, 0, (int32_t)ids.n },
			{ "the second half of the devices", ids.list + ids.n - half, NULL, half, 0,
				(int32_t)half },
			{ "devices with the last one", ids.list, ids.list + ids.n - 1, ids.n, 1,
				(int32_t)half },
			{ "devices that must all be included", ids.list, ids.list, ids.n, half,
				(int32_t)half },
		};

		for (size_t i = 0; i < ARRAY_SIZE(wishes) && outcome == OUTCOME_OK; i++) {
			_cleanup_reply_ struct reply reply = {};

			ask(trial, &wishes[i], &reply);
			outcome = check_preferred(trial, &wishes[i], &reply);
		}
	}
	return outcome;
}

static enum outcome prefers_the_impossible(struct trial *trial, const struct conformance_case *self)
{
	char unknown[] = UNKNOWN_ID;
	char *strange[] = { unknown };
	_cleanup_ids_ struct ids ids = {};
	enum outcome outcome = check_offers_preference(trial);

	if (outcome != OUTCOME_OK)
		return outcome;
	if (!ids_take(trial, &ids))
		return OUTCOME_NOT_OK;
	{
		const struct wish wishes[] = {
			{ "more than is available", ids.list, NULL, ids.n, 0, (int32_t)ids.n + 1 },
			{ "a device that is unknown", strange, NULL, 1, 0, 1 },
			{ "a device that is not available", ids.list, strange, ids.n, 1, 1 },
			{ "fewer than must be included", ids.list, ids.list, ids.n, ids.n,
				(int32_t)ids.n - 1 },
			{ "no device", ids.list, NULL, ids.n, 0, 0 },
			{ "less than none", ids.list, NULL, ids.n, 0, -1 },
		};

		for (size_t i = 0; i < ARRAY_SIZE(wishes); i++) {
			_cleanup_reply_ struct reply reply = {};

			ask(trial, &wishes[i], &reply);
			if (reply.status != RPC_OK)
				return trial_fail(trial, "GetPreferredAllocation of %s: %s",
					wishes[i].what, reply.text);
		}
	}
	return trial_check_alive(trial, "impossible requests");
}

static enum outcome prefers_of_many(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_free_ char *block = NULL, **list = NULL;
	_cleanup_reply_ struct reply reply = {};
	struct wish wish = { .what = "one of 70000 devices", .size = 1 };
	enum outcome outcome = check_offers_preference(trial);

	if (outcome != OUTCOME_OK)
		return outcome;
	block = calloc(MANY_IDS, ID_SIZE + 1);
	list = calloc(MANY_IDS, sizeof(*list));
	if (!block || !list)
		return trial_fail(trial, "out of memory");
	for (size_t i = 0; i < MANY_IDS; i++) {
		list[i] = block + i * (ID_SIZE + 1);
		(void)snprintf(list[i], ID_SIZE + 1, "%0*zu", ID_SIZE, i);
	}
	wish.available = list;
	wish.n_available = MANY_IDS;
	ask(trial, &wish, &reply);
	if (reply.status != RPC_OK)
		return trial_fail(
			trial, "GetPreferredAllocation of %u ids: %s", MANY_IDS, reply.text);
	return trial_check_alive(trial, "a request of 4 MB");
}

static enum outcome keeps_its_options(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_reply_ struct reply preferred = {}, started = {};
	struct options options;

	if (!get_options(trial, &options))
		return OUTCOME_NOT_OK;
	if (options.preferred) {
		call_bytes(trial, METHOD_PREFERRED_ALLOCATION, NULL, 0, trial->options->timeout,
			&preferred);
		if (preferred.status == RPC_UNIMPLEMENTED)
			return trial_fail(trial,
				"the options offer GetPreferredAllocation, which is not implemented");
	}
	if (options.pre_start) {
		call_bytes(trial, METHOD_PRE_START_CONTAINER, NULL, 0, trial->options->timeout,
			&started);
		if (started.status == RPC_UNIMPLEMENTED)
			return trial_fail(trial,
				"the options ask for PreStartContainer, which is not implemented");
	}
	return OUTCOME_OK;
}

static enum outcome starts_containers(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_ids_ struct ids ids = {};
	struct options options;

	if (!get_options(trial, &options))
		return OUTCOME_NOT_OK;
	if (!options.pre_start)
		return trial_skip(trial, "the plugin asks for no PreStartContainer");
	if (!ids_take(trial, &ids))
		return OUTCOME_NOT_OK;
	/* Starting a container again is not a new allocation. */
	for (unsigned i = 0; i < 3; i++) {
		V1beta1__PreStartContainerRequest request =
			V1BETA1__PRE_START_CONTAINER_REQUEST__INIT;
		_cleanup_reply_ struct reply reply = {};

		request.n_devices_ids = 1;
		request.devices_ids = ids.list;
		if (i == 0) {
			_cleanup_reply_ struct reply allocated = {};

			allocate(trial, ids.list, 1, 1, trial->options->timeout, &allocated);
		}
		call_message(trial, METHOD_PRE_START_CONTAINER, &request.base, &reply);
		if (reply.status != RPC_OK)
			return trial_fail(
				trial, "PreStartContainer, time %u: %s", i + 1, reply.text);
	}
	return OUTCOME_OK;
}

static const struct conformance_case cases[] = {
	{ 28, "prefers",
		"prefers the requested number of available devices, including those that it must include",
		"the kubelet ignores devices that are not available, and then chooses arbitrarily",
		0, NEEDS_SERVING | NEEDS_DEVICE, prefers, NULL },
	{ 29, "prefers-the-impossible", "never fails GetPreferredAllocation",
		"after an error, the kubelet rejects the pod and leaks the devices that it took before",
		130172, NEEDS_SERVING | NEEDS_DEVICE, prefers_the_impossible, NULL },
	{ 30, "prefers-of-many", "accepts a GetPreferredAllocation request above 4 MiB",
		"the request contains all available ids, and again those that must be included",
		109304, NEEDS_SERVING, prefers_of_many, NULL },
	{ 31, "keeps-its-options", "implements what its options offer",
		"the kubelet calls the methods that the options offer, and fails the pod if one is not implemented",
		0, NEEDS_SERVING, keeps_its_options, NULL },
	{ 32, "starts-containers", "answers PreStartContainer for each start of a container",
		"the kubelet calls it before every restart, and an error keeps the container from starting",
		0, NEEDS_SERVING | NEEDS_DEVICE, starts_containers, NULL },
};

const struct case_table preference_cases = { cases, ARRAY_SIZE(cases) };
