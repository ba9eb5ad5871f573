/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The two directories of a trial's kubelet: the plugin directory, which no other process may use
 * meanwhile, and one below /tmp for the files that only the kubelet reads.
 */

#include "common/error.h"

/* Makes sure that no kubelet uses the plugin directory, and makes the other. Returns 0 and its
 * path, malloc'ed; -EEXIST if a checkpoint is there that we did not write; or another negative
 * errno. The error is filled then, and nothing is left behind. */
int trial_directories_take(const char *plugin_dir, char **ret_state_dir, struct error *error);

/* Removes what a kubelet leaves in the plugin directory and in the other, and the other itself.
 * NULL: leaves that one alone. */
void trial_directories_clean(const char *plugin_dir, const char *state_dir);
