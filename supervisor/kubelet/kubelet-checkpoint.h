/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's own record of the devices of pods: kubelet_internal_checkpoint in its device
 * plugins directory. A starting kubelet reads its bookings from it and compares the list of devices
 * with them (promise P17). The file is read, never written. Its form has not changed since
 * Kubernetes 1.20 (pkg/kubelet/cm/devicemanager/checkpoint); any other form is refused as a whole.
 */

#include <jansson.h>

#include "common/error.h"
#include "drivers/model/bookings.h"
#include "drivers/model/option.h"

#define CHECKPOINT_FILE     "kubelet_internal_checkpoint"
#define CHECKPOINT_SIZE_MAX (32U << 20)
#define CHECKPOINT_ROWS_MAX 1000000U
/* The maximum time from the answer to Allocate until the kubelet has booked the devices. */
#define BOOKING_DELAY (200 * USEC_PER_MSEC)

/* One device of one container on one NUMA node. */
struct kubelet_checkpoint_row {
	const char *resource, *id, *pod_uid, *container;
	int node;                           /* -1: none */
	const struct booked_answer *answer; /* the container's; rows of one answer are neighbours */
};

struct kubelet_checkpoint {
	struct kubelet_checkpoint_row *rows; /* in the order of the file */
	size_t count;
	struct strings cdi_kinds;      /* that answers to Allocate name, each once */
	json_t *entries;               /* what the rows point into */
	struct booked_answer *answers; /* one for each entry, without ids */
	size_t n_answers;
};

/* Reads the file in that directory. Returns 0 or, with the error filled, -ENOENT (there is none),
 * -EFBIG (more than the limits above), -EBADMSG (an unknown form), or the error of reading it. */
int kubelet_checkpoint_read(
	const char *directory, struct kubelet_checkpoint **ret, struct error *error);

/* Reads the entries of the file as they are: objects with PodUID, ContainerName, ResourceName,
 * DeviceIDs, and AllocResp if there is one. Returns as above; the entries themselves are not
 * checked. */
int kubelet_checkpoint_read_entries(const char *directory, json_t **ret, struct error *error);

struct kubelet_checkpoint *kubelet_checkpoint_free(struct kubelet_checkpoint *checkpoint);
DEFINE_CLEANUP(struct kubelet_checkpoint *, kubelet_checkpoint_free)
#define _cleanup_kubelet_checkpoint_ _cleanup_(kubelet_checkpoint_freep)
