/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes names of Kubernetes objects from our names. Each depends only on its original, so that it
 * is the same after a restart and on every node; a name whose characters had to be changed or left
 * out ends in a hash of the original.
 */

#include "drivers/model/dra-attribute.h"

/* k8s.io/api/resource/v1: a DNS label. */
#define DRA_DEVICE_NAME_MAX 63
/* A DNS subdomain. */
#define DRA_CLASS_NAME_MAX  253
#define DRA_OBJECT_NAME_MAX 253
/* A request's, and an alternative's: a DNS label. */
#define DRA_REQUEST_NAME_MAX 63
/* The maximum length of a claim's uid, which is a part of the name of its CDI file. */
#define DRA_CLAIM_ID_MAX 64
/* The maximum length of a share's id, which is a UUID. */
#define DRA_SHARE_ID_MAX 36

/* The maximum number of devices of a claim. The API allows 32. */
#define DRA_DEVICES_MAX 128

/* The members of a claim's metadata, see supervisor/books/dra-metadata.h. */
#define DRA_METADATA_ATTRIBUTES   "attributes"
#define DRA_METADATA_ALTERNATIVES "alternatives"
#define DRA_METADATA_POD_CLAIM    "pod_claim"

/* Whether a text can be the name or uid of a Kubernetes object and one part of a path: it is not
 * empty, at most `maximum` bytes long, consists only of letters, digits, "-" and ".", and does not
 * begin with ".". */
bool dra_name_is_valid(const char *text, size_t maximum);

/* The pool of the devices that consume counters, "NODE/DRIVER" (malloc'ed): schedulers before 1.37
 * mix up the counters of pools that have one name (kubernetes/kubernetes#140435). Returns 0 or
 * -ENOMEM. */
int dra_parts_pool(const char *node, const char *driver, char **ret);

/* Whether a pool of any node is such a one. */
bool dra_pool_is_of_parts(const char *pool);

/* The name of an offered id ("gpu-0", or "gpu-0#3") of a resource in a ResourceSlice; no two of a
 * node have the same one. */
void dra_device_name(
	const char *resource, const char *offered_id, char ret[static DRA_DEVICE_NAME_MAX + 1]);

/* The value of the attribute `resource` of its devices: its name, if that is short enough. */
void dra_resource_value(const char *resource, char ret[static ATTRIBUTE_VALUE_MAX + 1]);

/* The DeviceClass of a resource: "gpu.vendor.example" for vendor.example/gpu. */
void dra_class_name(const char *resource, char ret[static DRA_CLASS_NAME_MAX + 1]);
