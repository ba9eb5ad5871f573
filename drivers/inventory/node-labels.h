/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The labels of the node that the devices of a resource make: of those that count for `expect`, see
 * complete-list.h. A name has one value, so devices with one name must have the same.
 */

#include "drivers/inventory/inventory.h"

struct node_labels {
	char *text;           /* lines "NAME=VALUE", sorted; empty: none */
	struct strings notes; /* why labels are left out, for people */
	bool busy;            /* the kernel has locked a file that a label needs: try again */
};

/* `root`: the directory that stands for "/". Returns 0 or -ENOMEM. */
int node_labels_build(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, struct node_labels *ret);

void node_labels_done(struct node_labels *labels);
#define _cleanup_node_labels_ _cleanup_(node_labels_done)
