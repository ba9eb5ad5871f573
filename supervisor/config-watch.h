/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `devplugd --watch`: notices that the files of the configuration have changed, for hosts without a
 * reload command, such as a pod whose ConfigMap was edited. Files that others include are not
 * checked.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

struct config_watch;

typedef void (*config_watch_handler)(void *userdata);

/* Watches the file and its drop-ins. The handler is called once they have not changed for
 * CONFIG_WATCH_QUIET, so an editor's steps, or the replacement of several files, are one change.
 * Returns 0 or negative errno. Logs a notice if it has to poll. */
#define CONFIG_WATCH_QUIET (300 * USEC_PER_MSEC)
int config_watch_new(sd_event *event, const char *config_file, config_watch_handler on_change,
	void *userdata, struct config_watch **ret);

/* To be called before the files are read: their current state no longer counts as a change. NULL is
 * accepted. */
void config_watch_seen(struct config_watch *watch);

/* The same, if only the list of cordons is read. */
void config_watch_seen_cordons(struct config_watch *watch);

/* Ends watching, as kubelet_watch_stop() does and for the same reason. NULL is accepted. */
void config_watch_stop(struct config_watch *watch);

struct config_watch *config_watch_free(struct config_watch *watch);
