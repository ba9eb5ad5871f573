/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Container Device Interface (github.com/cncf-tags/container-device-interface, SPEC.md): a JSON
 * file from which a container runtime takes what belongs to a device that it is given the name of.
 * Ours has one device for each unit of a resource, with what its templates give for that unit.
 */

#include <jansson.h>

#include "drivers/inventory.h"

/* The name of a device within its kind. The letters of ids that CDI does not know are replaced, and
 * what was changed ends in a hash of the id. */
#define CDI_DEVICE_NAME_MAX (DEVICE_ID_MAX + 16)
void cdi_device_name(const char *id, char ret_name[static CDI_DEVICE_NAME_MAX + 1]);

/* Whether a string is a device's name by the rules of CDI; the same for a kind, "vendor/class". */
bool cdi_device_name_is_valid(const char *name);
bool cdi_kind_is_valid(const char *kind);

/* The key of the annotation in which older runtimes look for the names of a kind's devices: the
 * prefix that they all know and at most 63 bytes made from the kind. */
#define CDI_ANNOTATION_PREFIX  "cdi.k8s.io/"
#define CDI_ANNOTATION_KEY_MAX (sizeof(CDI_ANNOTATION_PREFIX) - 1 + 63)
void cdi_annotation_key(const char *kind, char ret_key[static CDI_ANNOTATION_KEY_MAX + 1]);

/* The lowest version of CDI whose readers know everything that is in the document. */
const char *cdi_version(const json_t *spec);

/* Makes the document for all units that are there. Those that cannot be described now, because a
 * node of theirs is missing, are left out, and their ids are added to `left_out`, which is sorted.
 * NULL where not one device is left, which CDI does not allow. Returns 0 or -ENOMEM. */
int cdi_spec_build(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, json_t **ret_spec, struct strings *left_out);
