/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes names for devices of /sys that are the same after every boot. The kernel's own names may
 * change, because card0, ttyUSB3 and usb2 are numbered in the order of discovery. So a name is made
 * from the device's location: the PCI address, the firmware's name or the USB port above it, and
 * its position among devices of its kind there.
 */

#include "drivers/host/sysfs.h"

/* Longer ones are cut, and end in a hash once they are an id. */
#define IDENTITY_MAX 255

/* Name of the device whose directory sysfs_resolve() gave:
 *   0000:03:00.0                      a PCI device
 *   0000:03:00.0:accel.0              the first accel device of it
 *   0000:6a:01.0:dsa.0:wq.3           the fourth queue
 *   0000:00:1f.2:ata.1:host.0:0:0:0:block.0
 *   0000:00:07.0:mmc.0:mmcblk.0   a memory card, by its controller
 *   fe804000.i2c:i2c.0:0068:rtc.0 a clock on a bus of the board
 *   usb-0000:00:14.0-0:1.4:1.0:video.0
 *   nqn.2019-08.org.qemu:mp1:n1   a namespace of NVMe that several controllers lead to
 *   misc:kvm                          a device that is software, by its own name
 *   83b8f4f2-509f-382f-3c1e-e6bfe0fa1001   a mediated device, or one of a hypervisor's bus
 * Returns 0, or -EXDEV if it is not below /sys/devices. */
int identity_of(
	const char *root, const char *directory, char ret_identity[static IDENTITY_MAX + 1]);

/* Whether the identity of that directory begins with a number of the kernel, because the driver
 * does not show the hardware, or because there is none: "neuron_device:neuron0". */
bool identity_is_numbered(const char *directory, const char *identity);

/* The location of a USB device (not an interface or a root hub): "0000:00:14.0-0:1.4", that is its
 * controller, which of the controller's root hubs, and the ports from there. Returns 0, or -ENOENT
 * for any other directory. */
int identity_usb_port(
	const char *root, const char *directory, char ret_port[static IDENTITY_MAX + 1]);
