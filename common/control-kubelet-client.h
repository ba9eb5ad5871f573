/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between the supervisor and the kubelet client, the only process that registers with
 * the kubelet, written as in control-child.h. The text of a registration has a type of plugin,
 * CLIENT_DEVICE_PLUGIN or CLIENT_DRA_PLUGIN, the name to be registered, and the endpoint that the
 * kubelet is to connect to, separated by single spaces.
 */

#include "common/control.h"

#define CLIENT_DEVICE_PLUGIN "DevicePlugin"
#define CLIENT_DRA_PLUGIN    "DRAPlugin"

/* Maximum number of registrations that the client has at a time. */
#define CLIENT_REGISTRATIONS_MAX 64

enum client_type {
	/* supervisor to client */
	CLIENT_REGISTER = CONTROL_OWN, /* [session, prestart, text, fd] connection to kubelet.sock.
					  The endpoint is a file name in the plugin directory */
	CLIENT_ANSWER, /* [session, text, fd] listening socket that the plugin watcher has found.
			  The endpoint is an absolute path */
	/* client to supervisor: one answer to each registration */
	CLIENT_REGISTERED, /* [session] */
	CLIENT_REFUSED,    /* [session, text] why the kubelet did not register it */
	CLIENT_UNUSED,     /* [session] a client connected to the listening socket, but did not
			      report a registration */
};

extern const struct control_protocol control_client;

#define CLIENT_MESSAGE_INIT(t) CONTROL_MESSAGE_INIT(&control_client, t)
