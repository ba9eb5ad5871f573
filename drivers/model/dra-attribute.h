/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The attributes of a device in a ResourceSlice: their names, types and values within the limits of
 * k8s.io/api/resource/v1. Other projects read the names, so a name always has one type.
 */

#include "common/error.h"

enum attribute_type { ATTRIBUTE_STRING, ATTRIBUTE_INT, ATTRIBUTE_BOOL, ATTRIBUTE_VERSION };
/* The names of the types, which are the API's members for a value; NULL at the end. */
extern const char *const attribute_types[];

/* The maximum length of a domain, of the name behind it, of both with the "/", and of a value. */
#define ATTRIBUTE_DOMAIN_MAX     63
#define ATTRIBUTE_IDENTIFIER_MAX 32
#define ATTRIBUTE_NAME_MAX       (ATTRIBUTE_DOMAIN_MAX + 1 + ATTRIBUTE_IDENTIFIER_MAX)
#define ATTRIBUTE_VALUE_MAX      64

/* Standard attributes of the device's own PCI function, and of its root complex. */
#define ATTRIBUTE_PCI_ADDRESS "resource.kubernetes.io/pciBusID"
#define ATTRIBUTE_PCI_ROOT    "resource.kubernetes.io/pcieRoot"

/* The NUMA node, or a list of nodes. */
#define ATTRIBUTE_NUMA_NODE "resource.kubernetes.io/numaNode"

/* What Multus reads of every device of a pod: the id for CNI plugins, and the resource of a
 * NetworkAttachmentDefinition. */
#define ATTRIBUTE_CNI_DEVICE   "k8s.cni.cncf.io/deviceID"
#define ATTRIBUTE_CNI_RESOURCE "k8s.cni.cncf.io/resourceName"

/* k8s.io/api/resource/v1, DriverNameMaxLength. */
#define DRA_DRIVER_NAME_MAX 63

/* How many attributes and capacities a device may have together, and how many of them devplugd
 * itself may publish for any device. */
#define ATTRIBUTES_MAX      32
#define ATTRIBUTES_BUILT_IN 8

/* A list is one attribute of that many values at most, so that the 48 values that a device may have
 * are not exceeded. */
#define ATTRIBUTE_LIST_MAX 16

/* "firmware", or "vendor.example/firmware" with a DNS name in lower case. */
bool attribute_name_is_valid(const char *name);

/* Whether devplugd alone sets the attribute, for every device: "id". */
bool attribute_is_built_in(const char *name);

/* Whether the name has this domain. Names of the DRA driver's domain are written without it. */
bool attribute_is_of(const char *name, const char *domain);

/* For option tables: a valid name that is not built in. */
int form_attribute_name(const char *value, struct error *error);

/* Brings a value into the form in which it is published: a number from decimal or "0x" notation, a
 * bool also from the kernel's "Y" and "N" and from digits, a version without a "v", with three
 * numbers and without leading zeros. Returns 0, or -EINVAL with a clause: "is not ...". */
int attribute_value_make(enum attribute_type type, const char *text,
	char ret[static ATTRIBUTE_VALUE_MAX + 1], struct error *error);
