/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads text members of JSON objects. `object` may be NULL, and need not be an object.
 */

#include <jansson.h>

#include "common/util.h"

/* "" if there is no such member, or it is not a string. */
static inline const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}

/* As text_of(), for the structs of protobuf-c, which do not change the text. */
static inline char *mutable_text_of(const json_t *object, const char *key)
{
	return (char *)(uintptr_t)text_of(object, key);
}

/* NULL if there is no such member, it is not a string, or it is empty. */
static inline const char *set_text_of(const json_t *object, const char *key)
{
	const char *text = text_of(object, key);

	return *text ? text : NULL;
}
