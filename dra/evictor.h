/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Carries out evictions: asks the API server for each pod whether it is the one that is meant and
 * may be evicted, waits until the cluster knows that the device has failed, evicts, and repeats
 * what was refused after 1 s to a minute. The supervisor gets the state of each pod.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "dra/dra-api.h"
#include "dra/model/eviction-order.h"

struct evictor;

/* What has happened to a pod. The texts are valid during the call. */
struct evictor_pod {
	const char *resource, *device;
	const char *namespace, *name;
	const char *uid; /* NULL: not known */
	enum eviction_result result;
	const char *text; /* why it is not evicted */
};

struct evictor_options {
	sd_event *event;
	struct dra_api *api;
	const char *node; /* outlives the object */
	/* Whether the API server stores the devices of a DRA driver as they were at that time
	 * (CLOCK_MONOTONIC) or later. */
	bool (*has_published)(const char *driver, uint64_t since, void *userdata);
	/* Called when the state of a pod has changed. */
	void (*on_pod)(const struct evictor_pod *pod, void *userdata);
	void *userdata;
};

int evictor_new(const struct evictor_options *options, struct evictor **ret);

/* Takes the document of a CLUSTER_EVICT (dra/model/eviction-order.h); the reference stays the
 * caller's. Returns 0, -EBADMSG, or -ENOMEM. */
int evictor_take(struct evictor *evictor, const json_t *document);

struct evictor *evictor_free(struct evictor *evictor);
DEFINE_CLEANUP(struct evictor *, evictor_free)
