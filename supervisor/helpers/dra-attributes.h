/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Follows the attributes of the devices that claims have, as devplugd-cluster reports them
 * (CLUSTER_ATTRIBUTES), for the metadata that containers read.
 */

#include <systemd/sd-event.h>

#include "common/control-cluster.h"

struct dra_attributes;
struct dra_claims;

int dra_attributes_new(sd_event *event, struct dra_claims *claims, struct dra_attributes **ret);

/* Takes a message about devices of a driver; NULL: it is not known any more. Returns false if the
 * message is malformed. */
bool dra_attributes_take(
	struct dra_attributes *attributes, const char *driver, struct control_message *message);

struct dra_attributes *dra_attributes_free(struct dra_attributes *attributes);
DEFINE_CLEANUP(struct dra_attributes *, dra_attributes_free)
