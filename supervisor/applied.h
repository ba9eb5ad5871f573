/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Has all parts of the daemon judge the resources by the configurations that their children have
 * accepted, see resource_applied().
 */

#include "configuration/config.h"

struct child;
struct manager;

/* The resources, or the directories of files, have changed. Logs. */
void applied_configure(struct manager *manager);

/* A child has accepted a configuration; `before` applied until now, and may be the same. */
void applied_changed(
	struct manager *manager, struct child *child, const struct resource_config *before);
