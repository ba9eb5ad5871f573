/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files by which other programs find a resource's devices, in one document, as a child proposes
 * them to the supervisor, which makes files of it under names of its own:
 *
 *   { "cdi": SPEC, "device_info": { ID: INFO, ... } }
 *
 * See cdi.h and device-info.h. Either member may be absent.
 */

#include <jansson.h>

#include "drivers/inventory/inventory.h"

#define PUBLICATION_CDI         "cdi"
#define PUBLICATION_DEVICE_INFO "device_info"

/* Maximum size of a document, and the maximum number of files in it. */
#define PUBLICATION_BYTES_MAX (4U << 20)
#define PUBLICATION_FILES_MAX 4096

/* Whether the snapshot or the declaration has anything to publish. */
bool publication_is_wanted(const struct declaration *declaration, const struct snapshot *snapshot);

/* Makes the document as compact JSON (malloc'ed). `left_out`: as in cdi_spec_build(). Returns 0,
 * -E2BIG beyond a limit, or -ENOMEM. */
int publication_build(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, char **ret_text, struct strings *left_out);
