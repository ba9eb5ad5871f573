/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The other mode of devplugd-plugin: a process that sends the kubelet one question about its pods,
 * passes the answer to the supervisor, and ends. The supervisor does not know gRPC, and a
 * resource's process must not learn about the devices of others.
 */

/* Waits for PODS_QUESTION, answers with PODS_ANSWER, or with PODS_REFUSED and the
 * reason. Returns 0 or negative errno. Logs. */
int pod_reader_run(void);
