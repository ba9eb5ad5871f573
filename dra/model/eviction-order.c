/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which pods are never evicted, and what an answer of the API server means for one. Pods
 * that are not evicted: those that come back to this node at once, or not at all.
 */
#include "dra/model/eviction-order.h"

#include <inttypes.h>

#include "common/json-read.h"

const char *const eviction_results[_EVICTION_RESULT_MAX] = {
	[EVICTION_RESULT_WAITING] = "waiting",
	[EVICTION_RESULT_REFUSED] = "refused",
	[EVICTION_RESULT_SKIPPED] = "skipped",
	[EVICTION_RESULT_EVICTED] = "evicted",
	[EVICTION_RESULT_DELETED] = "deleted",
	[EVICTION_RESULT_ENDED] = "ended",
};

enum eviction_result eviction_result_of(const char *name)
{
	for (size_t i = 0; i < _EVICTION_RESULT_MAX; i++)
		if (streq(name, eviction_results[i]))
			return (enum eviction_result)i;
	return _EVICTION_RESULT_MAX;
}

/* --- pods --- */

static bool contains(const json_t *texts, const char *text)
{
	json_t *item;
	size_t i;

	json_array_foreach(texts, i, item)
	{
		if (streq(json_string_value(item) ?: "", text))
			return true;
	}
	return false;
}

/* The kind of the pod's controller, or NULL. */
static const char *controller_of(const json_t *metadata)
{
	const json_t *owner;
	size_t i;

	json_array_foreach(json_object_get(metadata, "ownerReferences"), i, owner)
	{
		if (json_is_true(json_object_get(owner, "controller")))
			return text_of(owner, "kind");
	}
	return NULL;
}

static bool is_static(const json_t *metadata)
{
	return json_object_get(
		json_object_get(metadata, "annotations"), "kubernetes.io/config.mirror");
}

static enum eviction_result answer(
	enum eviction_result result, const char *text, char *ret_text, size_t size)
{
	(void)snprintf(ret_text, size, "%s", text);
	return result;
}

/* Why the pod is not there any more, or NULL. */
static const char *find_end(const json_t *pod, const json_t *uids, const char *node)
{
	const json_t *metadata = json_object_get(pod, "metadata");
	const char *phase = text_of(json_object_get(pod, "status"), "phase");

	if (!contains(uids, text_of(metadata, "uid")))
		return "another pod has its name now";
	if (!streq(text_of(json_object_get(pod, "spec"), "nodeName"), node))
		return "it is on another node";
	if (streq(phase, "Succeeded") || streq(phase, "Failed"))
		return "it has ended";
	return json_object_get(metadata, "deletionTimestamp") ? "it is ending" : NULL;
}

enum eviction_result eviction_judge_pod(const json_t *pod, const json_t *order, const json_t *uids,
	const char *node, char *ret_text, size_t size)
{
	const json_t *metadata = json_object_get(pod, "metadata");
	const char *controller = controller_of(metadata);
	const char *end = find_end(pod, uids, node);

	if (end)
		return answer(EVICTION_RESULT_ENDED, end, ret_text, size);
	if (is_static(metadata))
		return answer(EVICTION_RESULT_SKIPPED,
			"it is a static pod, which the kubelet itself runs; remove its file from the node",
			ret_text, size);
	if (controller && streq(controller, "DaemonSet"))
		return answer(EVICTION_RESULT_SKIPPED,
			"it belongs to a DaemonSet, which would start it on this node again",
			ret_text, size);
	if (!controller && !json_is_true(json_object_get(order, "bare")))
		return answer(EVICTION_RESULT_SKIPPED,
			"it has no controller, so nothing would start it again; delete it, or set evict_bare = true",
			ret_text, size);
	return answer(EVICTION_RESULT_REFUSED, "", ret_text, size);
}

bool eviction_pod_is_by_limits(const json_t *pod, const char *claim)
{
	const json_t *status =
		json_object_get(json_object_get(pod, "status"), "extendedResourceClaimStatus");

	return streq(text_of(status, "resourceClaimName"), claim);
}

/* --- answers --- */

/* The texts of the causes, which name the budget, or the message. */
static void describe(const json_t *body, const char *failure, char *ret_text, size_t size)
{
	const json_t *details = json_object_get(body, "details");
	const json_t *cause = json_array_get(json_object_get(details, "causes"), 0);
	const char *message = text_of(cause, "message");

	if (*message)
		(void)snprintf(ret_text, size, "%s %s", text_of(body, "message"), message);
	else
		(void)snprintf(ret_text, size, "%s", failure);
}

enum eviction_result eviction_judge_answer(
	int code, const json_t *body, const char *failure, bool force, char *ret_text, size_t size)
{
	if (!failure)
		return answer(force ? EVICTION_RESULT_DELETED : EVICTION_RESULT_EVICTED, "",
			ret_text, size);
	if (code == 404)
		return answer(EVICTION_RESULT_ENDED, "it does not exist any more", ret_text, size);
	if (code == 409)
		return answer(
			EVICTION_RESULT_ENDED, "another pod has its name now", ret_text, size);
	describe(body, failure, ret_text, size);
	return EVICTION_RESULT_REFUSED;
}

json_t *eviction_body(const char *namespace, const char *name, const char *uid, bool force)
{
	if (force)
		return json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "DeleteOptions",
			"preconditions", "uid", uid);
	return json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:{s:s}}}", "apiVersion", "policy/v1", "kind",
		"Eviction", "metadata", "namespace", namespace, "name", name, "deleteOptions",
		"preconditions", "uid", uid);
}

json_int_t eviction_allocatable(const json_t *node, const char *resource)
{
	const json_t *allocatable = json_object_get(json_object_get(node, "status"), "allocatable");
	const char *text = text_of(allocatable, resource);
	char *end;
	long long number;

	/* A node that does not show the resource offers none. */
	if (!json_object_get(allocatable, resource))
		return json_is_object(allocatable) ? 0 : -1;
	errno = 0;
	number = strtoll(text, &end, 10);
	return end != text && !*end && errno == 0 && number >= 0 ? number : -1;
}
