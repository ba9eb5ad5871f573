/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the contents of the list, and when it changes. cases-registration.c tests that the kubelet
 * can read it.
 */
#include "kubelet/conformance/conformance.h"

#include "kubelet/conformance/devices.h"
#include "kubelet/connection.h"
#include "proto/methods.h"

#define NUMA_MAX      63
#define BURST         50
#define BURST_SETTLE  (500 * USEC_PER_MSEC)
#define LISTS_PER_SEC 10
#define LISTS_SLACK   10

static enum outcome has_unique_ids(struct trial *trial, const struct conformance_case *self)
{
	const struct device_table *devices = trial_devices(trial);

	/* A list of n entries is reported with n; the table contains each id once. */
	if (devices->n_entries != devices->count)
		return trial_fail(trial, "%zu entries have %zu different ids", devices->n_entries,
			devices->count);
	for (size_t i = 0; i < devices->count; i++)
		if (devices->devices[i].id[0] == '\0')
			return trial_fail(trial, "a device has no id");
	return OUTCOME_OK;
}

static enum outcome has_known_health(struct trial *trial, const struct conformance_case *self)
{
	const struct device_table *devices = trial_devices(trial);

	for (size_t i = 0; i < devices->count; i++) {
		const struct listed_device *device = &devices->devices[i];

		if (!streq(device->health, DEVICE_HEALTHY) &&
			!streq(device->health, DEVICE_UNHEALTHY))
			return trial_fail(trial, "device \"%.100s\" has the health \"%.100s\"",
				device->id, device->health);
	}
	return OUTCOME_OK;
}

static enum outcome check_nodes(struct trial *trial, const struct listed_device *device)
{
	for (size_t i = 0; i < device->n_numa; i++) {
		if (device->numa[i] < 0 || device->numa[i] > NUMA_MAX)
			return trial_fail(trial, "device \"%.100s\" is on the NUMA node %lld",
				device->id, (long long)device->numa[i]);
		for (size_t k = 0; k < i; k++)
			if (device->numa[k] == device->numa[i])
				return trial_fail(trial,
					"device \"%.100s\" names the NUMA node %lld twice",
					device->id, (long long)device->numa[i]);
	}
	return OUTCOME_OK;
}

static enum outcome has_real_nodes(struct trial *trial, const struct conformance_case *self)
{
	const struct device_table *devices = trial_devices(trial);
	enum outcome outcome = OUTCOME_OK;

	for (size_t i = 0; i < devices->count && outcome == OUTCOME_OK; i++)
		outcome = check_nodes(trial, &devices->devices[i]);
	return outcome;
}

static bool has_healthy(struct trial *trial, const void *data)
{
	return trial_healthy(trial) == *(const size_t *)data;
}

static bool has_fewer_healthy(struct trial *trial, const void *data)
{
	return trial_healthy(trial) < *(const size_t *)data;
}

static enum outcome check_same_stream(
	struct trial *trial, const struct trial_counts *before, const char *when)
{
	if (trial->counts.ended != before->ended)
		return trial_fail(trial, "%s the stream ended: %s", when, trial->ended_by);
	if (trial->counts.registers != before->registers)
		return trial_fail(trial, "%s the plugin registered again", when);
	return OUTCOME_OK;
}

static enum outcome lost(struct trial *trial, const char *what)
{
	return trial_fail(trial, "%s: %zu of the devices are healthy", what, trial_healthy(trial));
}

static enum outcome health_changes(struct trial *trial, const struct conformance_case *self)
{
	const struct conformance_hooks *hooks = &trial->options->hooks;
	struct trial_counts counts = trial->counts;
	size_t healthy = trial_healthy(trial), count = trial_devices(trial)->count;
	enum outcome outcome;

	if (!trial_hook(trial, hooks->fail))
		return OUTCOME_NOT_OK;
	if (!trial_await(trial, has_fewer_healthy, &healthy))
		return lost(trial, "a device failed, but no list reports it");
	outcome = check_same_stream(trial, &counts, "when a device failed");
	if (outcome != OUTCOME_OK)
		return outcome;
	if (trial_devices(trial)->count != count)
		return trial_fail(trial, "the failed device is no longer listed");
	if (!trial_hook(trial, hooks->heal))
		return OUTCOME_NOT_OK;
	if (!trial_await(trial, has_healthy, &healthy))
		return lost(trial, "the device recovered, but no list reports it");
	return check_same_stream(trial, &counts, "when a device was healthy again");
}

static enum outcome health_flaps(struct trial *trial, const struct conformance_case *self)
{
	const struct conformance_hooks *hooks = &trial->options->hooks;
	struct trial_counts counts = trial->counts;
	size_t healthy = trial_healthy(trial);
	uint64_t began = manager_now();
	unsigned lists, bound;

	for (unsigned i = 0; i < BURST; i++)
		if (!trial_hook(trial, hooks->fail) || !trial_hook(trial, hooks->heal))
			return OUTCOME_NOT_OK;
	trial_pass(trial, BURST_SETTLE);
	if (!trial_await(trial, has_healthy, &healthy))
		return lost(trial, "after many changes, the list does not contain the last one");
	lists = trial->counts.lists - counts.lists;
	bound = (unsigned)((manager_now() - began) * LISTS_PER_SEC / USEC_PER_SEC) + LISTS_SLACK;
	if (lists > bound)
		return trial_fail(trial,
			"%u lists for %u changes, but %u would be one every 100 ms", lists,
			2 * BURST, bound);
	return check_same_stream(trial, &counts, "when a device failed again and again");
}

static enum outcome allocate_each(struct trial *trial)
{
	_cleanup_ids_ struct ids ids = {};

	if (!ids_take(trial, &ids))
		return OUTCOME_NOT_OK;
	for (size_t i = 0; i < ids.n; i++) {
		_cleanup_reply_ struct reply reply = {};

		allocate(trial, ids.list + i, 1, 1, trial->options->timeout, &reply);
	}
	return OUTCOME_OK;
}

static enum outcome check_unplugged(struct trial *trial, size_t healthy, size_t count)
{
	if (!trial_await(trial, has_fewer_healthy, &healthy))
		return lost(trial, "a device was unplugged, but no list reports it");
	if (check_same_stream(trial, &trial->before, "when a device was unplugged") != OUTCOME_OK)
		return OUTCOME_NOT_OK;
	if (trial_devices(trial)->count < count)
		return trial_fail(trial,
			"the unplugged device, which a container may use, is not listed as unhealthy: %zu devices of %zu",
			trial_devices(trial)->count, count);
	return OUTCOME_OK;
}

static enum outcome device_vanishes(struct trial *trial, const struct conformance_case *self)
{
	const struct conformance_hooks *hooks = &trial->options->hooks;
	struct trial_counts counts = trial->counts;
	size_t healthy = trial_healthy(trial), count = trial_devices(trial)->count;
	enum outcome outcome = allocate_each(trial);

	trial->before = counts;
	if (outcome != OUTCOME_OK || !trial_hook(trial, hooks->unplug))
		return OUTCOME_NOT_OK;
	outcome = check_unplugged(trial, healthy, count);
	/* Plugs the device in again after any result. If both steps fail, the first failure is
	 * reported. */
	if (!trial_plug_again(trial) || outcome != OUTCOME_OK)
		return OUTCOME_NOT_OK;
	if (!trial_await(trial, has_healthy, &healthy))
		return lost(trial, "the device was plugged in again, but no list reports it");
	if (trial_devices(trial)->count != count)
		return trial_fail(trial,
			"the device came back under another id: %zu devices of %zu",
			trial_devices(trial)->count, count);
	return check_same_stream(trial, &counts, "when a device was plugged in again");
}

/* The second stream is a call of our own on the kubelet's connection. */
struct second_stream {
	bool done;
	unsigned messages;
	size_t size;
};

static void on_message(const uint8_t *data, size_t size, void *userdata)
{
	struct second_stream *stream = userdata;

	__atomic_store_n(&stream->size, size, __ATOMIC_RELAXED);
	__atomic_add_fetch(&stream->messages, 1, __ATOMIC_RELEASE);
	trial_wake();
}

static void on_end(const struct rpc_result *result, void *userdata)
{
	struct second_stream *stream = userdata;

	__atomic_store_n(&stream->done, true, __ATOMIC_RELEASE);
	trial_wake();
}

static bool has_message_or_end(struct trial *trial, const void *data)
{
	const struct second_stream *stream = data;

	return __atomic_load_n(&stream->messages, __ATOMIC_ACQUIRE) > 0 ||
		__atomic_load_n(&stream->done, __ATOMIC_ACQUIRE);
}

static bool has_end(struct trial *trial, const void *data)
{
	const struct second_stream *stream = data;

	return __atomic_load_n(&stream->done, __ATOMIC_ACQUIRE);
}

static enum outcome serves_two_streams(struct trial *trial, const struct conformance_case *self)
{
	struct channel *client = connection_client(trial->manager, trial->resource);
	struct second_stream *stream = calloc(1, sizeof(*stream));
	struct trial_counts counts = trial->counts;
	bool served;

	if (!stream ||
		channel_stream(client, METHOD_LIST_AND_WATCH, (const uint8_t *)"", 0, on_message,
			on_end, stream) < 0) {
		free(stream);
		return trial_fail(trial, "out of memory");
	}
	served = trial_await(trial, has_message_or_end, stream) &&
		__atomic_load_n(&stream->messages, __ATOMIC_ACQUIRE) > 0;
	client = connection_client(trial->manager, trial->resource);
	if (client)
		channel_cancel(client, stream);
	/* A plugin that does not end the stream also keeps its memory. */
	if (trial_await(trial, has_end, stream))
		free(stream);
	if (!served)
		return trial_fail(trial, "a second ListAndWatch sent no list");
	trial_pass(trial, BURST_SETTLE);
	return check_same_stream(trial, &counts, "when a second stream came and went");
}

static const struct conformance_case cases[] = {
	{ 14, "ids-are-unique", "lists every device once, with an id",
		"duplicates count as one device, or as two if their health differs", 0,
		NEEDS_SERVING, has_unique_ids, NULL },
	{ 15, "health-is-known", "reports health as Healthy or Unhealthy only",
		"the kubelet treats any other value as unhealthy", 0, NEEDS_SERVING,
		has_known_health, NULL },
	{ 16, "numa-nodes-are-real", "names NUMA nodes from 0 to 63, each once, or none",
		"-1, which sysfs shows for no node, enables alignment and never matches, so pods are refused",
		135541, NEEDS_SERVING, has_real_nodes, NULL },
	{ 17, "health-changes", "reports the failure and recovery of a device in the same stream",
		"a stream that ends to refresh the list is an outage, and a device that never recovers is lost",
		60388, NEEDS_SERVING | NEEDS_HEALTH | NEEDS_DEVICE, health_changes, NULL },
	{ 18, "health-flaps", "sends many changes in few lists, and ends with the current list",
		"each list makes the kubelet write its checkpoint to disk under a global lock", 0,
		NEEDS_SERVING | NEEDS_HEALTH | NEEDS_DEVICE, health_flaps, NULL },
	{ 19, "device-disappears",
		"keeps an allocated device that disappears in the list, as unhealthy",
		"pods with a device that is not in the list crash kubelets of 1.36, and are shown as healthy",
		130050, NEEDS_SERVING | NEEDS_PLUG | NEEDS_DEVICE, device_vanishes, NULL },
	{ 20, "serves-two-streams", "serves a second ListAndWatch beside the first",
		"after a duplicate registration the kubelet follows two streams", 121994,
		NEEDS_SERVING, serves_two_streams, NULL },
};

const struct case_table list_cases = { cases, ARRAY_SIZE(cases) };
