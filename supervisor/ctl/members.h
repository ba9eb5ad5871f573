/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Members of the documents that devplugctl reads and prints.
 */

#include <jansson.h>

#include "common/util.h"

/* Of the documents that devplugctl prints, see docs/json.md. */
#define SNAPSHOT_VERSION 1

/* A string is never NULL. */
const char *snapshot_string(const json_t *object, const char *key);
json_t *snapshot_clean_string(const json_t *object, const char *key); /* for a terminal */
json_int_t snapshot_integer(const json_t *object, const char *key);

/* A copy of a text for a terminal, as a JSON string. NULL without memory. */
json_t *snapshot_clean_text(const char *text);
