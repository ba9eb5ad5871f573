/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the interfaces that the host uses itself. Moving one of them into a container would cut off
 * the node, including its kubelet, so they are never devices.
 */

#include "drivers/host/scan.h"

/* Names of the interfaces of the host's default routes, and of those below them (a VLAN is above
 * another interface). If its routes cannot be read, this is noted and there are none. Returns 0 or
 * a shortage (sysroot.h). */
int net_uplinks_read(struct scan *scan, struct strings *ret_names);

/* The reason why the host needs the interface: it is one of `uplinks`, which is no reason with
 * `routes_allowed`; or it is a port of a bridge or bond. NULL: the host does not need it. */
const char *net_uplink_reason(const char *root, const struct strings *uplinks,
	const char *interface, bool routes_allowed);
