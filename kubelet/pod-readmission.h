/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Has the pods of before the restart admitted again, each as soon as it is due.
 */

#include "kubelet/kubelet-manager.h"

/* A list has come. May end the kubelet. */
void pod_readmission_run(struct manager *manager);
