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

/* Sends a process CHILD_USED; `why` empty: the devices may be used. `metadata_fd` stays the
 * caller's; -EBADF: there is none. */
void cleaning_starts_answer(
	const struct child *child, uint64_t number, int metadata_fd, const char *why);

/* Takes the ids of a container that is about to start. It is answered later. */
void cleaning_starts_take(
	struct cleaning *cleaning, const struct child *child, uint64_t number, struct strings *ids);

/* Whether the user may have the device; if not, it is cleaned. Returns 1, 0: not yet, or negative
 * errno with the error filled. */
int cleaning_starts_admit(struct cleaning *cleaning, struct dirty *dirty, const char *user,
	const struct usage *usage, struct error *error);

/* The user has the device from now on. Returns 0, or -ENOMEM with the error filled. */
int cleaning_starts_give(
	struct cleaning *cleaning, struct dirty *dirty, const char *user, struct error *error);

/* Answers those that are decided. */
void cleaning_starts_try(struct cleaning *cleaning);

struct start *cleaning_starts_free(struct cleaning *cleaning, struct start *start);
