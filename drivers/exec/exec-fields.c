/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the untrusted JSON of a program of driver "exec", within limits. Three passes check the
 * shape of the text (depth, number of values), its JSON, and the members of objects against a
 * table; each only sees input that the previous one accepted. Accepted strings have no control
 * characters and a bounded length.
 */
#include "drivers/exec/exec-fields.h"

#include "common/text.h"

/* { "devices": [ { "nodes": [ { is as deep as it gets. */
#define DEPTH_MAX 5
#define TEXT_MAX  4096
#define PART_MAX  64 /* nodes, variables ... of one device */
#define NAMES_MAX 16

int exec_out_of_memory(struct exec_reader *reader)
{
	return error_set(reader->error, -ENOMEM, "out of memory");
}

/* Values are counted before parsing, because a small text can make a JSON library allocate much: in
 * "[[],[],...]" the commas are counted. */
static int check_shape(const char *text, size_t size, struct error *error)
{
	size_t depth = 0, values = 1, line = 1;
	bool quoted = false;

	if (size > EXEC_DOCUMENT_MAX)
		return error_set(error, -EBADMSG, "more than %zu bytes", EXEC_DOCUMENT_MAX);
	for (size_t i = 0; i < size; i++) {
		char c = text[i];

		/* The library would not see it. */
		if (c == '\0')
			return error_set(error, -EBADMSG, "line %zu: a NUL byte", line);
		line += c == '\n';
		if (c == '"')
			quoted = !quoted;
		else if (quoted && c == '\\')
			i++;
		if (quoted)
			continue;
		if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && depth > 0)
			depth--;
		values += c == ',' || c == ':' || c == '{' || c == '[';
		if (depth > DEPTH_MAX)
			return error_set(error, -EBADMSG,
				"line %zu: lists and objects are nested deeper than the protocol allows",
				line);
		if (values > EXEC_VALUES_MAX)
			return error_set(error, -EBADMSG, "line %zu: more than %d values", line,
				EXEC_VALUES_MAX);
	}
	return 0;
}

int exec_parse(const char *text, size_t size, json_t **ret, struct error *error)
{
	json_error_t json_error;
	json_t *root;
	int r;

	r = check_shape(text, size, error);
	if (r < 0)
		return r;
	root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &json_error);
	if (!root)
		return error_set(error, -EBADMSG, "line %d, column %d is not valid JSON: %s",
			json_error.line, json_error.column, json_error.text);
	*ret = root;
	return 0;
}

int exec_check_version(struct exec_reader *reader, const json_t *root)
{
	const json_t *version = json_object_get(root, "version");

	if (json_is_integer(version) && json_integer_value(version) != EXEC_PROTOCOL_VERSION)
		return error_set(reader->error, -EBADMSG,
			"unsupported version %lld of the protocol (expected %d)",
			(long long)json_integer_value(version), EXEC_PROTOCOL_VERSION);
	return 0;
}

static bool is_kind(const json_t *value, enum exec_kind kind)
{
	switch (kind) {
	case KIND_OBJECT:
		return json_is_object(value);
	case KIND_LIST:
		return json_is_array(value);
	case KIND_STRING:
		return json_is_string(value);
	case KIND_INTEGER:
		return json_is_integer(value);
	case KIND_BOOL:
		return json_is_boolean(value);
	}
	return false;
}

int exec_check_value(
	struct exec_reader *reader, const char *name, const json_t *value, enum exec_kind kind)
{
	static const char *const kinds[] = {
		[KIND_OBJECT] = "an object { }",
		[KIND_LIST] = "a list [ ]",
		[KIND_STRING] = "a string",
		[KIND_INTEGER] = "a whole number",
		[KIND_BOOL] = "true or false",
	};

	if (!is_kind(value, kind))
		return error_set(reader->error, -EBADMSG, "\"%s\" must be %s", name, kinds[kind]);
	if (kind != KIND_STRING)
		return 0;
	if (json_string_length(value) > TEXT_MAX)
		return error_set(reader->error, -EBADMSG,
			"\"%s\" is %zu bytes long, the maximum is %d", name,
			json_string_length(value), TEXT_MAX);
	if (!text_is_plain(json_string_value(value)))
		return error_set(reader->error, -EBADMSG,
			"\"%s\" contains a control character or an invisible character", name);
	return 0;
}

static int unknown_field(
	struct exec_reader *reader, const char *name, const struct exec_field *fields, size_t n)
{
	const char *names[NAMES_MAX];
	const char *suggestion;
	size_t i;

	for (i = 0; i < n && i < ARRAY_SIZE(names); i++)
		names[i] = fields[i].name;
	suggestion = suggest_word(name, names, i);
	if (suggestion)
		return error_set(reader->error, -EBADMSG,
			"unknown field \"%s\", did you mean \"%s\"?", name, suggestion);
	return error_set(reader->error, -EBADMSG, "unknown field \"%s\"", name);
}

int exec_read_fields(struct exec_reader *reader, const json_t *object,
	const struct exec_field *fields, size_t n, const json_t **ret_values)
{
	const char *name;
	json_t *value;
	int r;

	if (!json_is_object(object))
		return error_set(reader->error, -EBADMSG, "must be an object { }");
	memset(ret_values, 0, n * sizeof(ret_values[0]));
	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		size_t i = 0;

		while (i < n && !streq(fields[i].name, name))
			i++;
		if (i == n)
			return unknown_field(reader, name, fields, n);
		r = exec_check_value(reader, name, value, fields[i].kind);
		if (r < 0)
			return r;
		ret_values[i] = value;
	}
	for (size_t i = 0; i < n; i++)
		if (fields[i].required && !ret_values[i])
			return error_set(
				reader->error, -EBADMSG, "\"%s\" is missing", fields[i].name);
	return 0;
}

/* The sentence of a form follows the name. */
int exec_check_form(struct exec_reader *reader, const char *name, const char *text,
	int (*form)(const char *value, struct error *error))
{
	struct error error;

	if (form(text, &error) < 0)
		return error_set(reader->error, -EBADMSG, "\"%s\" %s", name, error.message);
	return 0;
}

int exec_read_list(struct exec_reader *reader, const char *name, const json_t *list,
	int (*read_element)(struct exec_reader *reader, const json_t *element))
{
	int r;

	if (json_array_size(list) > PART_MAX)
		return error_set(reader->error, -EBADMSG,
			"\"%s\" has %zu entries, the maximum is %d", name, json_array_size(list),
			PART_MAX);
	for (size_t i = 0; i < json_array_size(list); i++) {
		r = read_element(reader, json_array_get(list, i));
		if (r < 0) {
			error_prefix(reader->error, "%s[%zu]", name, i);
			return r;
		}
	}
	return 0;
}

int exec_read_map(struct exec_reader *reader, const char *name, const json_t *map,
	int (*form)(const char *value, struct error *error),
	int (*read_member)(struct exec_reader *reader, const char *name, const char *value))
{
	const char *key;
	json_t *value;
	int r = 0;

	if (json_object_size(map) > PART_MAX)
		return error_set(reader->error, -EBADMSG,
			"\"%s\" has %zu members, the maximum is %d", name, json_object_size(map),
			PART_MAX);
	json_object_foreach((json_t *)(uintptr_t)map, key, value)
	{
		r = exec_check_form(reader, key, key, form);
		if (r >= 0)
			r = exec_check_value(reader, key, value, KIND_STRING);
		if (r >= 0)
			r = read_member(reader, key, json_string_value(value));
		if (r < 0) {
			error_prefix(reader->error, "%s", name);
			return r;
		}
	}
	return 0;
}
