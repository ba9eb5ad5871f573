/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What CNI plugins and their meta plugins read about a device that is a network interface: the
 * Device Information Specification 1.1.0 of the Network Plumbing Working Group
 * (k8snetworkplumbingwg/device-info-spec, SPEC.md). A driver attaches it to the device, and it
 * becomes a file for as long as the device exists.
 */

#include <jansson.h>

#include "drivers/model/device.h"

#define DEVICE_INFO_VERSION "1.1.0"

/* A member of a device's information; NULL as its value omits it. */
struct device_info_member {
	const char *name; /* "pci-address" */
	const char *value;
};

/* Sets the information. `type` is "pci", "vdpa", "vhost-user" or "memif", the members are the ones
 * that the specification defines for it. Returns 0, -EINVAL for another type or member, an invalid
 * value or a missing required member, or -ENOMEM. */
int device_set_info(struct device *device, const char *type,
	const struct device_info_member *members, size_t n_members);

/* Whether a document has the members of the specification, each of its form, and no others. */
bool device_info_is_valid(const json_t *info);
