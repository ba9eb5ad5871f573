/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The claims that the kubelet knows: dra_manager_state in its root directory. A kubelet writes a
 * claim there before it has it prepared, and removes it when it is unprepared. The file is read,
 * never written. Its form has not changed since Kubernetes 1.34 (pkg/kubelet/cm/dra/state); any
 * other form is refused as a whole.
 */

#include <jansson.h>

#include "common/error.h"

#define KUBELET_CLAIMS_FILE "dra_manager_state"

/* Reads the UIDs of all claims, as the keys of an object. Returns 0 or, with the error filled,
 * -EBADMSG: an unknown form or a wrong checksum, or another error of kubelet_file_load(). */
int kubelet_claims_read(const char *root_dir, json_t **ret, struct error *error);
