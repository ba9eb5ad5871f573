/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which hardware is behind a device node, as far as /sys shows it. A driver numbers its
 * nodes in the order of discovery, so the name of a node may be another device's after a reboot;
 * the location of the hardware stays. A driver that makes its nodes without an entry in /sys, or as
 * devices of software, does not show the location.
 */
#include <sys/sysmacros.h>

#include "drivers/host/identity.h"
#include "drivers/host/sysroot.h"
#include "drivers/path/path.h"

int path_location(
	const struct scan *scan, const struct stat *st, char ret_id[static DEVICE_ID_MAX + 1])
{
	const char *root = scan_root(scan);
	char link[64], identity[IDENTITY_MAX + 1];
	_cleanup_free_ char *directory = NULL;
	int r;

	if (!S_ISCHR(st->st_mode) && !S_ISBLK(st->st_mode))
		return 0;
	(void)snprintf(link, sizeof(link), "/sys/dev/%s/%u:%u",
		S_ISBLK(st->st_mode) ? "block" : "char", major(st->st_rdev), minor(st->st_rdev));
	r = sysfs_resolve(root, link, &directory);
	if (r >= 0 && startswith(directory, "/sys/devices/virtual/"))
		return 0;
	if (r >= 0)
		r = identity_of(root, directory, identity);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	device_id_make(identity, ret_id);
	return 1;
}
