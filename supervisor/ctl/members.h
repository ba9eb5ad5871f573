/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Members of the documents that devplugctl reads and prints.
 */

#include "common/json-read.h"

/* The version of the documents that devplugctl prints, see docs/json.md. */
#define SNAPSHOT_VERSION 1

json_int_t snapshot_integer(const json_t *object, const char *key);

/* Copies of a text, and of a text member, for a terminal, as JSON strings. NULL without memory. */
json_t *snapshot_clean_text(const char *text);
json_t *snapshot_clean_string(const json_t *object, const char *key);
