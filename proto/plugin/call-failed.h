/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reports to the supervisor that a call of the kubelet was refused, so that devplugctl and the log
 * have the text that the pod shows.
 */

#include "common/control-child.h"

/* If more fail within a second, only their number is reported. */
#define CALL_FAILED_RATE 20

/* From any thread; never blocks. A failure that cannot be reported is logged. */
void call_failed(enum child_call call, const char *const *ids, size_t n_ids, const char *text);
