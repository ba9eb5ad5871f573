/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a container runtime finds in its directories of CDI files.
 */

#include <jansson.h>

#include "kubelet/conformance/trial.h"

/* Whether the name has the form VENDOR/CLASS=DEVICE. */
bool cdi_is_name(const char *name);

/* How many files of the directories describe the device: one, unless something is wrong. */
size_t cdi_count(const struct conformance_options *options, const char *name);
