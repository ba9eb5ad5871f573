/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks the metadata of a claim (dra-metadata.h), from devplugd-cluster and as it was saved.
 */

#include <jansson.h>

#include "common/util.h"

#define DRA_METADATA_GENERATIONS "generations"

/* Checks the metadata of a claim, and adds a copy to it. Returns 0, -EBADMSG if it is malformed or
 * about devices that the claim does not have, or -ENOMEM. */
int dra_metadata_form_read(json_t *claim, json_t *metadata, bool saved);

/* Checks the document of a CLUSTER_ATTRIBUTES: attributes by the name of the device. */
bool dra_metadata_form_check(const json_t *devices, size_t maximum);
