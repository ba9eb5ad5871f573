/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon's view of the kubelet's directories: follows what appears and disappears there, opens
 * sessions, and removes the sockets that a dead daemon left.
 */

#include "common/error.h"
#include "configuration/config.h"

struct manager;
struct session;

/* Watches the plugin directory of the applied configuration, and removes sockets that a dead daemon
 * left: at once, and again when its children must have ended, too. Logs. */
int plugin_directory_watch(struct manager *manager);

/* Adds the event sources that plugin_directory_watch() needs. Returns 0 or negative errno. */
int plugin_directory_init(struct manager *manager);

/* Opens a session for the next registration; errors as session_open(). */
int plugin_directory_open_session(struct manager *manager, enum registration_way way,
	const char *resource, struct session *ret, struct error *error);

/* The session of a DRA driver that a killed devplugd left registered, if its sockets were kept
 * (kept-sockets.h). Returns 0 or negative errno. */
int plugin_directory_resume_session(
	struct manager *manager, const char *driver, struct session *ret);
