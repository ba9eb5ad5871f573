/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's checksum over "Data" of its checkpoint.
 */

#include <jansson.h>

#include "common/util.h"

/* -EBADMSG if an answer of Allocate is not base64, -ENOMEM. */
int checkpoint_checksum(const json_t *data, uint32_t *ret);
