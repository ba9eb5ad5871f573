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
	size_t position;  /* in the order */
	json_t *started;  /* what the containers that were started get */
	bool running;     /* being admitted now, not waiting for others */
	bool admitted;    /* the devices are recorded; the container is being started */
	bool reallocated;
	struct choice choice;
	uint64_t called; /* when the plugin's call began */
};

/* Turns to a container of the pod, with its limits in an arbitrary order. 0 or -ENOMEM. */
int admission_turn_to(struct admission *admission, size_t container);
const struct pod_container *admission_container(const struct admission *admission);

/* The limit at the current position. */
const struct pod_limit *admission_limit(const struct admission *admission);

/* Sets the pod's status and writes the pods down. */
void admission_set_status(
	struct admission *admission, enum pod_phase phase, const char *reason, const char *message);

/* Goes on with the limit at the current position, or with the end of the admission. */
void admission_next_resource(struct admission *admission);

/* Lets the first pod that waits be admitted, unless one is being admitted. */
void admission_admit_next(struct manager *manager);

/* Allocates for an admitted pod what is missing, then starts the container again. */
void admission_reallocate(struct admission *admission);

/* Starts the containers, one after the other: frees the admission in the end. */
void admission_start(struct admission *admission);

/* Goes on with the container that was allocated for again. */
void admission_go_on(struct admission *admission);

/* The container cannot be created; the pod keeps its devices. */
void admission_fail_start(struct admission *admission, const char *why);

void admission_free(struct admission *admission);
