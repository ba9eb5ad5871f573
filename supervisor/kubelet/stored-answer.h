/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An answer to Allocate as the kubelet stores it in its checkpoint ("AllocResp"): the bytes of a
 * ContainerAllocateResponse (proto/deviceplugin.proto) in base64. Whenever a container of the pod
 * is started again, the kubelet uses the stored answer and does not ask the plugin.
 */

#include "drivers/model/bookings.h"

/* Limits of one answer. An answer with more nodes counts as one without; further values, and longer
 * ones, are left out. */
#define STORED_NODES_MAX  1024
#define STORED_VALUES_MAX 64
#define STORED_VALUE_SIZE 2048

/* Where the parts of an answer are added; kinds once each. */
struct stored_answer {
	struct strings *kinds;       /* the kinds of its CDI devices */
	struct booked_answer *parts; /* its device nodes, variables, annotations and metadata */
	struct strings *names;       /* its CDI devices; NULL: not wanted */
	/* For each of the nodes, "PERMISSIONS PATH" in the container; NULL: not wanted. */
	struct strings *targets;
};

/* Reads an answer. One that cannot be read is empty, one that is cut off ends there: the kubelet
 * does not use it either. Returns 0 or -ENOMEM. */
int stored_answer_read(const char *text, const struct stored_answer *ret);
