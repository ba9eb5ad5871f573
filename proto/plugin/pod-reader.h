/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The other mode of devplugd-plugin: a process that sends the kubelet one question about its pods,
 * passes the answer to the supervisor, and ends. The supervisor does not know gRPC, and a
 * resource's process must not learn about the devices of others.
 */

/* Waits for CONTROL_POD_QUESTION, answers with CONTROL_POD_ANSWER, or with CONTROL_REFUSED and the
 * reason. Returns 0 or negative errno. Logs. */
int pod_reader_run(void);
