/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The type of the Node's condition for a resource: "vendor.example/gpu" becomes
 * DevplugdVendorExampleGpu. Names that differ only in signs have the same type, which the
 * configuration refuses.
 */

#include "common/util.h"

#define NODE_CONDITION_PREFIX "Devplugd"
/* A resource name has 308 bytes at most. */
#define NODE_CONDITION_TYPE_MAX 320

/* `resource`: a valid name of a resource. */
void node_condition_type(const char *resource, char ret[static NODE_CONDITION_TYPE_MAX + 1]);
