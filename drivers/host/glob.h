/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the host's paths that match a shell pattern, one component at a time: * ? [...] match
 * within a component, and a leading dot must be in the pattern. Every directory is watched before
 * it is read, which glob(3) cannot do.
 */

#include "common/error.h"
#include "drivers/host/scan.h"

/* Maximum number of paths that a pattern may match; far above any kubelet's list. */
#define GLOB_MATCHES_MAX 100000

/* Adds to `ret_paths` the existing paths, in natural order ("tty2" before "tty10"). Directories
 * without read permission are noted in the scan, and so is one of several that cannot be read.
 * Returns 0, -E2BIG for more than GLOB_MATCHES_MAX, or another negative errno if reading fails; the
 * error is filled. */
int glob_expand(
	struct scan *scan, const char *pattern, struct strings *ret_paths, struct error *error);
