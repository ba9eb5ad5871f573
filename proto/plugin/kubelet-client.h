/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet client, another mode of devplugd-plugin: the only process that registers with the
 * kubelet, and one that does nothing else. It does not know the resources: each registration
 * arrives with a name, an endpoint and a socket of its own (common/control-kubelet-client.h). So
 * the process of a resource cannot register the name of another one.
 */

/* Registers until the supervisor sends CONTROL_STOP or has ended. Returns 0 or negative errno.
 * Logs. */
int kubelet_client_run(void);
