/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The two directories of a trial's kubelet: the plugin directory, which no other process may use
 * meanwhile, and one below /tmp for the files that only the kubelet reads.
 */

#include "common/error.h"

/* Checks that no kubelet uses the plugin directory, and creates the other directory. Returns 0 and
 * its path, malloc'ed; -EEXIST if there is a checkpoint of a real kubelet; or another negative
 * errno. On failure, the error is filled and no file is left. */
int trial_directories_take(const char *plugin_dir, char **ret_state_dir, struct error *error);

/* Removes a kubelet's files from the plugin directory and from the other directory, and then the
 * other directory. NULL: does not touch the other directory. */
void trial_directories_clean(const char *plugin_dir, const char *state_dir);
