/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the configured permissions on a device node, and the mode of a node, are valid.
 */
#include "drivers/model/node-permissions.h"

#include "common/util.h"

int node_permissions_check(const char *value, struct error *error)
{
	size_t length = strlen(value);

	if (strspn(value, "rwm") != length || length > 3 || strchr(value + 1, value[0]) ||
		(length == 3 && value[1] == value[2]))
		return error_set(error, -EINVAL,
			"must consist of \"r\" (read), \"w\" (write) and \"m\" (mknod), each at most once, such as \"rw\", not \"%s\"",
			value);
	return 0;
}

int node_mode_check(const char *value, struct error *error)
{
	size_t length = strlen(value);

	if (length < 3 || length > 4 || value[strspn(value, "01234567")] ||
		(length == 4 && value[0] != '0'))
		return error_set(error, -EINVAL,
			"must be permissions in octal, such as \"0660\", not \"%s\"", value);
	return 0;
}
