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

/* A member of a device's information; a value of NULL leaves it out. */
struct device_info_member {
	const char *name; /* "pci-address" */
	const char *value;
};

/* Sets the information. `type` is "pci", "vdpa", "vhost-user" or "memif", the members are those
 * that the specification has for it. Returns 0, -EINVAL for another type or member, a value of
 * another form, or where a required one is missing, or -ENOMEM. */
int device_set_info(struct device *device, const char *type,
	const struct device_info_member *members, size_t n_members);

/* Whether a document has the members of the specification, each of its form, and no others. */
bool device_info_is_valid(const json_t *info);
