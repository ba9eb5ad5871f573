/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of cleaning: containers that are about to start, and wait until their devices are clean.
 */

#include "supervisor/books/cleaning-run.h"

/* A container that is about to start. */
struct start {
	struct start *next;
	const struct child *child;
	uint64_t number, deadline;
	struct strings ids;
};

/* Sends a process CHILD_USED; `why` empty: the devices may be used. */
void cleaning_starts_answer(const struct child *child, uint64_t number, const char *why);

/* Takes the ids of a container that is about to start. It is answered later. */
void cleaning_starts_take(
	struct cleaning *cleaning, const struct child *child, uint64_t number, struct strings *ids);

/* Answers those that are decided. */
void cleaning_starts_try(struct cleaning *cleaning);

struct start *cleaning_starts_free(struct cleaning *cleaning, struct start *start);
