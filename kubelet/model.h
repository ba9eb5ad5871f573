/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state and the decisions of a kubelet's device manager, without a socket or a clock: the
 * resources with their devices and endpoints, the pods, and their allocations. The files that use
 * sockets report events to it and ask it what to do. Times are microseconds of any steady clock.
 */

#include <jansson.h>

#include "common/error.h"
#include "kubelet/client-table.h"
#include "kubelet/device-table.h"
#include "kubelet/id-set.h"
#include "kubelet/kubelet-version.h"
#include "kubelet/topology.h"

/* How long the devices of a resource without a plugin still count. */
#define KUBELET_GRACE (5 * 60 * USEC_PER_SEC)

/* The answer to GetDevicePluginOptions. */
struct plugin_options {
	bool pre_start_required;
	bool preferred_allocation;
};

/* The endpoint table's entry of a resource: whom to call. */
struct endpoint {
	bool present;
	bool options_known; /* false: no registration since the kubelet's start */
	struct plugin_options options;
	uint64_t connection; /* number of the connection, 0: none */
	char *path;          /* NULL without a connection */
	bool stopped;
	uint64_t stop_time;
};

struct resource {
	char *name;
	bool known;                   /* listed by a plugin, or named by the checkpoint */
	bool published;               /* the Node lists the name, from now on forever */
	struct device_table *devices; /* NULL: no list yet */
	struct endpoint endpoint;
	bool allocated_known; /* has an entry, maybe empty, in the table of allocated devices */
	struct id_set allocated;
	uint64_t registrations; /* kubelet_device_plugin_registration_total */
	uint64_t lists;         /* messages of ListAndWatch since the start */
};

/* A device of an allocation on one of its NUMA nodes. A device on two nodes is two successive
 * entries, as in the kubelet's answers. */
struct allocated_device {
	int64_t node; /* NODE_NONE: no topology */
	char *id;
};
#define NODE_NONE (-1)

/* The devices of one resource that are allocated to a container, and the plugin's answer. */
struct allocation {
	char *pod_uid;
	char *container;
	char *resource;
	struct allocated_device *devices;
	size_t n_devices;
	uint8_t *response; /* ContainerAllocateResponse as bytes */
	size_t response_size;
};

enum pod_phase {
	POD_PENDING, /* being admitted */
	POD_RUNNING, /* admitted */
	POD_FAILED,  /* rejected permanently */
};

struct pod_limit {
	char *resource;
	uint64_t count;
};

enum container_kind {
	CONTAINER_INIT,    /* runs to its end before the next; its devices are used again */
	CONTAINER_SIDECAR, /* an init container that stays */
	CONTAINER_MAIN,
};

struct pod_container {
	char *name;
	enum container_kind kind;
	struct pod_limit *limits;
	size_t n_limits;
	struct topology_hint topology; /* of its last admission */
	json_t *others;                /* other-resources.h; NULL: nothing */
};

/* Containers are in the order of admission: init containers and sidecars first. */
struct pod {
	char *uid;
	char *namespace;
	char *name;
	struct pod_container *containers;
	size_t n_containers;
	enum pod_phase phase;
	bool is_static;     /* the kubelet read it from a file, not from the API server */
	bool is_readmitted; /* or was admitted by this kubelet, not before its restart */
	bool is_stopped;    /* the host was restarted, and no container has started since */
	char *reason;       /* NULL, or why it failed or waits */
	char *message;      /* NULL, or the sentence for it */
	json_t *claims;     /* of claim-table.h; NULL: none */
};
#define POD_CONTAINER "main" /* the container of a pod whose limits were set without containers */

struct model {
	const struct kubelet_version *version;
	struct topology_rules topology;
	json_t *others; /* of the node, see other-resources.h; NULL: nothing */
	uint64_t grace;
	uint64_t random; /* state of the generator behind every arbitrary order */
	struct client_table clients;
	struct resource **resources; /* sorted by name */
	size_t n_resources;
	struct allocation **allocations;
	size_t n_allocations;
	struct pod **pods;
	size_t n_pods;
};

/* `seed` makes the arbitrary choices repeatable. */
int model_new(const struct kubelet_version *version, bool stale_stream_race, uint64_t grace,
	uint64_t seed, struct model **ret);
struct model *model_free(struct model *model);
DEFINE_CLEANUP(struct model *, model_free)

/* An arbitrary number below `bound`. */
size_t model_random(struct model *model, size_t bound);

/* --- resources (resource.c) --- */

/* NULL if it was never registered or asked for. */
struct resource *model_find_resource(const struct model *model, const char *name);

/* Finds or creates the resource. */
int model_get_resource(struct model *model, const char *name, struct resource **ret);

/* Whether the device manager handles this name in a container's limits. */
bool resource_is_device_plugin(const struct resource *resource);

size_t resource_capacity(const struct resource *resource);
size_t resource_allocatable(const struct resource *resource);

/* Handles the answer to GetDevicePluginOptions: from now on, this plugin is called. */
int model_plugin_connected(struct model *model, const char *resource, const char *path,
	uint64_t connection, const struct plugin_options *options);

/* Handles the disconnection of the resource's client: marks all devices unhealthy and begins the
 * grace period. Returns whether the endpoint table knew the resource. */
bool model_plugin_disconnected(struct model *model, const char *resource, uint64_t now);

/* Handles a message of ListAndWatch. Takes the table. */
int model_replace_devices(struct model *model, const char *resource, struct device_table *devices);

/* Counts the devices of containers that are no longer listed. `ret_example` is one of them, valid
 * until the model changes. */
size_t model_missing_devices(
	const struct model *model, const struct resource *resource, const char **ret_example);

/* Drops the resources whose grace period is over, as each computation of the node's capacity does.
 * Calls `on_forgotten` for each. Returns how many. */
size_t model_expire(struct model *model, uint64_t now,
	void (*on_forgotten)(const char *resource, void *userdata), void *userdata);

/* --- pods (pod.c) --- */

struct pod *model_find_pod(const struct model *model, const char *namespace, const char *name);
struct pod *model_find_pod_uid(const struct model *model, const char *uid);

/* Adds a pending pod without containers. */
int model_add_pod(struct model *model, const char *uid, const char *namespace, const char *name,
	struct pod **ret);

/* Adds a container, which stays where it is until the next one is added. -EEXIST: the name is used
 * already; -EINVAL: init containers and sidecars come before the others. */
int pod_add_container(
	struct pod *pod, const char *name, enum container_kind kind, struct pod_container **ret);
int container_add_limit(struct pod_container *container, const char *resource, uint64_t count);
const char *container_kind_to_string(enum container_kind kind);
/* -EINVAL if it is none. */
int container_kind_from_string(const char *text, enum container_kind *ret);

/* The devices of a resource that belong to earlier init containers and that this container may use
 * again. */
int model_reusable_devices(const struct model *model, const struct pod *pod, size_t container,
	const char *resource, struct id_set *ret);

int pod_set_status(struct pod *pod, enum pod_phase phase, const char *reason, const char *message);
void model_remove_pod(struct model *model, struct pod *pod);
const char *pod_phase_to_string(enum pod_phase phase);
/* -EINVAL if it is none. */
int pod_phase_from_string(const char *text, enum pod_phase *ret);

/* The recorded allocation, NULL if none. */
struct allocation *model_find_allocation(const struct model *model, const char *pod_uid,
	const char *container, const char *resource);

/* Records an allocation with the topology the devices have now; replaces an older one. */
int model_record_allocation(struct model *model, const char *pod_uid, const char *container,
	const char *resource, char *const *ids, size_t n_ids, const uint8_t *response, size_t size);

/* Records an allocation from the checkpoint without a change. Takes it. */
int model_insert_allocation(struct model *model, struct allocation *allocation);
struct allocation *allocation_free(struct allocation *allocation);
DEFINE_CLEANUP(struct allocation *, allocation_free)

/* The distinct ids of an allocation. */
int allocation_ids(const struct allocation *allocation, struct id_set *ret);

/* Drops the allocations of pods that are neither pending nor running. If there were any, computes
 * the set of allocated devices again, which also frees leaked devices. */
int model_collect_allocations(struct model *model);

/* Computes the sets of allocated devices from the recorded allocations. */
int model_recount_allocated(struct model *model);

/* Checks whether the kubelet's own predicates refuse a pod that the device manager accepted: the
 * Node lists the resource, but has no free device. Returns 1 and fills reason and message, or 0 if
 * they do not refuse it. */
int model_check_node_fits(const struct model *model, const struct pod *pod, char *reason,
	size_t reason_size, struct error *ret_message);
