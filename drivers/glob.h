/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shell patterns over the host's paths, one component at a time: * ? [...] match within a
 * component, a leading dot only explicitly. Every directory is watched before it is read, which
 * glob(3) cannot do.
 */

#include "common/error.h"
#include "drivers/driver.h"

/* What a pattern may match at most; far above any kubelet's list. */
#define GLOB_MATCHES_MAX 100000

/* Whether the pattern can match another path than itself. */
bool glob_is_pattern(const char *pattern);

/* Adds to `ret_paths` what exists, in natural order ("tty2" before "tty10"). What may not be read
 * is noted in the scan. Returns 0, -E2BIG beyond GLOB_MATCHES_MAX, or another negative errno if
 * what exists cannot be told; the error is filled. */
int glob_expand(
	struct scan *scan, const char *pattern, struct strings *ret_paths, struct error *error);
