/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads attributes for which the kernel makes the reader wait for a lock: the device's lock, which
 * is held while a driver binds to it, while it is reset or while it makes virtual functions, or the
 * lock of all network interfaces. Each such file is read in a thread of its own, so that the caller
 * never waits for long.
 */

#include "common/util.h"

/* Maximum number of reads that wait in the kernel at the same time. */
#define SYSFS_LOCKED_MAX 4

/* Whether the kernel may hold up the reader of the attribute, by the last component of its path. */
bool sysfs_is_locked(const char *path);

/* Reads as sysroot_read() does. -EBUSY: the read has not ended in time, or an earlier one of the
 * file still waits. The strings of a USB device are read once for each time that it is plugged in,
 * and the name of a network port once for each interface. Any thread may call this. */
ssize_t sysfs_read_locked(const char *root, const char *path, char *buffer, size_t size);

/* Limits the time that the calling thread spends in sysfs_read_locked() from now on, until the next
 * call: then it returns -EBUSY at once, unless the value is known. USEC_INFINITY: no limit. */
void sysfs_locked_limit(uint64_t usec);

/* How often sysfs_read_locked() has returned -EBUSY: if the number grows during a scan, its result
 * may be incomplete. */
unsigned sysfs_locked_refusals(void);
