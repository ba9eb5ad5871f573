/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The other requirements for an interface in a pod (docs/networking.md), for "explain": virtual
 * functions, device information and a CNI plugin. Missing modules and drivers are reasons of the
 * devices.
 */

#include "supervisor/ctl/daemon-state.h"
#include "supervisor/ctl/verb.h"

/* Prints what exists and what is missing for a resource of driver "net"; nothing for others, or
 * without a readable configuration. */
void network_path_explain(const json_t *resource, const struct request *request);
