/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which interfaces the host itself talks through. One of them in a container would cut the node
 * off, kubelet and all, so they are never devices.
 */

#include "drivers/driver.h"

/* Names of the interfaces that a default route of the host leads through. What cannot be read has
 * none. Returns 0 or -ENOMEM. */
int net_uplinks_read(const char *root, struct strings *ret_names);

/* Why the host cannot spare the interface: a default route leads through it, or through what is on
 * top of it (a VLAN), or it is a port of a bridge or bond. NULL: it can. */
const char *net_uplink_reason(
	const char *root, const struct strings *uplinks, const char *interface);
