/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads JSON that a program printed, and members of its objects. Functions return 0, -EBADMSG with
 * a sentence that names the member, or -ENOMEM, in the reader's error.
 */

#include <jansson.h>

#include "common/error.h"
#include "drivers/model/device.h"

#define EXEC_PROTOCOL_VERSION 1

/* The maximum size of a document, and the maximum number of values in it: objects, lists, strings,
 * numbers and words. */
#define EXEC_DOCUMENT_MAX ((size_t)4 << 20)
#define EXEC_VALUES_MAX   500000

enum exec_kind { KIND_OBJECT, KIND_LIST, KIND_STRING, KIND_INTEGER, KIND_BOOL };

struct exec_field {
	const char *name;
	enum exec_kind kind;
	bool required;
};

struct exec_reader {
	int properties;        /* enum exec_properties, of a list */
	struct device *device; /* in hand */
	struct error *error;
};

int exec_out_of_memory(struct exec_reader *reader);

/* Reads a text as JSON, bounded in size, depth and number of values. The caller releases the
 * root. */
int exec_parse(const char *text, size_t size, json_t **ret, struct error *error);

/* To be called first, because a document of another version cannot be understood.
 * exec_read_fields() checks whether there is a version at all. */
int exec_check_version(struct exec_reader *reader, const json_t *root);

/* Whether the value is of that kind, and a string short and printable. */
int exec_check_value(
	struct exec_reader *reader, const char *name, const json_t *value, enum exec_kind kind);

/* Checks a text by one of form.h. */
int exec_check_form(struct exec_reader *reader, const char *name, const char *text,
	int (*form)(const char *value, struct error *error));

/* Sorts the members of an object by the table: ret_values[i] is the value of fields[i], or NULL. */
int exec_read_fields(struct exec_reader *reader, const json_t *object,
	const struct exec_field *fields, size_t n, const json_t **ret_values);

/* Reads each element of a list that may be absent. */
int exec_read_list(struct exec_reader *reader, const char *name, const json_t *list,
	int (*read_element)(struct exec_reader *reader, const json_t *element));

/* Reads each "name": "value" of an object that may be absent. */
int exec_read_map(struct exec_reader *reader, const char *name, const json_t *map,
	int (*form)(const char *value, struct error *error),
	int (*read_member)(struct exec_reader *reader, const char *name, const char *value));
