/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file in which a kubelet keeps its claims: dra_manager_state in its root directory, in the
 * form of Kubernetes 1.34 (pkg/kubelet/cm/dra/state):
 *
 *   {"Data": TEXT, "Checksum": CRC-32 of TEXT}
 *
 * TEXT is a JSON document:
 *
 *   {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
 *    "ClaimInfoStateList": [{"ClaimUID", "ClaimName", "Namespace": strings, "PodUIDs": {UID: {}},
 *     "DriverState": {DRIVER: {"Devices": [{"PoolName", "DeviceName": strings, "ShareID",
 *      "RequestNames": [...], "CDIDeviceIDs": [...]}]}}}]}
 */

#include <jansson.h>

#include "common/util.h"

#define CLAIM_CHECKPOINT_NAME "dra_manager_state"

/* The text of the file with the claims of a table of claim-table.h; NULL: of a kubelet that has
 * never had one. Returns NULL without memory. */
char *claim_checkpoint_make(const json_t *table);

/* Reads such a text into a table, in which no claim is prepared. Returns 0, -EBADMSG or -ENOMEM. */
int claim_checkpoint_read(const char *text, size_t size, json_t **ret);
