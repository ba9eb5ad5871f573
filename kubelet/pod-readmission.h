/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Admits the pods from before a restart again, each as soon as it is due.
 */

#include "kubelet/kubelet-manager.h"

/* To be called when a list arrives. May end the kubelet. */
void pod_readmission_run(struct manager *manager);
