/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a container gets, as text.
 */

#include "drivers/allocation/allocation.h"

/* Everything but nodes and mounts, a line each. */
static inline void print_allocation_texts(const struct allocation *allocation, FILE *stream)
{
	for (size_t i = 0; i < allocation->n_env; i++)
		(void)fprintf(
			stream, "env %s=%s\n", allocation->env[i].name, allocation->env[i].value);
	for (size_t i = 0; i < allocation->n_annotations; i++)
		(void)fprintf(stream, "annotation %s=%s\n", allocation->annotations[i].name,
			allocation->annotations[i].value);
	for (size_t i = 0; i < allocation->n_cdi; i++)
		(void)fprintf(stream, "cdi %s\n", allocation->cdi[i]);
}
