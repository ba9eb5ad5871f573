/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reports that a device was added, removed or changed: from udev, which has set the node's owner
 * and links by then, or from the kernel where no udev runs. An event only triggers a scan, so an
 * extra event is harmless, and the periodic scan makes up for a lost one.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

/* udevd makes this file when it is ready to send events, and sd_device_monitor_new() checks for it.
 */
#define UDEV_CONTROL "/run/udev/control"

struct uevents;

typedef void (*uevent_handler)(void *userdata);

/* Opens nothing before the first uevents_want(). */
int uevents_new(sd_event *event, uevent_handler handler, void *userdata, struct uevents **ret);

/* Calls the handler for devices of a subsystem ("drm"), or for all devices with NULL, until the
 * monitor is freed. Fails if events are not available (-EAFNOSUPPORT, -EPERM, ...): the caller then
 * scans at intervals. */
int uevents_want(struct uevents *uevents, const char *subsystem);

/* Calls the handler when the host's default routes, or the bridge or bond of an interface, may have
 * changed, which no event of a device reports. Fails as uevents_want(). */
int uevents_want_network(struct uevents *uevents);

/* Whether anything is wanted. */
bool uevents_wanted(const struct uevents *uevents);

struct uevents *uevents_free(struct uevents *uevents);
DEFINE_CLEANUP(struct uevents *, uevents_free)
