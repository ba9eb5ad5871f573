/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what the driver publishes. The API server is a devplug-apiserver, which refuses the same
 * slices as a real one. The cases check the rest: that the slices are one pool, and that they are
 * there again after every kind of failure.
 */
#include "common/json-read.h"
#include "kubelet/conformance/conformance.h"

#include "kubelet/conformance/api-server.h"

/* No client writes for that long, or the driver never stops writing. */
#define QUIET (3 * USEC_PER_SEC)
/* timeAdded has whole seconds. */
#define NEXT_SECOND (1100 * USEC_PER_MSEC)

/* What devplug-apiserver does once, in place of an answer. */
static const char *const failures[] = { "401", "403", "404", "409", "410", "422", "429", "500",
	"503", "close", "garbage", "empty" };

/* --- one pool --- */

static bool is_owned_by_node(const json_t *slice)
{
	const json_t *owner;
	size_t i;

	json_array_foreach(
		json_object_get(json_object_get(slice, "metadata"), "ownerReferences"), i, owner)
	{
		if (streq(text_of(owner, "kind"), "Node"))
			return true;
	}
	return false;
}

/* An invalid pool has a consumer of counters that no slice has, or a name twice. */
static enum outcome check_validity(struct trial *trial)
{
	json_auto_t *pools = api_pools(trial);
	const json_t *pool;
	size_t i;

	json_array_foreach(pools, i, pool)
	{
		if (*text_of(pool, "invalid"))
			return trial_fail(trial, "schedulers allocate no device of the pool: %s",
				text_of(pool, "invalid"));
	}
	return pools ? OUTCOME_OK : OUTCOME_NOT_OK;
}

static enum outcome check_refusals(struct trial *trial)
{
	json_auto_t *body = NULL;
	const json_t *request;
	size_t i;

	if (!api_request(trial, "GET", "/devplug/requests", NULL, &body))
		return OUTCOME_NOT_OK;
	json_array_foreach(json_object_get(body, "requests"), i, request)
	{
		json_int_t code = json_integer_value(json_object_get(request, "code"));

		if ((code == 400 || code == 422) &&
			strstr(text_of(request, "path"), "/resourceslices"))
			return trial_fail(trial,
				"the API server refused a ResourceSlice: %s %s: %d",
				text_of(request, "method"), text_of(request, "path"), (int)code);
	}
	return OUTCOME_OK;
}

static enum outcome publishes(struct trial *trial, const struct conformance_case *self)
{
	json_auto_t *devices = api_await_pool(trial), *slices = NULL;
	enum outcome outcome;
	const json_t *slice;
	size_t i;

	if (!devices)
		return OUTCOME_NOT_OK;
	outcome = check_validity(trial);
	if (outcome != OUTCOME_OK)
		return outcome;
	slices = api_slices(trial);
	if (!slices)
		return OUTCOME_NOT_OK;
	json_array_foreach(slices, i, slice)
	{
		const char *node = set_text_of(json_object_get(slice, "spec"), "nodeName");

		if (node && !is_owned_by_node(slice))
			return trial_fail(trial,
				"the slice %s has no Node in its ownerReferences, so that it stays when the Node is deleted",
				text_of(json_object_get(slice, "metadata"), "name"));
	}
	return check_refusals(trial);
}

/* --- what others do --- */

static enum outcome restores(struct trial *trial, const struct conformance_case *self)
{
	json_auto_t *devices = api_await_pool(trial);

	if (!devices || !api_delete_slices(trial) || !api_await_devices(trial, devices))
		return OUTCOME_NOT_OK;
	return OUTCOME_OK;
}

/* Removes the last device of a slice, as another client; the taint of `kept` is in the same slice
 * and stays. `kept` NULL: of the first slice that has a device. */
static bool damage_slice(struct trial *trial, const json_t *kept)
{
	json_auto_t *slices = api_slices(trial);
	json_t *slice;
	size_t i;

	json_array_foreach(slices, i, slice)
	{
		json_t *devices = json_object_get(json_object_get(slice, "spec"), "devices");
		size_t last = json_array_size(devices);
		bool other = kept &&
			!streq(text_of(json_object_get(slice, "metadata"), "name"),
				text_of(kept, "slice"));

		if (last == 0 || other)
			continue;
		last--;
		if (kept && last > 0 &&
			streq(text_of(json_array_get(devices, last), "name"),
				text_of(kept, "device")))
			last--;
		(void)json_array_remove(devices, last);
		return api_write_slice(trial, slice);
	}
	(void)trial_fail(trial, "the driver has removed its slices");
	return false;
}

static enum outcome corrects(struct trial *trial, const struct conformance_case *self)
{
	json_auto_t *devices = api_await_pool(trial);

	if (!devices)
		return OUTCOME_NOT_OK;
	if (json_object_size(devices) == 0)
		return trial_skip(trial, "the driver has published no device");
	if (!damage_slice(trial, NULL) || !api_await_devices(trial, devices))
		return OUTCOME_NOT_OK;
	return OUTCOME_OK;
}

/* The devices as the scheduler sees them, one after the other. */
static char *list_devices(const json_t *devices)
{
	json_t *list = json_array(), *device;
	const char *key;
	char *text;

	json_object_foreach((json_t *)(uintptr_t)devices, key, device)
	{
		(void)json_array_append_new(list,
			json_pack("{s:s, s:O?, s:O?}", "device", key, "attributes",
				json_object_get(device, "attributes"), "capacity",
				json_object_get(device, "capacity")));
	}
	text = json_dumps(list, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(list);
	if (!text)
		abort();
	return text;
}

static enum outcome keeps_order(struct trial *trial, const struct conformance_case *self)
{
	json_auto_t *before = api_await_pool(trial), *after = NULL;
	_cleanup_free_ char *one = NULL, *other = NULL;

	if (!before || !trial_kill_plugin(trial) || !api_delete_slices(trial) ||
		!trial_start_plugin(trial) || !trial_await_serving(trial) ||
		!api_await_devices(trial, before))
		return OUTCOME_NOT_OK;
	after = api_await_pool(trial);
	if (!after)
		return OUTCOME_NOT_OK;
	one = list_devices(before);
	other = list_devices(after);
	if (streq(one, other))
		return OUTCOME_OK;
	return trial_fail(
		trial, "after a restart the devices are %.300s instead of %.300s", other, one);
}

/* --- writes without end --- */

static enum outcome check_quiet(struct trial *trial, const char *when)
{
	size_t before, after;

	trial_pass(trial, QUIET);
	if (!api_count_writes(trial, &before))
		return OUTCOME_NOT_OK;
	trial_pass(trial, QUIET);
	if (!api_count_writes(trial, &after))
		return OUTCOME_NOT_OK;
	if (after > before)
		return trial_fail(trial, "%s, the driver wrote ResourceSlices %zu times in %u s",
			when, after - before, (unsigned)(QUIET / USEC_PER_SEC));
	return OUTCOME_OK;
}

static enum outcome is_quiet(struct trial *trial, const struct conformance_case *self)
{
	json_auto_t *devices = api_await_pool(trial);

	return devices ? check_quiet(trial, "while nothing changed") : OUTCOME_NOT_OK;
}

/* Publishes all slices again, on a server of that release. */
static enum outcome publish_as(struct trial *trial, const json_t *release)
{
	json_auto_t *devices = NULL;

	if (!api_request(trial, "PUT", "/devplug/release", json_deep_copy(release), NULL) ||
		!api_delete_slices(trial))
		return OUTCOME_NOT_OK;
	devices = api_await_pool(trial);
	return devices ? OUTCOME_OK : OUTCOME_NOT_OK;
}

/* Whether the present release lacks a field that the driver has published. */
static bool has_dropped(struct trial *trial, bool *ret)
{
	json_auto_t *release = NULL;

	if (!api_request(trial, "GET", "/devplug/release", NULL, &release))
		return false;
	*ret = json_is_true(json_object_get(release, "dropped"));
	return true;
}

static enum outcome tolerates_dropped_fields(
	struct trial *trial, const struct conformance_case *self)
{
	json_auto_t *devices = api_await_pool(trial), *release = NULL;
	json_auto_t *older = json_pack("{s:s}", "release", "1.35");
	enum outcome outcome;
	bool dropped;

	if (!devices || !api_request(trial, "GET", "/devplug/release", NULL, &release))
		return OUTCOME_NOT_OK;
	outcome = publish_as(trial, older);
	if (outcome == OUTCOME_OK)
		outcome = check_quiet(trial, "on a server that drops fields");
	if (outcome == OUTCOME_OK && !has_dropped(trial, &dropped))
		outcome = OUTCOME_NOT_OK;
	if (outcome == OUTCOME_OK && !dropped)
		outcome = trial_skip(
			trial, "the driver has published no field that Kubernetes 1.35 drops");
	if (!api_request(trial, "PUT", "/devplug/release", json_incref(release), NULL))
		return OUTCOME_NOT_OK;
	return outcome;
}

/* --- failures --- */

static enum outcome recover_from(struct trial *trial, const char *failure, const json_t *devices)
{
	char why[320];

	if (!api_set_faults(trial, json_pack("[{s:s, s:i}]", "do", failure, "times", 1)) ||
		!api_delete_slices(trial))
		return OUTCOME_NOT_OK;
	if (api_await_devices(trial, devices))
		return OUTCOME_OK;
	(void)snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, trial->message);
	return trial_fail(trial, "after a request was answered with \"%s\": %s", failure, why);
}

static enum outcome recovers(struct trial *trial, const struct conformance_case *self)
{
	json_auto_t *devices = api_await_pool(trial);
	enum outcome outcome = devices ? OUTCOME_OK : OUTCOME_NOT_OK;

	for (size_t i = 0; outcome == OUTCOME_OK && i < ARRAY_SIZE(failures); i++)
		outcome = recover_from(trial, failures[i], devices);
	if (!api_set_faults(trial, NULL) || outcome != OUTCOME_OK)
		return OUTCOME_NOT_OK;
	return trial_check_alive(trial, "failures of the API server");
}

/* --- the time of a taint --- */

/* The first taint that keeps pods away, with the name of its device; NULL: there is none. */
static json_t *find_taint(struct trial *trial)
{
	json_auto_t *slices = api_slices(trial);
	const json_t *slice, *device;
	size_t i, k;

	json_array_foreach(slices, i, slice)
	{
		json_array_foreach(
			json_object_get(json_object_get(slice, "spec"), "devices"), k, device)
		{
			const json_t *taint = api_find_taint(device);

			if (taint)
				return json_pack("{s:O, s:O, s:O}", "device",
					json_object_get(device, "name"), "taint", taint, "slice",
					json_object_get(
						json_object_get(slice, "metadata"), "name"));
		}
	}
	return NULL;
}

static bool has_taint(struct trial *trial, const void *data)
{
	json_auto_t *found = find_taint(trial);

	return found;
}

static bool has_no_taint(struct trial *trial, const void *data)
{
	return !has_taint(trial, data);
}

/* How many devices the slice of the taint has. */
static size_t count_beside(struct trial *trial, const json_t *found)
{
	json_auto_t *slices = api_slices(trial);
	const json_t *slice;
	size_t i, n = 0;

	json_array_foreach(slices, i, slice)
	{
		if (streq(text_of(json_object_get(slice, "metadata"), "name"),
			    text_of(found, "slice")))
			n = json_array_size(
				json_object_get(json_object_get(slice, "spec"), "devices"));
	}
	return n;
}

/* Has another client change the slice, and compares the taint when the driver has corrected it. */
static enum outcome compare_taints(struct trial *trial)
{
	json_auto_t *before = find_taint(trial), *devices = api_await_pool(trial), *after = NULL;

	if (!devices)
		return OUTCOME_NOT_OK;
	if (count_beside(trial, before) < 2)
		return trial_skip(
			trial, "the slice of the device with a taint has no other device");
	trial_pass(trial, NEXT_SECOND);
	if (!damage_slice(trial, before) || !api_await_devices(trial, devices))
		return OUTCOME_NOT_OK;
	after = find_taint(trial);
	(void)json_object_del(before, "slice");
	(void)json_object_del(after, "slice");
	if (json_equal(before, after))
		return OUTCOME_OK;
	return trial_fail(trial,
		"the taint of %s was added at %s and, after another change of its slice, at %s",
		text_of(before, "device"), text_of(json_object_get(before, "taint"), "timeAdded"),
		text_of(json_object_get(after, "taint"), "timeAdded"));
}

static enum outcome keeps_times(struct trial *trial, const struct conformance_case *self)
{
	const struct conformance_hooks *hooks = &trial->options->hooks;
	json_auto_t *devices = api_await_pool(trial);
	enum outcome outcome;

	if (!devices)
		return OUTCOME_NOT_OK;
	if (!trial_await(trial, has_no_taint, NULL))
		return trial_skip(trial, "a device has a taint before --fail-command");
	if (!trial_hook(trial, hooks->fail))
		return OUTCOME_NOT_OK;
	outcome = trial_await(trial, has_taint, NULL)
		? compare_taints(trial)
		: trial_skip(trial, "after --fail-command no device has a taint");
	if (!trial_hook(trial, hooks->heal))
		return OUTCOME_NOT_OK;
	if (outcome == OUTCOME_OK && !trial_await(trial, has_no_taint, NULL))
		return trial_fail(trial, "after --heal-command a device still has a taint");
	return outcome;
}

static const struct conformance_case cases[] = {
	{ 150, "dra-slices",
		"publishes one complete pool of ResourceSlices, and none that is refused",
		"schedulers use only pools whose slices all have the newest generation and are as many as resourceSliceCount names (KEP-4381)",
		0, NEEDS_SERVING | NEEDS_API, publishes, NULL },
	{ 151, "dra-slices-deleted", "publishes its ResourceSlices again after they were deleted",
		"the kubelet deletes the slices of its node when it starts, and when a driver was away for 30 seconds",
		140063, NEEDS_SERVING | NEEDS_API, restores, NULL },
	{ 152, "dra-slices-changed", "corrects a ResourceSlice that another client has changed",
		"pods would get devices that do not exist, or none", 0, NEEDS_SERVING | NEEDS_API,
		corrects, NULL },
	{ 153, "dra-slices-quiet", "writes no ResourceSlice while nothing changes",
		"each write reaches every scheduler; the server's form of a slice differs from the driver's",
		0, NEEDS_SERVING | NEEDS_API, is_quiet, NULL },
	{ 154, "dra-api-failures",
		"publishes its ResourceSlices after each kind of failure of the API server",
		"API servers are restarted, throttle clients, and refuse credentials that have just changed",
		0, NEEDS_SERVING | NEEDS_API, recovers, NULL },
	{ 155, "dra-dropped-fields", "stops writing when the API server drops fields",
		"a server without a feature stores slices without its fields, and reports no error",
		0, NEEDS_SERVING | NEEDS_API, tolerates_dropped_fields, NULL },
	{ 156, "dra-taint-time", "keeps the time of a taint when another part of its slice changes",
		"tolerationSeconds of claims count from timeAdded (KEP-5055)", 0,
		NEEDS_SERVING | NEEDS_API | NEEDS_HEALTH, keeps_times, NULL },
	{ 157, "dra-device-order", "publishes the same devices in the same order after a restart",
		"the scheduler takes the first device that fits (KEP-4381); a claim with another name's device uses other hardware (ROCm/k8s-gpu-dra-driver#83)",
		136641, NEEDS_SERVING | NEEDS_API | NEEDS_COMMAND, keeps_order, NULL },
};

const struct case_table dra_slice_cases = { cases, ARRAY_SIZE(cases) };
