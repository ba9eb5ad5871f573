/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Noticing that a kubelet has come. The watch is on the directory, never on the socket: a kubelet
 * that dies leaves its socket behind, and one that starts replaces it. What is told is only "look
 * again": the truth is whether a connection succeeds.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

struct kubelet_watch;

/* Called when kubelet.sock is another one than before, or (`present` false) is gone. */
typedef void (*kubelet_watch_handler)(bool present, void *userdata);

/* Watches the directory or, while it does not exist, its nearest existing parent. Where the kernel
 * gives no watch, it polls. Returns 0 or -ENOMEM or what the event loop answers. */
int kubelet_watch_new(sd_event *event, const char *directory, kubelet_watch_handler on_kubelet,
	void *userdata, struct kubelet_watch **ret);

/* Whether somebody waits for a kubelet: only then is there polling, as a backstop (5 s; 1 s without
 * inotify). */
void kubelet_watch_set_waiting(struct kubelet_watch *watch, bool waiting);

/* Ends looking. Of use some time before kubelet_watch_free(), which would wait until the kernel has
 * taken a watch away: up to 20 ms where that is done by then, none later. */
void kubelet_watch_stop(struct kubelet_watch *watch);

struct kubelet_watch *kubelet_watch_free(struct kubelet_watch *watch);
DEFINE_CLEANUP(struct kubelet_watch *, kubelet_watch_free)
