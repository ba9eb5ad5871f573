/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The other thing that devplugd-plugin can be: a process that asks the kubelet once which container
 * has which device, tells the supervisor, and ends. The supervisor does not know gRPC, and a
 * resource's process has nothing to do with the devices of others.
 */

/* Waits for CONTROL_LOOK, answers with CONTROL_ASSIGNED, or with CONTROL_REFUSED and why. Returns 0
 * or negative errno. Logs. */
int pod_reader_run(void);
