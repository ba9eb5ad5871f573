/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three passes, each over what the one before let through: the shape of the text (depth, number of
 * values), JSON, and the fields by tables. Errors are put together on the way out, from the field
 * to the device.
 */
#include "drivers/exec-document.h"

#include "common/text.h"
#include "drivers/exec-fields.h"
#include "drivers/form.h"

#define PROTOCOL_VERSION 1
/* { "devices": [ { "nodes": [ { is as deep as it gets. */
#define DEPTH_MAX     5
#define NUMA_NODE_MAX 65535
#define HASH_SIZE     7

struct exec_list *exec_list_ref(struct exec_list *list)
{
	list->references++;
	return list;
}

struct exec_list *exec_list_unref(struct exec_list *list)
{
	if (!list || --list->references > 0)
		return NULL;
	for (size_t i = 0; i < list->n_devices; i++)
		(void)device_unref(list->devices[i]);
	free(list->devices);
	free(list);
	return NULL;
}

bool exec_list_equal(const struct exec_list *a, const struct exec_list *b)
{
	if (a->n_devices != b->n_devices)
		return false;
	for (size_t i = 0; i < a->n_devices; i++)
		if (!device_equal(a->devices[i], b->devices[i]))
			return false;
	return true;
}

/* --- the shape --- */

/* A library that reads JSON makes much of little: "[[],[],...]" is told from its commas. */
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
				"line %zu: lists and objects in each other, deeper than the protocol "
				"goes",
				line);
		if (values > EXEC_VALUES_MAX)
			return error_set(error, -EBADMSG, "line %zu: more than %d values", line,
				EXEC_VALUES_MAX);
	}
	return 0;
}

/* --- parts of a device --- */

static const char *string_or(const json_t *value, const char *other)
{
	return value ? json_string_value(value) : other;
}

/* Paths of a node or mount: that in the container may be absent. */
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
	return form_permissions(value, error);
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
	permissions = string_or(values[PERMISSIONS], "rw");
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

static int read_numa(struct exec_reader *reader, const json_t *json)
{
	json_int_t numa = json_integer_value(json);

	if (!json_is_integer(json) || numa < -1 || numa > NUMA_NODE_MAX)
		return error_set(reader->error, -EBADMSG,
			"must be the number of a NUMA node, from -1 (none) to %d", NUMA_NODE_MAX);
	return device_add_numa(reader->device, (int)numa) < 0 ? exec_out_of_memory(reader) : 0;
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

	if (asprintf(&text, "%s=%s", name, value) < 0) {
		text = NULL;
		return exec_out_of_memory(reader);
	}
	return strings_add(strings, text, strlen(text)) < 0 ? exec_out_of_memory(reader) : 0;
}

static int read_env(struct exec_reader *reader, const char *name, const char *value)
{
	return add_assignment(reader, &reader->device->env, name, value);
}

static int read_annotation(struct exec_reader *reader, const char *name, const char *value)
{
	return add_assignment(reader, &reader->device->annotations, name, value);
}

static bool has_env(const struct device *device, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < device->env.count; i++)
		if (strncmp(device->env.items[i], name, length) == 0 &&
			device->env.items[i][length] == '=')
			return true;
	return false;
}

static int read_property(struct exec_reader *reader, const char *name, const char *value)
{
	_cleanup_free_ char *variable = NULL, *hashed = NULL;
	struct device *device = reader->device;
	int r = 0;

	if (asprintf(&variable, "property:%s", name) < 0) {
		variable = NULL;
		return exec_out_of_memory(reader);
	}
	if (device_add_variable(device, variable, value) < 0)
		return exec_out_of_memory(reader);
	/* What "env" says is meant as it is. */
	if (reader->properties != PROPERTIES_VARIABLES && !has_env(device, name))
		r = read_env(reader, name, value);
	if (r < 0 || reader->properties != PROPERTIES_AKRI)
		return r;
	if (asprintf(&hashed, "%s_%s", name, device_variable(device, "hash")) < 0) {
		hashed = NULL;
		return exec_out_of_memory(reader);
	}
	return has_env(device, hashed) ? 0 : read_env(reader, hashed, value);
}

/* --- devices --- */

static int make_device(struct exec_reader *reader, const char *original)
{
	uint64_t hash = hash_string(original);
	char id[DEVICE_ID_MAX + 1], digits[HASH_SIZE];
	int r;

	if (!*original)
		return error_set(reader->error, -EBADMSG, "\"id\" must not be empty");
	device_id_make(original, id);
	(void)snprintf(digits, sizeof(digits), "%06X",
		(unsigned)((hash ^ hash >> 24 ^ hash >> 48) & 0xffffff));
	r = device_new(id, &reader->device);
	if (r >= 0)
		r = device_add_variable(reader->device, "original_id", original);
	if (r >= 0)
		r = device_add_variable(reader->device, "hash", digits);
	return r < 0 ? exec_out_of_memory(reader) : 0;
}

static int set_health(struct exec_reader *reader, const json_t *healthy, const json_t *reason)
{
	const char *text = string_or(reason, "");

	if (!healthy || json_is_true(healthy))
		return 0;
	if (!*text)
		text = "its program says that it is not healthy, and not why";
	return device_set_problem(reader->device, "%s", text) < 0 ? exec_out_of_memory(reader) : 0;
}

static int read_device_fields(struct exec_reader *reader, const json_t *json)
{
	enum { ID, HEALTHY, REASON, NUMA, NODES, MOUNTS, ENV, ANNOTATIONS, CDI, PROPERTIES, N };
	static const struct exec_field fields[N] = {
		[ID] = { "id", KIND_STRING, true },
		[HEALTHY] = { "healthy", KIND_BOOL, false },
		[REASON] = { "reason", KIND_STRING, false },
		[NUMA] = { "numa", KIND_LIST, false },
		[NODES] = { "nodes", KIND_LIST, false },
		[MOUNTS] = { "mounts", KIND_LIST, false },
		[ENV] = { "env", KIND_OBJECT, false },
		[ANNOTATIONS] = { "annotations", KIND_OBJECT, false },
		[CDI] = { "cdi", KIND_LIST, false },
		[PROPERTIES] = { "properties", KIND_OBJECT, false },
	};
	const json_t *values[N];
	int r;

	r = exec_read_fields(reader, json, fields, N, values);
	if (r >= 0)
		r = make_device(reader, json_string_value(values[ID]));
	if (r >= 0)
		r = set_health(reader, values[HEALTHY], values[REASON]);
	if (r >= 0)
		r = exec_read_list(reader, "numa", values[NUMA], read_numa);
	if (r >= 0)
		r = exec_read_list(reader, "nodes", values[NODES], read_node);
	if (r >= 0)
		r = exec_read_list(reader, "mounts", values[MOUNTS], read_mount);
	if (r >= 0)
		r = exec_read_map(reader, "env", values[ENV], form_environment_name, read_env);
	if (r >= 0)
		r = exec_read_map(reader, "annotations", values[ANNOTATIONS], form_annotation_name,
			read_annotation);
	if (r >= 0)
		r = exec_read_list(reader, "cdi", values[CDI], read_cdi);
	if (r >= 0)
		r = exec_read_map(reader, "properties", values[PROPERTIES], form_environment_name,
			read_property);
	return r;
}

static int read_devices(struct exec_reader *reader, const json_t *devices, struct exec_list *list)
{
	int r;

	list->devices = calloc(json_array_size(devices) + 1, sizeof(list->devices[0]));
	if (!list->devices)
		return exec_out_of_memory(reader);
	for (size_t i = 0; i < json_array_size(devices); i++) {
		reader->device = NULL;
		r = read_device_fields(reader, json_array_get(devices, i));
		if (reader->device)
			list->devices[list->n_devices++] = reader->device;
		if (r < 0) {
			error_prefix(reader->error, "devices[%zu]", i);
			return r;
		}
	}
	return 0;
}

static int read_root(struct exec_reader *reader, const json_t *root, struct exec_list *list)
{
	enum { VERSION, DEVICES, N };
	static const struct exec_field fields[N] = {
		[VERSION] = { "version", KIND_INTEGER, true },
		[DEVICES] = { "devices", KIND_LIST, true },
	};
	const json_t *values[N], *version = json_object_get(root, "version");
	int r;

	/* First of all: of another version nothing else can be told. */
	if (json_is_integer(version) && json_integer_value(version) != PROTOCOL_VERSION)
		return error_set(reader->error, -EBADMSG,
			"version %lld of the protocol is not known, only %d is",
			(long long)json_integer_value(version), PROTOCOL_VERSION);
	r = exec_read_fields(reader, root, fields, N, values);
	return r < 0 ? r : read_devices(reader, values[DEVICES], list);
}

int exec_document_read(const char *text, size_t size, enum exec_properties properties,
	struct exec_list **ret, struct error *error)
{
	_cleanup_(exec_list_unrefp) struct exec_list *list = NULL;
	struct exec_reader reader = { .properties = properties, .error = error };
	json_error_t json_error;
	json_t *root;
	int r;

	r = check_shape(text, size, error);
	if (r < 0)
		return r;
	list = calloc(1, sizeof(*list));
	if (!list)
		return exec_out_of_memory(&reader);
	list->references = 1;
	root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &json_error);
	if (!root) {
		(void)error_set(error, -EBADMSG, "line %d, column %d is not JSON: %s",
			json_error.line, json_error.column, json_error.text);
		text_sanitize(error->message);
		return -EBADMSG;
	}
	r = read_root(&reader, root, list);
	json_decref(root);
	if (r < 0) {
		text_sanitize(error->message);
		return r;
	}
	*ret = TAKE_PTR(list);
	return 0;
}
