/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Container Device Interface (github.com/cncf-tags/container-device-interface, SPEC.md): a JSON
 * file that maps the name of a device to what a container runtime adds to a container. Ours has one
 * device for each unit of a resource, with the results of its templates for that unit.
 */

#include <jansson.h>

#include "drivers/allocation/allocation.h"

/* Maximum length of the name of a device within its kind. A claim has the longest names: a UID and
 * the cluster's name of a device. */
#define CDI_DEVICE_NAME_MAX 176

/* The name for an id. Characters that CDI does not allow are replaced, and a changed name ends in a
 * hash of the id. */
void cdi_device_name(const char *id, char ret_name[static CDI_DEVICE_NAME_MAX + 1]);

/* Whether a string is a device's name by the rules of CDI. */
bool cdi_device_name_is_valid(const char *name);

/* The kind of the file of a resource without a `cdi_spec`: the vendor is this prefix and the
 * resource's, the class is the resource's type. What CDI does not allow is changed, and so is a
 * kind that is taken; such a kind ends in a hash of the resource's name. */
#define CDI_KIND_PREFIX "devplugd."
int cdi_kind_make(const char *resource, bool (*is_taken)(const char *kind, void *userdata),
	void *userdata, char **ret_kind);

/* The name of our file of that kind. "=" is in no kind, so no two kinds have one name. Malloc'ed;
 * NULL without memory. */
#define CDI_FILE_PREFIX "devplugd-"
char *cdi_file_name(const char *kind);

/* The key of the annotation in which older runtimes expect the names of a kind's devices: the
 * prefix that they all know and at most 63 bytes made from the kind. */
#define CDI_ANNOTATION_PREFIX  "cdi.k8s.io/"
#define CDI_ANNOTATION_KEY_MAX (sizeof(CDI_ANNOTATION_PREFIX) - 1 + 63)
void cdi_annotation_key(const char *kind, char ret_key[static CDI_ANNOTATION_KEY_MAX + 1]);

/* The container edits of an allocation: its nodes, mounts and variables. NULL if a text is not
 * UTF-8, or without memory. */
json_t *cdi_edits(const struct cdi_spec *spec, const struct allocation *allocation);

/* The lowest version of CDI that defines all members of the document. */
const char *cdi_version(const json_t *spec);

/* The "fileMode" of the nodes, or CDI_UNSET. */
int64_t cdi_file_mode(const struct cdi_spec *spec);

/* Makes the document for all existing devices (snapshot_existing()). A device that lacks a node is
 * left out, and its id is added to `left_out`. NULL if no device remains, which CDI does not allow.
 * Returns 0 or -ENOMEM. */
int cdi_spec_build(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, json_t **ret_spec, struct strings *left_out);
