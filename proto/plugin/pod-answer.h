/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's PodResources messages as lines of a pod table (common/pod-table.h). Names that
 * cannot be a field of a line are left out.
 */

#include "common/util.h"

enum pod_question {
	POD_LIST,
	POD_ALLOCATABLE,
};

/* Writes the lines of an answer. Returns 0, or -EBADMSG if the bytes are not such a message. */
int pod_answer_write(enum pod_question question, const uint8_t *data, size_t size, FILE *stream);
