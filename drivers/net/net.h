/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of driver "net": a match entry as it was declared, shared by net.c (keys, checks, the
 * scan) and net-device.c (the parts of a device).
 */

#include "drivers/host/infiniband.h"
#include "drivers/net/net-function.h"

enum net_type { NET_FUNCTION, NET_SUBFUNCTION, NET_INTERFACE };

struct net_match {
	struct function_match function; /* first, so that origin is */
	int type;                       /* enum net_type */
	bool rdma, vhost_net, default_route;
	char *permissions;
};

/* Makes a device of a function. Returns 0 or negative errno. */
int net_add_function(const struct net_match *match, const struct net_function *function,
	const struct infiniband_table *infiniband, struct scan *scan);

/* Makes a device of an interface, which is a directory of /sys/class/net. */
int net_add_interface(const char *interface, const char *directory, struct scan *scan);
