/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Claims that were unprepared, and whose devices are cleaned now (supervisor/books/cleaning.h): the
 * kubelet waits for the answer before the pod ends, in steps that are shorter than its time limit.
 */

#include "common/error.h"

struct dra_ends;
struct manager;

/* How long a request waits, below the kubelet's 45 s. */
#define DRA_END_TIMEOUT (40 * USEC_PER_SEC)

/* Answers a request; `error` NULL: the claim is unprepared. */
typedef void (*dra_end_handler)(uint64_t request, const struct error *error, void *userdata);

int dra_ends_new(
	struct manager *manager, dra_end_handler on_end, void *userdata, struct dra_ends **ret);

/* Answers a request for the claim when its devices are clean, which may be at once. */
void dra_ends_add(struct dra_ends *ends, uint64_t request, const char *claim_uid);

/* The answers are not waited for any more. */
void dra_ends_drop(struct dra_ends *ends);

struct dra_ends *dra_ends_free(struct dra_ends *ends);
DEFINE_CLEANUP(struct dra_ends *, dra_ends_free)
