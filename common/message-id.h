/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Identities of the log records that programs search for (MESSAGE_ID= in the journal). An identity
 * is never reused for another meaning; the journal catalog explains each.
 */

/* A child was started. */
#define MESSAGE_ID_CHILD_STARTED "f3bff417338348599341c84915570c3e"
/* A child ended (its exit text). */
#define MESSAGE_ID_CHILD_DIED "e70e904565d2432b81dbca6d1c77b4c7"
/* A child did not answer and is killed. */
#define MESSAGE_ID_CHILD_HUNG "510074e453044c5aa39b3ba6574e535e"
/* The kubelet watches a resource's devices. */
#define MESSAGE_ID_SERVING "a714c3baa5704da2bfc8323b2cb5133a"
/* A kubelet session ended or registration failed. */
#define MESSAGE_ID_SESSION_ENDED "32e841f689d147a390189f0185c2aa0d"
/* A configuration generation was applied. */
#define MESSAGE_ID_CONFIG_ACCEPTED "e2070b4450e74d6cbbccbbc9386f65c2"
/* A configuration was rejected; the applied one stays. */
#define MESSAGE_ID_CONFIG_REJECTED "f02054ed3957473689f2402891dd119f"
/* One line of the plan that a reload carries out. */
#define MESSAGE_ID_CONFIG_PLAN "82b55cacfc3d4f899ea1d8d622cda86b"
/* The configuration file is not valid; the last accepted configuration is used. */
#define MESSAGE_ID_CONFIG_LAST_ACCEPTED "2de2c5766e864b1dab8e1a6572d0e7fa"
/* A child refused the configuration of its resource. */
#define MESSAGE_ID_RESOURCE_REFUSED "73397f472c6a439ba38970cf4534d2a0"
/* The kubelet's socket appeared. */
#define MESSAGE_ID_KUBELET_APPEARED "c44c091113d54c319d8a517a529fab00"
/* The kubelet's socket went away. */
#define MESSAGE_ID_KUBELET_GONE "93200c84c4fc440d85efbc310b579181"
/* A call of the kubelet was refused. */
#define MESSAGE_ID_CALL_FAILED "4f83200dc2d345d1b09191b947e962b6"
/* Pods of a failed device are evicted, or their eviction is held. */
#define MESSAGE_ID_EVICTION "6b1f0f3ad1c94b0e9a5d7f0c2e8b4d16"
/* A device appeared, disappeared, failed, or recovered. */
#define MESSAGE_ID_DEVICE_CHANGED "e081b006335a4b24bdf7af3a41b96c89"
