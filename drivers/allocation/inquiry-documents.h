/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The documents at Allocate between devplugd and a program, see docs/exec-protocol.md: the devices
 * that a container gets, and what the program adds to them. The answer is as untrusted as a list of
 * devices: it is read with the same limits, and accepted as a whole or not at all.
 */

#include "common/error.h"
#include "drivers/inventory/inventory.h"
#include "drivers/model/claim-values.h"

/* A replica that a container gets. */
struct exec_given {
	size_t unit; /* in the snapshot */
	unsigned replica;
};

/* Makes the document for the program: a sealed memfd, read from its beginning. The replicas of a
 * unit are next to each other. `values` are those of the claim, or NULL. Returns the
 * descriptor or negative errno. */
int exec_request_new(const struct declaration *declaration, const struct claim_values *values,
	const struct snapshot *snapshot, const struct exec_given *given, size_t n_given);

/* Reads the program's answer into a device that only carries nodes, mounts, variables, annotations
 * and CDI names. Returns 0, -EBADMSG with the place in it and the fault, or -ENOMEM. */
int exec_answer_read(const char *text, size_t size, struct device **ret, struct error *error);
