/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds answers to Allocate that no longer lead to their devices (promise P21). The kubelet stores
 * an answer and replays it whenever the container starts again, but after a restart of the host or
 * of a driver the paths and numbers in it may belong to other devices. An answer is outdated if a
 * node or value of one of its devices is not in it, and a node in it is none that its devices have;
 * or if one of its devices is not found any more. Compared are paths without symbolic
 * links. The CDI file of a claim is like an answer while one of the claim's devices is not found,
 * because only then the file cannot follow its devices. What an outdated answer names is kept from
 * other containers, too: any other device with such a node is unhealthy, unless its resource and
 * that of the answer both set `overlap`. So is a device that a pod holds under another id, which it
 * had before the configuration was changed.
 */

#include "supervisor/ownership/decision.h"

/* How many different device nodes are resolved for the answers of one resource. Answers with
 * others are not compared. */
#define REPLAYED_PATHS_MAX 4096

/* Adds to the results why devices are unhealthy because of outdated answers, and sets `replays`.
 * Returns 0 or -ENOMEM. */
int replayed_decide(struct decision *decisions, size_t n);
