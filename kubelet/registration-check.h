/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's checks of a registration before it dials back.
 */

#include "common/error.h"

/* Whether the kubelet accepts the name as an extended resource. */
bool resource_name_is_valid(const char *name);

/* Whether the API server accepts the name of a DRA driver in a ResourceSlice. */
bool driver_name_is_valid(const char *name);

/* Checks version and resource name in the kubelet's order; the error contains the kubelet's
 * text. */
int registration_check(const char *version, const char *resource, struct error *error);

/* The watcher's checks of a plugin's answer to GetInfo, with the kubelet's error texts. */
int registration_check_info(
	const char *name, char *const *versions, size_t n_versions, struct error *error);

/* The socket's path: the endpoint below the directory, "." and ".." resolved as text, a leading
 * slash ignored. Malloc'ed, NULL: no memory. */
char *endpoint_path(const char *plugin_dir, const char *endpoint);
