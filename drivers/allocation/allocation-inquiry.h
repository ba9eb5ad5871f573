/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs the programs that add to one container: each program that an entry of `match` names, and the
 * resource's own. A program receives the container's devices that it is responsible for. All run at
 * the same time, and the first failure ends the others. Nothing blocks; everything runs on the
 * thread of the event loop, unless stated otherwise.
 */

#include <systemd/sd-event.h>

#include "drivers/allocation/allocation.h"

struct inquiry;

/* Called once, unless the inquiry is freed before: 0, or negative errno with a sentence that is
 * meant for the pod: -ETIMEDOUT, -EBADMSG (invalid answer), -EIO (failed) or another. May free the
 * inquiry. */
typedef void (*inquiry_handler)(int status, const struct error *error, void *userdata);

/* Whether any device of the resource has such a program. Any thread. */
bool inquiry_is_possible(const struct declaration *declaration);

/* Finds the programs to run for the offered ids. `values` are those of the claim, or NULL. All
 * arguments except `ids` must outlive the inquiry. Errors about ids are as in allocation_build().
 */
int inquiry_new(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, const char *const *ids, size_t n_ids, const struct claim_values *values,
	struct inquiry **ret, struct error *error);

/* The number of programs to run, and the path of one of them. */
size_t inquiry_count(const struct inquiry *inquiry);
const char *inquiry_program(const struct inquiry *inquiry, size_t index);

/* Starts the programs, at least one. Their timeouts count from `since` (CLOCK_MONOTONIC
 * microseconds). Returns 0, or negative errno with the error filled: then the handler is not
 * called. */
int inquiry_start(struct inquiry *inquiry, sd_event *event, uint64_t since, inquiry_handler on_end,
	void *userdata, struct error *error);

/* The answers, after success. The inquiry owns them. */
const struct allocation_answers *inquiry_answers(const struct inquiry *inquiry);

/* Kills the programs that run. Returns NULL. */
struct inquiry *inquiry_free(struct inquiry *inquiry);
DEFINE_CLEANUP(struct inquiry *, inquiry_free)
