/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * ResourceSlices and DeviceClasses (resource.k8s.io/v1) made from the reports of the resources'
 * processes. A device stays in its slice when only its health changes, so that one change is one
 * request. A device that a claim holds stays until the claim has ended.
 */

#include <jansson.h>

#include "common/util.h"

#define DRA_API_VERSION "resource.k8s.io/v1"

/* k8s.io/api/resource/v1: ResourceSliceMaxDevices is 128, but 64 where any device has a taint, and
 * any device may get one. */
#define DRA_SLICE_DEVICES_MAX 64

/* How many devices a driver may offer, replicas included; the processes of its resources report the
 * numbers. The memory of devplugd-cluster is for three times as many of two drivers. */
#define DRA_DRIVER_DEVICES_MAX 16384

/* What a node offers. */
struct dra_inventory {
	json_t *slices;  /* an array of the devices of each slice; at least one, which may be empty.
			  * The slices of the pool of devices with counters follow: objects with the
			  * members "devices" or "sharedCounters" of each */
	json_t *names;   /* for each device: {"resource", "id", "healthy", "reason", "attributes",
			  * "use"}, the last one of enum slice_use, with "interface" and
			  * "hardware_address" of a network function, and "part": true if it is in
			  * that pool; if claims get amounts of it, "of": {NAME: amount} that it has,
			  * and "amounts" of the part, if it   is one */
	json_t *bound;   /* names of devices that are in their slice only while a claim holds them,
			  * or for which another device waits until no claim holds them */
	size_t left_out; /* devices that are not in their slice */
	unsigned missed; /* bits of enum slice_lack for which they, or taints, are left out, of
			  * those that only the release shows and of counters */
};

struct dra_inventory_options {
	const char *driver;
	unsigned lacks;     /* bits of enum slice_lack: what the API server does not have */
	const json_t *held; /* by name of the device: {"driver", "resource", "id"} of each device
			     * that a claim holds, with the sum of "amounts" if claims have amounts
			     * of it, "share" if these are shares, and "part" if it is from the pool
			     * of devices with counters; NULL: none. One that a claim
			     * of another driver holds is left out: it is in the slices of that
			     * driver. A device that is offered in another way now, for example
			     * shared by amount, waits until no claim holds it. */
};

/* Whether an attribute has exactly one value, of the type of its name and in the published form. */
bool dra_attribute_is_valid(const json_t *attribute);

/* The attributes that a slice has of a reported device without capacities: {"id", "numa"?,
 * "attributes"}. Attributes that the API would not accept are left out. NULL if memory is short. */
json_t *dra_attributes_make(const char *driver, const char *resource, const json_t *device);

/* `resources`: array of {"name", "devices"}, the latter with the members of
 * proto/plugin/plugin-report.c. Unhealthy devices get taints; if the server lacks taints, those
 * that no claim holds are left out. Devices with an invalid id (device_id_make()) are left out too,
 * and, of more than DRA_DRIVER_DEVICES_MAX, those of resources with more than their equal share.
 * Returns 0 or -ENOMEM. */
int dra_inventory_build(const json_t *resources, const struct dra_inventory_options *options,
	struct dra_inventory *ret);
void dra_inventory_done(struct dra_inventory *inventory);

/* Whether the slices of the driver are different if claims hold the devices `now` instead of
 * `before`, in the form of `held` above. */
bool dra_inventory_follows_held(const struct dra_inventory *inventory, const char *driver,
	const json_t *before, const json_t *now);

struct dra_pool {
	const char *driver, *node;
	const char *node_uid; /* NULL: not known, so there is no owner reference */
	json_int_t generation;
};

/* The object of the slice with that number, without a name. NULL if memory is short. */
json_t *dra_slice_object(
	const struct dra_pool *pool, const struct dra_inventory *inventory, size_t number);

/* The class by which pods ask for a resource. NULL if memory is short. */
json_t *dra_class_object(const char *driver, const char *resource);

/* Reads the document of a resource's process. Returns its devices (a new reference), with those
 * that are missing although the resource should have them; or NULL if the document is missing or
 * invalid, or memory is short. `ret_expect`: the member "expect" of the document, a new reference,
 * NULL: there is none; may be NULL. */
json_t *dra_devices_read(const char *text, size_t size, json_t **ret_expect);

/* Removes the members on which no slice depends from these devices. */
void dra_devices_strip(json_t *devices);
