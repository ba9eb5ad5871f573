/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads YAML, and so also JSON, as a tree of jansson's. Go programs of Kubernetes read both in the
 * same way, as YAML.
 */

#include <jansson.h>

#include "common/error.h"

/* Reads the first document of the text. All scalars are strings, even if they could be numbers.
 * Returns 0; -EBADMSG with the error filled, if the text is not valid, or a mapping has a key twice
 * or one that is not a scalar; -EOPNOTSUPP with the error filled, if it is nested too deeply or has
 * aliases of anchors, which other programs may accept; or -ENOMEM. */
int yaml_read(const char *text, size_t size, json_t **ret, struct error *error);
