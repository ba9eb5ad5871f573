/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For the tools that show a change before it is applied: which devices of pods it removes, and how
 * many ids the kubelet would have to handle. Each resource in question is scanned once, in this
 * process; programs of the driver "exec" are not run.
 */

#include <jansson.h>

#include "configuration/config.h"

/* Warns on the stream of devices that pods have, by the kubelet's checkpoint or by a claim, and
 * that `from` (the applied configuration) offers and `to` does not, or not in the same way.
 * `state`: the daemon's answer to "status" with "pods", which has the claims and the names of pods,
 * because the checkpoint has UIDs only; NULL: there is none. A pod that is not in the answer, such
 * as one where only an init container uses the device, is named by its UID. */
void removed_devices_warn(
	const struct config *from, const struct config *to, const json_t *state, FILE *stream);

/* More ids than this on a node are worth a warning, see docs/limits.md. */
#define OFFERED_IDS_MANY 10000

/* Reports the resources that a child would refuse because of the devices of this host, such as a
 * list above 4 MiB. Returns -EINVAL if there is one. `ret_ids`: how many ids all resources together
 * offer in lists. */
int offered_devices_check(const struct config *config, struct report *report, uint64_t *ret_ids);

/* Warns on the stream of more than OFFERED_IDS_MANY ids. */
void offered_ids_warn(uint64_t count, FILE *stream);
