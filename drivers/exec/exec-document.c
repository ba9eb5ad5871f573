/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the list that a discovery program printed is accepted, and makes devices of it.
 * exec-fields.c has the limits of the text, exec-parts.c the members that an answer at Allocate may
 * have, too. Errors get their context on the way out, from the field to the device.
 */
#include "drivers/exec/exec-document.h"

#include "drivers/exec/exec-fields.h"
#include "drivers/exec/exec-parts.h"
#include "drivers/model/capacity.h"
#include "drivers/model/dra-attribute.h"
#include "drivers/model/form.h"
#include "drivers/model/quantity.h"

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

/* --- parts of a device --- */

static int read_numa(struct exec_reader *reader, const json_t *json)
{
	json_int_t numa = json_integer_value(json);

	if (!json_is_integer(json) || numa < -1 || numa > NUMA_NODE_MAX)
		return error_set(reader->error, -EBADMSG,
			"must be the number of a NUMA node, from -1 (none) to %d", NUMA_NODE_MAX);
	return device_add_numa(reader->device, (int)numa) < 0 ? exec_out_of_memory(reader) : 0;
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

	if (format_text(&variable, "property:%s", name) < 0)
		return exec_out_of_memory(reader);
	if (device_add_variable(device, variable, value) < 0)
		return exec_out_of_memory(reader);
	/* Values of "env" are not templates. */
	if (reader->properties != PROPERTIES_VARIABLES && !has_env(device, name))
		r = exec_add_env(reader, name, value);
	if (r < 0 || reader->properties != PROPERTIES_AKRI)
		return r;
	if (format_text(&hashed, "%s_%s", name, device_variable(device, "hash")) < 0)
		return exec_out_of_memory(reader);
	return has_env(device, hashed) ? 0 : exec_add_env(reader, hashed, value);
}

static int read_capacity(struct exec_reader *reader, const char *name, const char *value)
{
	_cleanup_free_ char *variable = NULL;
	int r;

	r = exec_check_form(reader, name, value, form_quantity);
	if (r < 0)
		return r;
	if (format_text(&variable, CAPACITY_PRINTED "%s", name) < 0 ||
		device_add_variable(reader->device, variable, value) < 0)
		return exec_out_of_memory(reader);
	return 0;
}

static int read_capacities(struct exec_reader *reader, const json_t *capacity)
{
	if (json_object_size(capacity) > CAPACITIES_MAX)
		return error_set(reader->error, -EBADMSG,
			"\"capacity\" has %zu members, the maximum is %d",
			json_object_size(capacity), CAPACITIES_MAX);
	return exec_read_map(reader, "capacity", capacity, form_attribute_name, read_capacity);
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
	const char *text = reason ? json_string_value(reason) : "";

	if (!healthy || json_is_true(healthy))
		return 0;
	if (!*text)
		text = "its program reports it as unhealthy without a reason";
	return device_set_problem(reader->device, "%s", text) < 0 ? exec_out_of_memory(reader) : 0;
}

static int read_device_fields(struct exec_reader *reader, const json_t *json)
{
	enum { ID = EXEC_N_PARTS, HEALTHY, REASON, NUMA, PROPERTIES, CAPACITY, N };
	static const struct exec_field fields[N] = {
		EXEC_PART_FIELDS,
		[ID] = { "id", KIND_STRING, true },
		[HEALTHY] = { "healthy", KIND_BOOL, false },
		[REASON] = { "reason", KIND_STRING, false },
		[NUMA] = { "numa", KIND_LIST, false },
		[PROPERTIES] = { "properties", KIND_OBJECT, false },
		[CAPACITY] = { "capacity", KIND_OBJECT, false },
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
		r = exec_read_parts(reader, values);
	if (r >= 0)
		r = exec_read_map(reader, "properties", values[PROPERTIES], form_environment_name,
			read_property);
	return r < 0 ? r : read_capacities(reader, values[CAPACITY]);
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
	const json_t *values[N];
	int r;

	r = exec_check_version(reader, root);
	if (r >= 0)
		r = exec_read_fields(reader, root, fields, N, values);
	return r < 0 ? r : read_devices(reader, values[DEVICES], list);
}

int exec_document_read(const char *text, size_t size, enum exec_properties properties,
	struct exec_list **ret, struct error *error)
{
	_cleanup_(exec_list_unrefp) struct exec_list *list = NULL;
	struct exec_reader reader = { .properties = properties, .error = error };
	json_auto_t *root = NULL;
	int r;

	r = exec_parse(text, size, &root, error);
	if (r < 0)
		return r;
	list = calloc(1, sizeof(*list));
	if (!list)
		return exec_out_of_memory(&reader);
	list->references = 1;
	r = read_root(&reader, root, list);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(list);
	return 0;
}
