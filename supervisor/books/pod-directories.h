/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which pods of the kubelet's checkpoint have ended. The kubelet has a directory of logs for each
 * pod that exists (supervisor/kubelet/pod-logs.h), while its checkpoint contains a pod until it is
 * written for another reason. The directory is made some time after the checkpoint, so a pod has
 * ended only if its directory was seen before. A person may remove it as well, so PodResources is
 * asked where that is possible.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

struct kubelet_checkpoint;
struct pod_answer;
struct pod_directories;

/* `on_change` is called when a pod's directory was made or removed, while there is a watch. Returns
 * 0 or -ENOMEM. */
int pod_directories_new(sd_event *event, void (*on_change)(void *userdata), void *userdata,
	struct pod_directories **ret);

/* Sets the current kubelet.pod_logs_dir and kubelet.pod_resources, and kubelet_watch_number(). */
void pod_directories_follow(struct pod_directories *directories, const char *pod_logs_dir,
	bool pod_resources, uint64_t kubelet_number);

/* Whether to call `on_change` from now on. */
void pod_directories_watch(struct pod_directories *directories, bool wanted);

/* Reads which of the checkpoint's pods have a directory; NULL: nothing changes. Returns whether
 * all were seen by now. */
bool pod_directories_look(
	struct pod_directories *directories, const struct kubelet_checkpoint *checkpoint);

/* The pod that has a directory: {"namespace", "pod"}; NULL: it has none, or that is not known. A
 * borrowed reference. */
typedef struct json_t json_t;
const json_t *pod_directories_find(const struct pod_directories *directories, const char *uid);

/* Whether an answer of PodResources is to decide whether pods have ended whose directory was
 * removed after that time. */
bool pod_directories_await(const struct pod_directories *directories, uint64_t after);

/* Takes an answer. Pods whose directory was removed before the question, and since this kubelet
 * started, have ended unless they are named; until the kubelet has run for `interval`, it may not
 * know its pods. If there is no PodResources, the directory decides; without an answer, nothing
 * does. */
void pod_directories_answered(struct pod_directories *directories,
	const struct kubelet_checkpoint *checkpoint, const struct pod_answer *answer,
	uint64_t interval);

/* Whether the pod had ended by the last pod_directories_look(). */
bool pod_directories_lost(const struct pod_directories *directories, const char *uid);

/* Ends the watch permanently. */
void pod_directories_stop(struct pod_directories *directories);

struct pod_directories *pod_directories_free(struct pod_directories *directories);
DEFINE_CLEANUP(struct pod_directories *, pod_directories_free)
