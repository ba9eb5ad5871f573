/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the CDI files of prepared claims as their devices are now: when the devices of a resource
 * have changed, or its configuration or process, its process is asked about each claim again.
 */

#include "common/control-child.h"

struct child;
struct dra_claims;
struct dra_refreshes;
struct manager;

int dra_refresh_new(struct manager *manager, struct dra_claims *claims, struct dra_refreshes **ret);

/* What containers get may be different now (CHILD_EDITS_CHANGED). */
void dra_refresh_begin(struct dra_refreshes *refreshes, const struct child *child);

/* Takes a process's answer to CHILD_EDIT, or a notice that it has ended. */
void dra_refresh_take(struct dra_refreshes *refreshes, const struct child *child,
	struct control_message *message);
void dra_refresh_child_gone(struct dra_refreshes *refreshes, const struct child *child);

struct dra_refreshes *dra_refresh_free(struct dra_refreshes *refreshes);
DEFINE_CLEANUP(struct dra_refreshes *, dra_refresh_free)
