/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the daemon says of itself: one line for systemd, one document for programs.
 */

#include <stddef.h>

struct manager;

/* "5 resources: 4 serving (31 devices, 30 healthy), 1 retrying in 12s" */
void status_summary(const struct manager *manager, char *ret, size_t size);

/* The contents of the state file (malloc'ed). Returns 0 or -ENOMEM. */
int status_json(const struct manager *manager, char **ret);
