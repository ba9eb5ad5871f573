/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends READY=1, after which systemd starts the kubelet. A starting kubelet refuses a pod whose
 * devices are not healthy (pkg/kubelet/cm/devicemanager/manager.go, devicesToAllocate()), and after
 * a boot, devices appear while devplugd starts. So at the first start after a boot, READY=1 waits
 * for devices that pods hold.
 */

#include "common/util.h"

struct manager;
struct start_wait;

/* To be called before the configuration is saved, which is how a later start is recognized. Returns
 * 0 or negative errno. */
int start_wait_new(struct manager *manager, struct start_wait **ret);

/* Sends READY=1 now or, at the first start after a boot, when every device that the kubelet's
 * checkpoint assigns to a pod is found, udev has processed all events, a kubelet accepts
 * connections, or 20 seconds have passed. To be called when the children were started. */
void start_wait_begin(struct start_wait *wait);

struct start_wait *start_wait_free(struct start_wait *wait);
DEFINE_CLEANUP(struct start_wait *, start_wait_free)
