/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the network interfaces of a PCI function, or of a sub-function. In switchdev mode, a
 * physical function also has representors: the interfaces of the ports of its switch, one for each
 * of its virtual functions and sub-functions. They are not the function's own.
 */

#include "drivers/host/sysfs.h"

/* Whether the value of phys_port_name is that of a representor: [c<N>|p<N>]pf<N>[vf<N>|sf<N>].
 * Every other one, such as that of a physical port, [l<N>]p<N>[s<N>], is not. */
bool port_name_is_representor(const char *port);

/* Adds the names of a function's interfaces in this network namespace. `directory` is the
 * function's in /sys. `representors` NULL: it can have none, because it is not a physical function.
 * Returns whether it has any interface, also in other namespaces; -EBUSY if the kernel has locked
 * one (sysfs-locked.h); or a shortage (sysroot.h). */
int function_interfaces_list(
	const char *root, const char *directory, struct strings *own, struct strings *representors);
