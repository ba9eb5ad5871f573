/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Taints of devices in ResourceSlices: what keeps pods away from a device, or evicts them.
 */

#include <jansson.h>

#include "common/util.h"

/* k8s.io/api/resource/v1: DeviceTaintsMaxLength, and that of Kubernetes before 1.35. */
#define DRA_TAINTS_MAX     16
#define DRA_TAINTS_FEW_MAX 4

/* The taints of a reported device for a server that lacks `lacks` (enum slice_lack), at most
 * DRA_TAINTS_MAX, a new reference; empty: it needs none; NULL: no memory. */
json_t *slice_taints(const json_t *device, const char *driver, unsigned lacks);

/* Copies the devices, and marks those that are members of `evicting`, an object or NULL: their
 * taints evict. A new reference; NULL: no memory. */
json_t *slice_taints_mark(const json_t *devices, const json_t *evicting);
