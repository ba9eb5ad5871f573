/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the directories of CDI files as a container runtime does.
 */

#include <jansson.h>

#include "kubelet/conformance/trial.h"

/* Whether the name has the form VENDOR/CLASS=DEVICE. */
bool cdi_is_name(const char *name);

/* Removes the files that describe the device, as a restart of the host does in /var/run. */
void cdi_remove(const struct conformance_options *options, const char *name);

/* How many files in the directories describe the device. Any number but 1 is an error. */
size_t cdi_count(const struct conformance_options *options, const char *name);
