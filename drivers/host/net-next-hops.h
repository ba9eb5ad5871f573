/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds default routes that lead through several interfaces. /proc/net/route shows only the first
 * interface (fib_route_seq_show() in the kernel), so the routes are requested by rtnetlink(7).
 */

#include "drivers/model/option.h"

/* Adds the names of these interfaces, of IPv4 routes in the main table of this process's network
 * namespace. Returns 0 or negative errno; what was added until then stays. */
int net_next_hops_read(struct strings *names);
