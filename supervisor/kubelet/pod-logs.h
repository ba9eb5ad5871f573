/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the name of a pod by its UID. The kubelet's checkpoint has only UIDs, and PodResources
 * omits plain init containers. The kubelet keeps a directory NAMESPACE_NAME_UID for the logs of
 * each pod that exists, and removes it within a minute after the pod's end
 * (pkg/kubelet/kuberuntime/kuberuntime_gc.go, evictPodLogsDirectories()).
 */

#include <jansson.h>

#include "common/util.h"

/* Maximum number of entries that are read. */
#define POD_LOGS_MAX 4096

/* The pods with a directory: an object of UIDs with {"namespace", "pod"}; names that no pod can
 * have are skipped. NULL: they are not known, because the directory does not exist, is only mounted
 * any more, or cannot be read, or for lack of memory. */
json_t *pod_logs_read(const char *directory);
