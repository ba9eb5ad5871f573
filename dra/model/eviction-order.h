/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What devplugd and devplugd-cluster send each other about evictions, and what the answers of the
 * API server mean for a pod.
 *
 * CLUSTER_EVICT is one document that replaces the one before:
 *
 *   { "pods": [ ORDER with "namespace", "name" and "uids" of a pod, and "allocatable": the number
 *               of devices that the node shows when it knows of the failure, ... ],
 *     "claims": [ ORDER with "namespace", "name", "uid" and "driver" of a ResourceClaim, ... ],
 *     "taints": by resource: by device: true, if its taint evicts }
 *
 * An ORDER has "resource", "device" and "reason" (text), and "bare" and "force": whether pods
 * without a controller are evicted, and whether pods are deleted if they cannot be evicted.
 *
 * CLUSTER_EVICTED is an array of {"resource", "device", "namespace", "name", "uid", "state",
 * "text"}, one for each pod.
 */

#include <jansson.h>

#include "common/util.h"

enum eviction_result {
	EVICTION_RESULT_WAITING, /* the node does not show the failure yet; text: what it shows */
	EVICTION_RESULT_REFUSED, /* text: why; it is tried again */
	EVICTION_RESULT_SKIPPED, /* text: why it is not evicted at all */
	EVICTION_RESULT_EVICTED, /* it is ending */
	EVICTION_RESULT_DELETED, /* it is ending, by deletion */
	EVICTION_RESULT_ENDED,
	_EVICTION_RESULT_MAX,
};
/* Their names in documents; and the result of that name, or _EVICTION_RESULT_MAX. */
extern const char *const eviction_results[_EVICTION_RESULT_MAX];
enum eviction_result eviction_result_of(const char *name);

/* What a pod is that the API server has returned. `order`: as above; `uids`: the pods that are
 * meant. Returns REFUSED if it can be evicted (the text is empty), SKIPPED or ENDED with the reason
 * as text, or EVICTED if it is ending already. */
enum eviction_result eviction_judge_pod(const json_t *pod, const json_t *order, const json_t *uids,
	const char *node, char *ret_text, size_t size);

/* Whether a pod of a claim has its devices by `limits`: the taint of a device does not evict it. */
bool eviction_pod_is_by_limits(const json_t *pod, const char *claim);

/* What the answer to an eviction or a deletion means. `failure`: of the answer, NULL if it is 2xx.
 */
enum eviction_result eviction_judge_answer(
	int code, const json_t *body, const char *failure, bool force, char *ret_text, size_t size);

/* The body of an eviction, or of a deletion (`force`), a new reference; NULL: no memory. */
json_t *eviction_body(const char *namespace, const char *name, const char *uid, bool force);

/* The quantity of a resource that the Node shows as allocatable, or -1 if that is not a number. */
json_int_t eviction_allocatable(const json_t *node, const char *resource);
