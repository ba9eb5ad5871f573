/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the question and reads the answer of a program that runs at Allocate
 * (docs/exec-protocol.md), and decides whether the answer is valid. A device has the same members
 * as in the list that the program printed, so one reader serves for both. The answer to the kubelet
 * is made in allocation.c.
 */
#include "drivers/allocation/inquiry-documents.h"

#include "common/json-write.h"
#include "common/sealed.h"
#include "drivers/exec/exec-parts.h"
#include "drivers/model/capacity.h"
#include "drivers/model/parameter.h"

#define PROPERTY_PREFIX "property:"

/* --- what the program reads --- */

/* "name": and, if it is not the first member, a comma before it. */
static void write_name(struct json_writer *writer, const char *name, size_t n_before)
{
	if (n_before > 0)
		json_write_text(writer, ", ");
	json_write_string(writer, name);
	json_write_text(writer, ": ");
}

static void write_comma(struct json_writer *writer, size_t n_before)
{
	if (n_before > 0)
		json_write_text(writer, ", ");
}

static void write_bool(struct json_writer *writer, const char *name, bool value)
{
	write_name(writer, name, 1);
	json_write_text(writer, value ? "true" : "false");
}

static void write_nodes(struct json_writer *writer, const struct device *device, bool mounts)
{
	size_t n = 0;

	write_name(writer, mounts ? "mounts" : "nodes", 1);
	json_write_text(writer, "[");
	for (size_t i = 0; i < device->n_nodes; i++) {
		const struct device_node *node = &device->nodes[i];

		if (node->mount != mounts)
			continue;
		write_comma(writer, n++);
		json_write_text(writer, "{");
		write_name(writer, "host", 0);
		json_write_string(writer, node->host);
		write_name(writer, "path", 1);
		json_write_string(writer, node->path);
		if (mounts)
			write_bool(writer, "read_only", node->read_only);
		else {
			write_name(writer, "permissions", 1);
			json_write_string(writer, node->permissions);
		}
		write_bool(writer, "optional", node->optional);
		json_write_text(writer, "}");
	}
	json_write_text(writer, "]");
}

/* The length of NAME in "NAME=value". */
static void write_assignments(
	struct json_writer *writer, const char *name, const struct strings *strings)
{
	write_name(writer, name, 1);
	json_write_text(writer, "{");
	for (size_t i = 0; i < strings->count; i++) {
		const char *text = strings->items[i], *equals = strchr(text, '=');

		/* A name that was checked needs no escapes. */
		write_comma(writer, i);
		json_write_text(writer, "\"");
		json_write_bytes(writer, text, (size_t)(equals - text));
		json_write_text(writer, "\": ");
		json_write_string(writer, equals + 1);
	}
	json_write_text(writer, "}");
}

/* Writes the properties that its program printed, or else the variables that the driver found. */
static void write_properties(struct json_writer *writer, const struct device *device)
{
	bool printed = device_variable(device, "original_id") != NULL;
	size_t n = 0;

	write_name(writer, "properties", 1);
	json_write_text(writer, "{");
	for (size_t i = 0; i < device->n_variables; i++) {
		const char *variable = device->variables[i].name;
		const char *name = printed ? startswith(variable, PROPERTY_PREFIX) : variable;

		if (!name || startswith(variable, CAPACITY_VARIABLE))
			continue;
		write_name(writer, name, n++);
		json_write_string(writer, device->variables[i].value);
	}
	json_write_text(writer, "}");
}

/* What the container gets of the device's capacities; most devices have none. */
static void write_capacity(
	struct json_writer *writer, const struct amounts *amounts, const struct device *device)
{
	size_t n = 0;

	for (size_t i = 0; i < device->n_variables; i++) {
		const char *name = startswith(device->variables[i].name, CAPACITY_VARIABLE);
		int64_t amount = name ? amounts_get(amounts, device, name) : CAPACITY_UNSET;

		if (amount == CAPACITY_UNSET)
			continue;
		if (n == 0) {
			write_name(writer, "capacity", 1);
			json_write_text(writer, "{");
		}
		write_name(writer, name, n++);
		json_write_number(writer, (uint64_t)amount);
	}
	json_write_text(writer, n > 0 ? "}" : "");
}

/* One device; `given` are its replicas. */
static void write_device(struct json_writer *writer, const struct amounts *amounts,
	const struct snapshot *snapshot, const struct exec_given *given, size_t n_given)
{
	const struct device *device = snapshot->units[given->unit].device;
	char buffer[OFFERED_ID_MAX + 1];

	json_write_text(writer, "{");
	write_name(writer, "id", 0);
	json_write_string(writer, device_variable(device, "original_id") ?: device->id);
	write_name(writer, "device_id", 1);
	json_write_string(writer, device->id);
	write_name(writer, "offered_ids", 1);
	json_write_text(writer, "[");
	for (size_t i = 0; i < n_given; i++) {
		write_comma(writer, i);
		json_write_string(writer,
			snapshot_offered_id(snapshot, given[i].unit, given[i].replica, buffer));
	}
	json_write_text(writer, "]");
	write_name(writer, "numa", 1);
	json_write_text(writer, "[");
	for (size_t i = 0; i < device->n_numa; i++) {
		write_comma(writer, i);
		json_write_number(writer, (uint64_t)device->numa[i]);
	}
	json_write_text(writer, "]");
	write_nodes(writer, device, false);
	write_nodes(writer, device, true);
	write_assignments(writer, "env", &device->env);
	write_assignments(writer, "annotations", &device->annotations);
	write_name(writer, "cdi", 1);
	json_write_text(writer, "[");
	for (size_t i = 0; i < device->cdi.count; i++) {
		write_comma(writer, i);
		json_write_string(writer, device->cdi.items[i]);
	}
	json_write_text(writer, "]");
	write_properties(writer, device);
	write_capacity(writer, amounts, device);
	json_write_text(writer, "}");
}

/* A parameter that only claims can set is absent from a question without a claim. */
static void write_parameters(struct json_writer *writer, const struct declaration *declaration,
	const struct strings *parameters)
{
	size_t n = 0;

	write_name(writer, "parameters", 1);
	json_write_text(writer, "{");
	for (size_t i = 0; i < declaration->parameters.count; i++) {
		const struct declared_parameter *parameter =
			groups_get(&declaration->parameters, i);
		const char *value =
			parameter_value(&declaration->parameters, parameters, parameter->name);

		if (!value)
			continue;
		write_name(writer, parameter->name, n++);
		json_write_string(writer, value);
	}
	json_write_text(writer, "}");
}

static void write_request(struct json_writer *writer, const struct declaration *declaration,
	const struct claim_values *values, const struct snapshot *snapshot,
	const struct exec_given *given, size_t n_given)
{
	size_t n_same;

	json_write_text(writer, "{");
	write_name(writer, "version", 0);
	json_write_number(writer, EXEC_PROTOCOL_VERSION);
	write_name(writer, "resource", 1);
	json_write_string(writer, declaration->name);
	if (declaration->parameters.count > 0)
		write_parameters(writer, declaration, values ? values->parameters : NULL);
	write_name(writer, "devices", 1);
	json_write_text(writer, "[");
	for (size_t i = 0; i < n_given; i += n_same) {
		for (n_same = 1; i + n_same < n_given; n_same++)
			if (given[i + n_same].unit != given[i].unit)
				break;
		write_comma(writer, i);
		write_device(writer, values ? values->amounts : NULL, snapshot, given + i, n_same);
	}
	json_write_text(writer, "]}\n");
}

int exec_request_new(const struct declaration *declaration, const struct claim_values *values,
	const struct snapshot *snapshot, const struct exec_given *given, size_t n_given)
{
	_cleanup_close_ int fd = sealed_begin("allocate");
	struct json_writer writer;
	int r;

	if (fd < 0)
		return fd;
	json_writer_init(&writer, fd);
	write_request(&writer, declaration, values, snapshot, given, n_given);
	r = json_writer_finish(&writer);
	if (r >= 0)
		r = sealed_end(fd);
	if (r >= 0)
		r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
	return r < 0 ? r : TAKE_FD(fd);
}

/* --- what it answers --- */

static int read_root(struct exec_reader *reader, const json_t *root)
{
	enum { VERSION = EXEC_N_PARTS, N };
	static const struct exec_field fields[N] = {
		EXEC_PART_FIELDS,
		[VERSION] = { "version", KIND_INTEGER, true },
	};
	const json_t *values[N];
	int r;

	r = exec_check_version(reader, root);
	if (r >= 0)
		r = exec_read_fields(reader, root, fields, N, values);
	if (r < 0)
		return r;
	return exec_read_parts(reader, values);
}

int exec_answer_read(const char *text, size_t size, struct device **ret, struct error *error)
{
	_cleanup_device_ struct device *answer = NULL;
	struct exec_reader reader = { .error = error };
	json_auto_t *root = NULL;
	int r;

	r = exec_parse(text, size, &root, error);
	if (r < 0)
		return r;
	if (device_new("answer", &answer) < 0)
		return exec_out_of_memory(&reader);
	reader.device = answer;
	r = read_root(&reader, root);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(answer);
	return 0;
}
