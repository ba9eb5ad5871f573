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

/* Sets kubelet.pod_logs_dir and kubelet.pod_resources. */
void pod_directories_follow(
	struct pod_directories *directories, const char *pod_logs_dir, bool pod_resources);

/* Whether to call `on_change` from now on. */
void pod_directories_watch(struct pod_directories *directories, bool wanted);

/* Reads which of the checkpoint's pods have a directory; NULL: there are no pods. Returns whether
 * all were seen by now. */
bool pod_directories_look(
	struct pod_directories *directories, const struct kubelet_checkpoint *checkpoint);

/* The pod that has a directory: {"namespace", "pod"}; NULL: it has none, or that is not known. A
 * borrowed reference. */
typedef struct json_t json_t;
const json_t *pod_directories_find(const struct pod_directories *directories, const char *uid);

/* Whether an answer of PodResources is to decide whether pods have ended. */
bool pod_directories_await(const struct pod_directories *directories);

/* Takes an answer: pods whose directory was removed before the question have ended, unless they are
 * named. If there is no answer, the directory decides. */
void pod_directories_answered(struct pod_directories *directories,
	const struct kubelet_checkpoint *checkpoint, const struct pod_answer *answer);

/* Whether the pod had ended by the last pod_directories_look(). */
bool pod_directories_lost(const struct pod_directories *directories, const char *uid);

/* Ends the watch permanently. */
void pod_directories_stop(struct pod_directories *directories);

struct pod_directories *pod_directories_free(struct pod_directories *directories);
DEFINE_CLEANUP(struct pod_directories *, pod_directories_free)
