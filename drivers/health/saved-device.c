/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves a device that is in a container, and decides whether a saved one can be trusted. The file
 * was written by another process: a device with any member that no scan would make is dropped.
 */
#include "drivers/health/saved-device.h"

#include "drivers/host/sysfs.h"
#include "drivers/model/device-info.h"
#include "drivers/model/dra-attribute.h"
#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"

/* More than any host has. */
#define NUMA_MAX 65535

bool saved_device_is_plain(const struct device *device)
{
	for (size_t i = 0; i < device->n_nodes; i++)
		if (device->nodes[i].mount || device->nodes[i].optional)
			return false;
	return device->env.count == 0 && device->annotations.count == 0 && device->cdi.count == 0 &&
		device->n_distances == 0;
}

/* --- writing --- */

static void write_member(struct json_writer *writer, const char *key, const char *value)
{
	json_write_text(writer, key);
	json_write_string(writer, value);
}

void saved_device_write(struct json_writer *writer, const struct device *device)
{
	json_write_text(writer, "{\"numa\":[");
	for (size_t i = 0; i < device->n_numa; i++) {
		json_write_text(writer, i > 0 ? "," : "");
		json_write_number(writer, (uint64_t)device->numa[i]);
	}
	json_write_text(writer, "],\"claims\":[");
	for (size_t i = 0; i < device->claims.count; i++)
		write_member(writer, i > 0 ? "," : "", device->claims.items[i]);
	json_write_text(writer, "],\"nodes\":[");
	for (size_t i = 0; i < device->n_nodes; i++) {
		const struct device_node *node = &device->nodes[i];

		write_member(writer, i > 0 ? ",{\"host\":" : "{\"host\":", node->host);
		write_member(writer, ",\"path\":", node->path);
		write_member(writer, ",\"permissions\":", node->permissions);
		json_write_text(writer, node->shared ? ",\"shared\":true}" : ",\"shared\":false}");
	}
	json_write_text(writer, "],\"variables\":[");
	for (size_t i = 0; i < device->n_variables; i++) {
		write_member(
			writer, i > 0 ? ",{\"name\":" : "{\"name\":", device->variables[i].name);
		write_member(writer, ",\"value\":", device->variables[i].value);
		json_write_text(writer, "}");
	}
	json_write_text(writer, "],\"attributes\":[");
	for (size_t i = 0; i < device->attributes.count; i++)
		write_member(writer, i > 0 ? "," : "", device->attributes.items[i]);
	json_write_text(writer, "]");
	if (device->anchor)
		write_member(writer, ",\"anchor\":", device->anchor);
	if (device->info)
		write_member(writer, ",\"info\":", device->info);
	if (device->problem)
		write_member(writer, ",\"problem\":", device->problem);
	if (device->lacks_node)
		json_write_text(writer, ",\"lacks_node\":true");
	json_write_text(writer, "}");
}

/* --- reading --- */

static int read_numa(const json_t *list, struct device *device)
{
	json_t *value;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, value)
	{
		json_int_t number = json_integer_value(value);

		if (!json_is_integer(value) || number < 0 || number > NUMA_MAX)
			return -EBADMSG;
		r = device_add_numa(device, (int)number);
		if (r < 0)
			return r;
	}
	return r;
}

/* Attributes may have been written by an earlier version, which had none. */
static int read_attributes(const json_t *list, struct device *device)
{
	json_t *value;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, value)
	{
		const char *attribute = json_string_value(value);
		char name[ATTRIBUTE_NAME_MAX + 1];

		if (!attribute || !sysfs_is_text(attribute) || !strchr(attribute, '='))
			return -EBADMSG;
		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(attribute, "="), attribute);
		if (!attribute_name_is_valid(name))
			return -EBADMSG;
		r = strings_add(&device->attributes, attribute, strlen(attribute));
		if (r < 0)
			return r;
	}
	return r;
}

static int read_claims(const json_t *list, struct device *device)
{
	json_t *value;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, value)
	{
		const char *claim = json_string_value(value);

		if (!claim || !sysfs_is_text(claim))
			return -EBADMSG;
		r = device_add_claim(device, claim);
		if (r < 0)
			return r;
	}
	return r;
}

static bool node_is_valid(const char *host, const char *path, const char *permissions)
{
	struct error error;

	return sysfs_is_text(host) && sysfs_is_text(path) && *permissions &&
		form_absolute_path(host, &error) >= 0 && form_absolute_path(path, &error) >= 0 &&
		node_permissions_check(permissions, &error) >= 0;
}

static int read_nodes(json_t *list, struct device *device)
{
	json_t *value;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, value)
	{
		const char *host, *path, *permissions;
		int shared;

		if (json_unpack(value, "{s:s, s:s, s:s, s:b}", "host", &host, "path", &path,
			    "permissions", &permissions, "shared", &shared) < 0 ||
			!node_is_valid(host, path, permissions))
			return -EBADMSG;
		r = device_add_node(device, host, path, permissions);
		if (r < 0)
			return r;
		device->nodes[device->n_nodes - 1].shared = shared;
	}
	return r;
}

static int read_variables(json_t *list, struct device *device)
{
	json_t *value;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, value)
	{
		const char *name, *text;

		if (json_unpack(value, "{s:s, s:s}", "name", &name, "value", &text) < 0 ||
			!sysfs_is_text(name) || !sysfs_is_text(text))
			return -EBADMSG;
		r = device_add_variable(device, name, text);
		if (r < 0)
			return r;
	}
	return r;
}

static int read_info(const char *text, struct device *device)
{
	json_t *info = json_loads(text, 0, NULL);
	int r = device_info_is_valid(info) ? 0 : -EBADMSG;

	json_decref(info);
	if (r < 0)
		return r;
	device->info = strdup(text);
	return device->info ? 0 : -ENOMEM;
}

int saved_device_read(const char *id, const json_t *json, struct device **ret)
{
	json_t *numa, *claims, *nodes, *variables, *attributes = NULL;
	const char *anchor = NULL, *info = NULL, *problem = NULL;
	_cleanup_device_ struct device *device = NULL;
	char made[DEVICE_ID_MAX + 1];
	struct error error;
	int lacks_node = 0, r;

	device_id_make(id, made);
	if (!streq(id, made) ||
		json_unpack((json_t *)json, "{s?:s, s?:s, s?:s, s?:b, s?:o, s:o, s:o, s:o, s:o}",
			"anchor", &anchor, "info", &info, "problem", &problem, "lacks_node",
			&lacks_node, "attributes", &attributes, "numa", &numa, "claims", &claims,
			"nodes", &nodes, "variables", &variables) < 0 ||
		(anchor && form_absolute_path(anchor, &error) < 0) ||
		(problem && !sysfs_is_text(problem)))
		return -EBADMSG;
	r = device_new(id, &device);
	if (r >= 0)
		r = device_set_mobile(device, anchor);
	if (r >= 0)
		r = read_numa(numa, device);
	if (r >= 0)
		r = read_claims(claims, device);
	if (r >= 0)
		r = read_nodes(nodes, device);
	if (r >= 0)
		r = read_variables(variables, device);
	if (r >= 0)
		r = read_attributes(attributes, device);
	if (r >= 0 && info)
		r = read_info(info, device);
	if (r >= 0 && problem)
		r = device_set_problem(device, "%s", problem);
	device->lacks_node = lacks_node;
	if (r < 0)
		return r;
	*ret = TAKE_PTR(device);
	return 0;
}
