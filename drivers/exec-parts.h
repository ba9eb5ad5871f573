/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of exec-document and exec-answer: what a container is to be given.
 */

#include "drivers/exec-fields.h"

/* Members of a JSON object whose types were checked; NULL: absent. */
struct exec_parts {
	const json_t *nodes, *mounts, *env, *annotations, *cdi;
};

/* Adds them to the reader's device. */
int exec_read_parts(struct exec_reader *reader, const struct exec_parts *parts);

/* Adds a variable of the environment, whose name was checked. */
int exec_add_env(struct exec_reader *reader, const char *name, const char *value);
