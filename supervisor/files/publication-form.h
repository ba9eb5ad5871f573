/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks that the document that a child proposes to publish has the permitted form. A container
 * runtime acts on these files with all privilege, so only known members pass: no hooks, and no name
 * of another resource.
 */

#include <jansson.h>

#include "common/error.h"

/* A document of CDI, of that kind (NULL: the resource has none). Returns 0 or -EBADMSG with the
 * error filled. */
int publication_check_cdi(const json_t *spec, const char *kind, struct error *error);

/* The whole of a publication, see drivers/allocation/publication.h. */
int publication_check(const json_t *document, const char *kind, struct error *error);
