/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes in the status of prepared claims that their devices are ready (KEP-4817), with the
 * interfaces of network functions (`dra.claim_status`). Nothing waits for it, and no failure has
 * another effect than a log line: other programs read the status, and the kubelet does not.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "dra/dra-api.h"

struct claim_status;

/* How many claims may wait. Further ones get no status. */
#define CLAIM_STATUS_MAX 1024

/* For the driver with that name, which outlives the object. Returns 0 or negative errno. */
int claim_status_new(
	sd_event *event, struct dra_api *api, const char *driver, struct claim_status **ret);

/* Off: what waits is dropped. */
void claim_status_enable(struct claim_status *status, bool enabled);

/* The claim was prepared: `devices` as in CLUSTER_PREPARED; `names`: of struct dra_inventory. */
void claim_status_add(struct claim_status *status, const char *namespace, const char *name,
	const char *uid, const json_t *devices, const json_t *names);

struct claim_status *claim_status_free(struct claim_status *status);
DEFINE_CLEANUP(struct claim_status *, claim_status_free)
