/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A restarted kubelet admits the pods that it finds running once more. Their devices are recorded,
 * so no plugin is called. But the topology manager uses the current lists, and a container that is
 * not running, such as a finished init container, needs healthy devices.
 */

#include "kubelet/model.h"

/* Whether every resource of the pod has been listed since the kubelet's start. A real kubelet does
 * not wait for that; this is its behaviour if the plugins are faster. */
bool readmission_is_due(const struct model *model, const struct pod *pod);

/* Admits the pod again. Returns 1, 0 with the reason and the message of its failure, -ENOMEM, or
 * -EFAULT if a kubelet of this release panics; the message contains the cause. */
int readmission_try(
	struct model *model, struct pod *pod, const char **ret_reason, struct error *error);
