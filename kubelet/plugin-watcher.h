/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's plugin watcher: calls GetInfo on each socket that appears in plugins_registry,
 * registers the plugin, and sends the result (NotifyRegistrationStatus). When a socket is removed,
 * its plugin is deregistered.
 */

#include "kubelet/kubelet-manager.h"

/* Creates the directory if it is missing, and registers the sockets in it. */
int plugin_watcher_new(struct manager *manager, const char *directory, struct plugin_watcher **ret,
	struct error *error);

/* From now on, the results of current operations are only cleaned up; NULL is accepted. */
void plugin_watcher_stop(struct plugin_watcher *watcher);
struct plugin_watcher *plugin_watcher_free(struct plugin_watcher *watcher);
