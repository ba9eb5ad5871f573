/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Asks the kubelet's PodResources API for the devices of containers. The supervisor does not know
 * gRPC: a separate process (proto/plugin/pod-reader.h) handles each question, on a connection that
 * the supervisor makes, and no process runs while there is no question. Questions within
 * POD_ANSWER_AGE share an answer, which keeps all of devplugd far below the kubelet's limit of 100
 * questions a second for all its clients.
 */

#include "common/error.h"
#include "common/pod-table.h"
#include "common/spawn-request.h"

struct manager;
struct pod_resources;

/* The maximum age of an answer where a few seconds do not matter. It is kept for so long. */
#define POD_ANSWER_AGE (5 * USEC_PER_SEC)

struct pod_answer {
	const struct pod_table *table; /* NULL: there is no answer */
	int table_fd;                  /* the same as sealed memfd, for other processes */
	uint64_t asked_at;             /* CLOCK_MONOTONIC: when the question was sent */
	int error; /* 0, or negative errno: -ENOENT or -ECONNREFUSED if no kubelet answers at
		      pod_resources_socket, -EOPNOTSUPP if `pod_resources` is false */
	const char *failure; /* the reason if there is no answer, as text for a person; else "" */
};

/* The answer and everything it points to are valid during the call only. */
typedef void (*pod_answer_handler)(const struct pod_answer *answer, void *userdata);

int pod_resources_new(struct manager *manager, struct pod_resources **ret);

/* Asks. `question` is POD_QUESTION_LIST or POD_QUESTION_ALLOCATABLE (spawn-request.h). It shares
 * the answer to the same question if that was asked at most `age` microseconds ago (0: none), or is
 * still pending. The handler is called once, later, from the event loop, with an answer or a
 * failure, within POD_ANSWER_TIMEOUT; unless it is cancelled. Returns 0, -ENOMEM, -EINVAL for a
 * question that is too long, or -EBUSY if too many are asked at once. */
#define POD_ANSWER_TIMEOUT (POD_READER_DEADLINE + 4 * USEC_PER_SEC)
int pod_resources_ask(struct pod_resources *pods, const char *question, uint64_t age,
	pod_answer_handler on_answer, void *userdata);

/* Cancels the calls of handlers with this `userdata`. */
void pod_resources_cancel(struct pod_resources *pods, const void *userdata);

/* Ends all questions; waiting handlers are not called. */
struct pod_resources *pod_resources_free(struct pod_resources *pods);
DEFINE_CLEANUP(struct pod_resources *, pod_resources_free)
