/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the members that a listed device and an answer at Allocate have in common, so that one set
 * of rules holds for both.
 */
#include "drivers/exec/exec-parts.h"

#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"

static const char *string_or(const json_t *value, const char *other)
{
	return value ? json_string_value(value) : other;
}

/* The paths of a node or mount; the path in the container may be absent. */
static int check_paths(struct exec_reader *reader, const json_t *host, const json_t *path)
{
	int r = exec_check_form(reader, "host", json_string_value(host), form_absolute_path);

	return r < 0 || !path
		? r
		: exec_check_form(reader, "path", json_string_value(path), form_absolute_path);
}

static int check_permissions(const char *value, struct error *error)
{
	if (!*value)
		return error_set(error, -EINVAL, "must not be empty");
	return node_permissions_check(value, error);
}

static int read_node(struct exec_reader *reader, const json_t *json)
{
	enum { HOST, PATH, PERMISSIONS, OPTIONAL, N };
	static const struct exec_field fields[N] = {
		[HOST] = { "host", KIND_STRING, true },
		[PATH] = { "path", KIND_STRING, false },
		[PERMISSIONS] = { "permissions", KIND_STRING, false },
		[OPTIONAL] = { "optional", KIND_BOOL, false },
	};
	const json_t *values[N];
	const char *permissions;
	int r;

	r = exec_read_fields(reader, json, fields, N, values);
	if (r >= 0)
		r = check_paths(reader, values[HOST], values[PATH]);
	if (r < 0)
		return r;
	permissions = string_or(values[PERMISSIONS], PERMISSIONS_DEFAULT);
	r = exec_check_form(reader, "permissions", permissions, check_permissions);
	if (r < 0)
		return r;
	r = device_add_node(reader->device, json_string_value(values[HOST]),
		string_or(values[PATH], NULL), permissions);
	if (r < 0)
		return exec_out_of_memory(reader);
	reader->device->nodes[reader->device->n_nodes - 1].optional =
		json_is_true(values[OPTIONAL]);
	return 0;
}

static int read_mount(struct exec_reader *reader, const json_t *json)
{
	enum { HOST, PATH, READ_ONLY, OPTIONAL, N };
	static const struct exec_field fields[N] = {
		[HOST] = { "host", KIND_STRING, true },
		[PATH] = { "path", KIND_STRING, false },
		[READ_ONLY] = { "read_only", KIND_BOOL, false },
		[OPTIONAL] = { "optional", KIND_BOOL, false },
	};
	const json_t *values[N];
	int r;

	r = exec_read_fields(reader, json, fields, N, values);
	if (r >= 0)
		r = check_paths(reader, values[HOST], values[PATH]);
	if (r < 0)
		return r;
	r = device_add_mount(reader->device, json_string_value(values[HOST]),
		string_or(values[PATH], NULL), json_is_true(values[READ_ONLY]));
	if (r < 0)
		return exec_out_of_memory(reader);
	reader->device->nodes[reader->device->n_nodes - 1].optional =
		json_is_true(values[OPTIONAL]);
	/* Libraries and the like, which many devices need. */
	device_share_nodes(reader->device, reader->device->n_nodes - 1);
	return 0;
}

static int read_cdi(struct exec_reader *reader, const json_t *json)
{
	int r;

	r = exec_check_value(reader, "cdi", json, KIND_STRING);
	if (r >= 0)
		r = exec_check_form(reader, "cdi", json_string_value(json), form_cdi_name);
	if (r < 0)
		return r;
	return strings_add(
		       &reader->device->cdi, json_string_value(json), json_string_length(json)) < 0
		? exec_out_of_memory(reader)
		: 0;
}

static int add_assignment(
	struct exec_reader *reader, struct strings *strings, const char *name, const char *value)
{
	_cleanup_free_ char *text = NULL;

	if (format_text(&text, "%s=%s", name, value) < 0)
		return exec_out_of_memory(reader);
	return strings_add(strings, text, strlen(text)) < 0 ? exec_out_of_memory(reader) : 0;
}

int exec_add_env(struct exec_reader *reader, const char *name, const char *value)
{
	return add_assignment(reader, &reader->device->env, name, value);
}

static int read_annotation(struct exec_reader *reader, const char *name, const char *value)
{
	return add_assignment(reader, &reader->device->annotations, name, value);
}

int exec_read_parts(struct exec_reader *reader, const json_t *const values[static EXEC_N_PARTS])
{
	int r;

	r = exec_read_list(reader, "nodes", values[EXEC_NODES], read_node);
	if (r >= 0)
		r = exec_read_list(reader, "mounts", values[EXEC_MOUNTS], read_mount);
	if (r >= 0)
		r = exec_read_map(
			reader, "env", values[EXEC_ENV], form_environment_name, exec_add_env);
	if (r >= 0)
		r = exec_read_map(reader, "annotations", values[EXEC_ANNOTATIONS],
			form_annotation_name, read_annotation);
	if (r >= 0)
		r = exec_read_list(reader, "cdi", values[EXEC_CDI], read_cdi);
	return r;
}
