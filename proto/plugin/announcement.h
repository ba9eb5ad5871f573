/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The answers to the kubelet's plugin watcher (pluginregistration.Registration), which connects to
 * a socket, asks which plugin it belongs to, and reports whether it registered the plugin. Calls
 * come on gRPC's thread and are answered there at once, because the watcher waits for one second
 * only; the registration status goes to the main loop.
 */

#include "proto/mailbox.h"

struct announcer; /* answers for all sockets */
struct announcement;

struct announcement_parameters {
	uint64_t session; /* differs for each announcement */
	const char *type; /* CLIENT_DEVICE_PLUGIN or CLIENT_DRA_PLUGIN */
	const char *name;
	const char *endpoint; /* absolute path of the socket on which the plugin serves */
	uid_t supervisor_uid; /* may call, as root may */
};

struct announcement_events {
	/* The watcher has registered the plugin, or has failed to: `why` is for people; NULL: it is
	 * registered. */
	void (*on_status)(struct announcement *announcement, const char *why, void *userdata);
	/* No registration status came within ANNOUNCEMENT_TIMEOUT, or the socket was shut down. */
	void (*on_unused)(struct announcement *announcement, void *userdata);
};

/* The kubelet asks, dials the plugin for up to 10 s, and reports. */
#define ANNOUNCEMENT_TIMEOUT (20 * USEC_PER_SEC)

/* gRPC must have been started. The mailbox is that of the loop, and its userdata is not NULL. */
int announcer_new(sd_event *event, struct mailbox *mailbox, struct announcer **ret);

/* Answers on the listening socket, which it takes, also on failure. The callee of an event frees
 * the announcement. Returns 0 or negative errno: -EINVAL for an unknown type. */
int announcement_new(struct announcer *announcer, int fd,
	const struct announcement_parameters *parameters, const struct announcement_events *events,
	void *userdata, struct announcement **ret);

/* Accepts no more connections and ends those that are open; one that has reported gets its answer
 * first. */
struct announcement *announcement_free(struct announcement *announcement);
DEFINE_CLEANUP(struct announcement *, announcement_free)
