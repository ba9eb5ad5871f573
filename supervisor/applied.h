/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Passes the configurations that the children have accepted to all parts of the daemon; see
 * resource_applied().
 */

#include "configuration/config.h"

struct child;
struct manager;

/* To be called when the resources, or the directories of files, have changed. Logs. */
void applied_configure(struct manager *manager);

/* To be called when a child has accepted a configuration; `before` applied until now, and may be
 * the same. */
void applied_changed(
	struct manager *manager, struct child *child, const struct resource_config *before);
