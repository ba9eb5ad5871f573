/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The permissions of a container on a device node, with their default for all drivers, and the mode
 * of a node. The checks are forms, see form.h.
 */

#include "common/error.h"

/* "rwm" or a part of it. */
int node_permissions_check(const char *value, struct error *error);

/* The default permissions of a container for a device node. */
#define PERMISSIONS_DEFAULT "rw"

/* The key `permissions` of an entry with a member of that name. */
#define PERMISSIONS_OPTION(entry)                                                              \
	{                                                                                      \
		.key = "permissions", .type = OPTION_STRING,                                   \
		.offset = offsetof(entry, permissions), .default_string = PERMISSIONS_DEFAULT, \
		.check = node_permissions_check,                                               \
		.help = "Permissions of the container on the device nodes: r, w, m (mknod).",  \
	}

/* Permissions of a node in octal, "660" or "0660", without set-user-ID and the like. */
int node_mode_check(const char *value, struct error *error);
