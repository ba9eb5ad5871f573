/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What --check reports about the credentials for the API server.
 */

#include <stdio.h>

struct config;

/* Prints a warning if a resource is to be served by DRA and there is no identity, or a file of it
 * cannot be read or has no user that devplugd can be. Files that the caller may not read are left
 * out, because devplugd may read them. */
void dra_identity_check_files(const struct config *config, FILE *stream);
