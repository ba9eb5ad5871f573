/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Members of the documents that devplugctl reads and prints.
 */

#include "common/error.h"
#include "common/json-read.h"

/* The version of the documents that devplugctl prints, see docs/json.md. */
#define DOCUMENT_VERSION 1

json_int_t integer_of(const json_t *object, const char *key);

/* Copies of a text, and of a text member, for a terminal, as JSON strings. NULL without memory. */
json_t *clean_text(const char *text);
json_t *clean_text_of(const json_t *object, const char *key);

/* Adds copies of the text members with these keys, up to NULL, to an object, and returns it. */
json_t *add_clean_texts(json_t *to, const json_t *from, const char *const *keys);

/* Prints a document on stdout. Returns 0, or -EIO with the error filled, also if it is NULL. */
int print_document(const json_t *root, struct error *error);
