/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the members that describe what a container gets, of a listed device and of an answer at
 * Allocate.
 */

#include "drivers/exec/exec-fields.h"

/* The members that both documents may contain. They come first in the table of such an object. */
enum { EXEC_NODES, EXEC_MOUNTS, EXEC_ENV, EXEC_ANNOTATIONS, EXEC_CDI, EXEC_N_PARTS };

#define EXEC_PART_FIELDS                                            \
	[EXEC_NODES] = { "nodes", KIND_LIST, false },               \
	[EXEC_MOUNTS] = { "mounts", KIND_LIST, false },             \
	[EXEC_ENV] = { "env", KIND_OBJECT, false },                 \
	[EXEC_ANNOTATIONS] = { "annotations", KIND_OBJECT, false }, \
	[EXEC_CDI] = { "cdi", KIND_LIST, false }

/* Adds the members that exec_read_fields() has found to the reader's device. */
int exec_read_parts(struct exec_reader *reader, const json_t *const values[static EXEC_N_PARTS]);

/* Adds a variable of the environment, whose name was checked. */
int exec_add_env(struct exec_reader *reader, const char *name, const char *value);
