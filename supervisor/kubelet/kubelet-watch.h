/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Notices that a kubelet has started. The watch is on the directory, never on the socket: a kubelet
 * that dies leaves its socket behind, and one that starts replaces it. An event only starts a
 * check: the proof is a successful connection.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

struct kubelet_watch;

/* Called when kubelet.sock was replaced, or (`present` false) removed. */
typedef void (*kubelet_watch_handler)(bool present, void *userdata);

/* Called when kubelet.sock, a socket of ours or the directory may have been replaced or removed. */
typedef void (*kubelet_watch_change_handler)(void *userdata);

/* Watches the directory, which need not exist yet. If no watch is available, it polls. Returns 0,
 * -ENOMEM or an error of the event loop. */
int kubelet_watch_new(sd_event *event, const char *directory, kubelet_watch_handler on_kubelet,
	kubelet_watch_change_handler on_change, void *userdata, struct kubelet_watch **ret);

const char *kubelet_watch_directory(const struct kubelet_watch *watch);

/* A number above 0 that differs for each kubelet.sock that was seen. A socket that is only touched
 * or renamed keeps its number, and so does one that was removed. */
uint64_t kubelet_watch_number(struct kubelet_watch *watch);

/* Whether a resource waits for a kubelet: only then is there polling, as a backstop (5 s). Without
 * inotify there is always polling (1 s). */
void kubelet_watch_set_waiting(struct kubelet_watch *watch, bool waiting);

/* Whether the last check found kubelet.sock. */
bool kubelet_watch_is_present(const struct kubelet_watch *watch);

/* Calls `on_checkpoint` with that `userdata` when the kubelet has written its checkpoint into the
 * directory (supervisor/kubelet/kubelet-checkpoint.h), and when it may have. */
void kubelet_watch_checkpoint(
	struct kubelet_watch *watch, void (*on_checkpoint)(void *userdata), void *userdata);

/* Ends watching. Call it some time before kubelet_watch_free(), which would otherwise wait up to 20
 * ms until the kernel has removed a watch. */
void kubelet_watch_stop(struct kubelet_watch *watch);

struct kubelet_watch *kubelet_watch_free(struct kubelet_watch *watch);
DEFINE_CLEANUP(struct kubelet_watch *, kubelet_watch_free)
