/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The containers of pods that run on this host, with a process of each. The kubelet mounts a file
 * of the pod's directory into every container, as its termination log, so a process's mounts show
 * the UID of its pod and the name of its container, with every runtime and every cgroup driver
 * (pkg/kubelet/kubelet_pods.go and pkg/kubelet/kuberuntime/kuberuntime_container.go, makeMounts()).
 */

#include <sys/types.h>

#include "common/util.h"

struct running_container {
	char *pod_uid, *name; /* from the mounts, which are not trusted */
	pid_t pid;            /* one of its processes */
};

struct container_list {
	struct running_container *items;
	size_t count;
};

/* Reads the containers whose processes this process can see. Returns 0, -ENOMEM, or the error of
 * opening `proc` (/proc). */
int container_list_read(const char *proc, struct container_list *ret);

/* The container of that name in the pod, or NULL. */
const struct running_container *container_list_find(
	const struct container_list *list, const char *pod_uid, const char *name);

void container_list_done(struct container_list *list);

/* The pod and the container that a line of /proc/PID/mountinfo names (malloc'ed). Returns 1, 0 if
 * it names none, or -ENOMEM. */
int container_of_mount(const char *line, char **ret_pod_uid, char **ret_name);
