/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's plugin watcher: sockets that appear in plugins_registry are asked what they are
 * (GetInfo), registered, and sent the result (NotifyRegistrationStatus); what was registered
 * through a socket is deregistered when the socket is removed.
 */

#include "kubelet/kubelet-manager.h"

/* Makes the directory if it is missing, and begins with what is in it. */
int plugin_watcher_new(struct manager *manager, const char *directory, struct plugin_watcher **ret,
	struct error *error);

/* From now on outcomes of what is under way are only cleaned up; NULL is accepted. */
void plugin_watcher_stop(struct plugin_watcher *watcher);
struct plugin_watcher *plugin_watcher_free(struct plugin_watcher *watcher);
