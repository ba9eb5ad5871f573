/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends the supervisor the labels of the node that a resource's devices make.
 */

#include "common/control-child.h"
#include "drivers/inventory/node-labels.h"

struct labelling {
	char *sent;           /* the last text; NULL: none */
	struct strings notes; /* why labels are left out; shown with the notes of the scan */
};

/* Makes the labels of the snapshot, whose devices have known owners, and sends them if they have
 * changed. Returns whether to call again, because the kernel has locked a file. */
bool labelling_update(struct labelling *labelling, sd_event *event,
	const struct declaration *declaration, const struct snapshot *snapshot);

void labelling_done(struct labelling *labelling);
