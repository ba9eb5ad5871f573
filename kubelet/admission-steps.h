/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of an admission, shared by admission-queue.c (whose turn it is), admission.c (which
 * devices) and container-start.c (what the container gets).
 */

#include "kubelet/choice.h"
#include "kubelet/kubelet-manager.h"

struct control_request;

struct admission {
	struct manager *manager;
	struct admission *next;
	struct pod *pod;
	struct control_request *requester;
	size_t container; /* of the pod, that is being admitted or started */
	size_t *order;    /* of the container's limits */
	size_t position;  /* in the order of allocation */
	json_t *started;  /* what the started containers receive */
	bool running;     /* being admitted now, not waiting for others */
	bool admitted;    /* the devices are recorded; the container is being started */
	bool reallocated;
	struct choice choice;
	uint64_t called; /* when the plugin's call began */
};

/* Makes a container of the pod the current one, with its limits in an arbitrary order. 0 or
 * -ENOMEM. */
int admission_turn_to(struct admission *admission, size_t container);
const struct pod_container *admission_container(const struct admission *admission);

/* The limit at the current position. */
const struct pod_limit *admission_limit(const struct admission *admission);

/* Sets the pod's status and saves the pods. */
void admission_set_status(
	struct admission *admission, enum pod_phase phase, const char *reason, const char *message);

/* Handles the limit at the current position, or ends the admission after the last one. */
void admission_next_resource(struct admission *admission);

/* Admits the first waiting pod, unless another one is being admitted. */
void admission_admit_next(struct manager *manager);

/* Allocates the missing devices of an admitted pod, then starts the container again. */
void admission_reallocate(struct admission *admission);

/* Starts the containers one after the other, then frees the admission. */
void admission_start(struct admission *admission);

/* Continues with the container whose devices were allocated again. */
void admission_go_on(struct admission *admission);

/* The container cannot be created; the pod keeps its devices. */
void admission_fail_start(struct admission *admission, const char *why);

void admission_free(struct admission *admission);
