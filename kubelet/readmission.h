/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A restarted kubelet admits the pods that it finds running once more. Their devices are recorded,
 * so that no plugin is called; but the topology manager judges them by what is listed now, and a
 * container that does not run, as an init container that has done its work, needs healthy devices.
 */

#include "kubelet/model.h"

/* Whether every resource that the pod has devices of has been listed since the kubelet's start. A
 * kubelet does not wait for that; it is what happens if the plugins are faster. */
bool readmission_is_due(const struct model *model, const struct pod *pod);

/* Admits the pod again. Returns 1, 0 with the reason and the message of its failure, -ENOMEM, or
 * -EFAULT if a kubelet of this release panics: the message has the cause. */
int readmission_try(
	struct model *model, struct pod *pod, const char **ret_reason, struct error *error);
