/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process that serves no resource but helps the daemon, such as the exporter: unprivileged, and
 * running only while it is wanted. It is supervised like a resource's process: it sends
 * CONTROL_ALIVE at least every CONTROL_ALIVE_INTERVAL, its messages are checked and counted, and
 * after its end the next one is started with the delays RETRY_CHILD_DELAY_MIN to _MAX. No function
 * blocks.
 */

#include <systemd/sd-event.h>

#include "common/control.h"

struct child;
struct manager;
struct auxiliary;

struct auxiliary_options {
	const char *program; /* its file's name, and its package's; outlives the auxiliary */
	const char *mode;    /* what devplugd-plugin does instead of serving a resource, see
				spawn-request.h, in place of a program; its starts and stops are
				not logged. NULL: none */
	const char *user;    /* as in struct spawn_options */
	const struct control_protocol *protocol;
	/* A process has been started: send it its settings. Negative errno: it cannot work and is
	 * ended. */
	int (*on_started)(struct auxiliary *auxiliary, void *userdata);
	/* Called for all types but CONTROL_ALIVE; may take descriptors. False: the message is not
	 * allowed, and the process is ended. */
	bool (*on_message)(struct control_message *message, void *userdata);
	/* The process has ended, wanted or not; may be NULL. */
	void (*on_ended)(void *userdata);
	void *userdata;
};

/* Makes one that is not wanted. Returns 0 or negative errno. */
int auxiliary_new(
	struct manager *manager, const struct auxiliary_options *options, struct auxiliary **ret);

/* Starts the process, or ends it: CONTROL_STOP, and SIGKILL after RESOURCE_END_TIMEOUT. */
void auxiliary_set_wanted(struct auxiliary *auxiliary, bool wanted);

/* The process, also one that was asked to stop; 0: none. */
pid_t auxiliary_pid(const struct auxiliary *auxiliary);

/* Whether a process runs that was not asked to stop. */
bool auxiliary_is_running(const struct auxiliary *auxiliary);

/* Sends to the process, for example that the configuration has changed. While its socket is full,
 * messages wait; a process that does not read so many is replaced. Descriptors stay the caller's.
 * Returns 0 or negative errno: -ESRCH if none runs. */
int auxiliary_send(struct auxiliary *auxiliary, const struct control_message *message);

/* Passes on a child's document with its devices, if it has one (CONTROL_INVENTORY). Returns 0 or
 * negative errno: -EAGAIN: the process has not read earlier ones yet. */
int auxiliary_send_devices(struct auxiliary *auxiliary, const struct child *child);

/* Stops all auxiliary processes of a manager permanently. */
void auxiliaries_stop(struct manager *manager);

/* Whether no process of theirs is left. */
bool auxiliaries_stopped(const struct manager *manager);

/* Kills the process, if any is left, without waiting for it. */
struct auxiliary *auxiliary_free(struct auxiliary *auxiliary);
DEFINE_CLEANUP(struct auxiliary *, auxiliary_free)
