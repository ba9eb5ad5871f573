/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Being told that a device of the kernel came, went or changed: by udev, which has given the node
 * its owner and links by then, or by the kernel itself where no udev runs. What is told is only
 * that somebody should look, so an event too many does no harm, and a lost one is made up for by
 * the rescan.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

struct uevents;

typedef void (*uevent_handler)(void *userdata);

/* Nothing is opened before something is wanted. */
int uevents_new(sd_event *event, uevent_handler handler, void *userdata, struct uevents **ret);

/* Has the handler called for devices of a subsystem ("drm") from now on, until the end. Fails if
 * events are not to be had (-EAFNOSUPPORT, -EPERM, ...): the caller then looks from time to time.
 */
int uevents_want(struct uevents *uevents, const char *subsystem);

/* Whether anything is wanted. */
bool uevents_wanted(const struct uevents *uevents);

struct uevents *uevents_free(struct uevents *uevents);
DEFINE_CLEANUP(struct uevents *, uevents_free)
