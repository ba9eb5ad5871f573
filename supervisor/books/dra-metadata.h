/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the containers of a claim can read of their devices (KEP-5304): a file for each request, at
 *
 *   DIRECTORY/resourceclaims/CLAIM/REQUEST/DRIVER-metadata.json, or
 *   DIRECTORY/resourceclaimtemplates/CLAIM IN THE POD/REQUEST/DRIVER-metadata.json
 *
 * in the container, with a DeviceMetadata object for each version of the API, the newest first. The
 * edits of the request's first device mount it. The supervisor makes it from "metadata" of a claim:
 *
 *   { "attributes": { DEVICE: ATTRIBUTES, ... }, as in the ResourceSlice,
 *     "alternatives": { REQUEST: "REQUEST/ALTERNATIVE", ... }, those that the scheduler chose,
 *     "pod_claim": the claim's name in the pod, if it was made from a template,
 *     "generations": { REQUEST: NUMBER, ... }, from the first change of a request's file on }
 *
 * devplugd-cluster sends it without "generations".
 */

#include <jansson.h>

#include "common/error.h"
#include "supervisor/files/published-files.h"

#define DRA_METADATA_DIRECTORY "/var/run/kubernetes.io/dra-device-attributes"

/* For a claim that is prepared again: follows what is known of it. One that was prepared before an
 * upgrade gets no metadata, because its CDI names cannot change. */
void dra_metadata_follow(json_t *claim, const json_t *known);

/* Takes attributes by the name of the device. Returns whether a file of the claim changes. */
bool dra_metadata_set(json_t *claim, const json_t *devices);

/* Whether the edits of the group that begins with the device `at` mount the file of its request. */
bool dra_metadata_is_mounted(const json_t *claim, size_t at);

/* The text of a file with such an object, of which "apiVersion" is set: it stands there once for
 * each version of the API. NULL if memory is short. */
char *dra_metadata_stream(json_t *object);

/* Makes the files of a claim, of which `ret_n` is 0 if it has no metadata. Returns 0 or -ENOMEM. */
int dra_metadata_make(const json_t *claim, struct published_metadata **ret, size_t *ret_n);
void dra_metadata_done(struct published_metadata *files, size_t n);

/* Adds the mount of a request's file to the edits of a CDI device with that name, and adds the
 * device if it is missing. Returns 0 or -ENOMEM. */
int dra_metadata_mount(const json_t *claim, const char *request, const char *host, json_t *devices,
	const char *name);
