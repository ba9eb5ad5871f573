/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is said at Allocate between us and a program, as docs/exec-protocol.md has it: the devices
 * that a container is given, and what the program adds to that. The answer is as foreign as a list
 * of devices and is read with the same limits, whole or not at all.
 */

#include "common/error.h"
#include "drivers/inventory.h"

/* A replica that a container is given. */
struct exec_given {
	size_t unit; /* in the snapshot */
	unsigned replica;
};

/* Makes what the program is to read: a sealed memfd, read from its beginning. The replicas of a
 * unit are next to each other. Returns the descriptor or negative errno. */
int exec_request_new(const char *resource, const struct snapshot *snapshot,
	const struct exec_given *given, size_t n_given);

/* Reads what it answers: a device that means nothing by itself and has the nodes, mounts,
 * variables, annotations and CDI names. Returns 0, -EBADMSG with the place in it and what is wrong
 * there, or -ENOMEM. */
int exec_answer_read(const char *text, size_t size, struct device **ret, struct error *error);
