/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rows of "devplugctl top": resources in the selected order, and below the open one, its
 * devices.
 */

#include <jansson.h>

#include "common/util.h"

struct top_choice {
	unsigned sort; /* below top_n_sorts */
	bool reverse;
	char *opened; /* the resource whose devices are shown, or NULL */
};

enum top_row_kind { TOP_RESOURCE, TOP_HEADING, TOP_DEVICE };

/* Valid as long as the document. */
struct top_row {
	enum top_row_kind kind;
	const json_t *resource;
	const json_t *device; /* NULL unless it is a TOP_DEVICE */
};

extern const char *const top_sorts[];
extern const size_t top_n_sorts;

/* The rows for the daemon's resources (malloc'ed). Returns 0 or -ENOMEM. */
int top_rows(const json_t *resources, const struct top_choice *choice, struct top_row **ret,
	size_t *ret_count);
