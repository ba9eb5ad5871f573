/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device without edits is an error to readers of CDI, so there is none, and
 * allocation_build_cdi() does not name it. Types and numbers of device nodes are left to the
 * runtime, which looks when it makes the container.
 */
#include "drivers/cdi.h"

#include "drivers/allocation-build.h"

#define HASH_DIGITS 12

static bool is_letter(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool is_alphanumeric(char c)
{
	return is_letter(c) || (c >= '0' && c <= '9');
}

static bool is_name_character(char c, const char *others)
{
	return is_alphanumeric(c) || (c != '\0' && strchr(others, c));
}

/* --- names --- */

static bool name_is_valid(const char *name, size_t length, const char *others)
{
	if (length == 0 || !is_alphanumeric(name[0]) || !is_alphanumeric(name[length - 1]))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!is_name_character(name[i], others))
			return false;
	return true;
}

bool cdi_device_name_is_valid(const char *name)
{
	return name_is_valid(name, strlen(name), "_-.:");
}

bool cdi_kind_is_valid(const char *kind)
{
	const char *slash = strchr(kind, '/');

	return slash && is_letter(kind[0]) && is_letter(slash[1]) &&
		name_is_valid(kind, (size_t)(slash - kind), "_-.") &&
		name_is_valid(slash + 1, strlen(slash + 1), "_-.");
}

static void append_hash(char *text, const char *original)
{
	uint64_t hash = hash_string(original);

	(void)sprintf(text + strlen(text), "-%0*llx", HASH_DIGITS,
		(unsigned long long)((hash ^ hash >> 48) & 0xffffffffffffULL));
}

void cdi_device_name(const char *id, char ret_name[static CDI_DEVICE_NAME_MAX + 1])
{
	size_t length = 0;

	if (cdi_device_name_is_valid(id) && strlen(id) <= DEVICE_ID_MAX) {
		(void)snprintf(ret_name, CDI_DEVICE_NAME_MAX + 1, "%s", id);
		return;
	}
	if (!is_alphanumeric(id[0]))
		ret_name[length++] = 'd';
	for (const char *p = id; *p && length < DEVICE_ID_MAX; p++)
		ret_name[length++] = is_name_character(*p, "_-.:") ? *p : '-';
	ret_name[length] = '\0';
	append_hash(ret_name, id);
}

void cdi_annotation_key(const char *kind, char ret_key[static CDI_ANNOTATION_KEY_MAX + 1])
{
	const size_t prefix = sizeof(CDI_ANNOTATION_PREFIX) - 1;
	const size_t room = CDI_ANNOTATION_KEY_MAX - prefix;
	size_t length = strlen(kind);
	bool fits = length <= room;

	if (!fits)
		length = room - HASH_DIGITS - 1;
	memcpy(ret_key, CDI_ANNOTATION_PREFIX, prefix);
	memcpy(ret_key + prefix, kind, length);
	ret_key[prefix + length] = '\0';
	*strchrnul(ret_key + prefix, '/') = '_';
	if (!fits)
		append_hash(ret_key, kind);
}

/* --- the document --- */

static bool any_node_moves(const json_t *device)
{
	const json_t *edits = json_object_get(device, "containerEdits");
	const json_t *nodes = json_object_get(edits, "deviceNodes");

	for (size_t i = 0; i < json_array_size(nodes); i++)
		if (json_object_get(json_array_get(nodes, i), "hostPath"))
			return true;
	return false;
}

const char *cdi_version(const json_t *spec)
{
	const json_t *devices = json_object_get(spec, "devices");
	const char *kind = json_string_value(json_object_get(spec, "kind")) ?: "";
	const char *class = strchrnul(kind, '/');

	if (strchr(class, '.'))
		return "0.6.0";
	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *device = json_array_get(devices, i);
		const char *name = json_string_value(json_object_get(device, "name")) ?: "";

		if (!is_letter(name[0]) || any_node_moves(device))
			return "0.5.0";
	}
	return "0.3.0";
}

static json_t *node_json(const struct device_node *node)
{
	if (node->mount)
		return json_pack("{s:s, s:s, s:[s, s, s]}", "hostPath", node->host, "containerPath",
			node->path, "options", "rbind", "rprivate", node->read_only ? "ro" : "rw");
	return json_pack("{s:s, s:s*, s:s}", "path", node->path, "hostPath",
		streq(node->host, node->path) ? NULL : node->host, "permissions",
		node->permissions);
}

/* Adds an array to the edits unless it is empty. Takes the array. */
static int add_array(json_t *edits, const char *key, json_t *array)
{
	int r = 0;

	if (json_array_size(array) > 0)
		r = json_object_set(edits, key, array);
	json_decref(array);
	return r;
}

/* Text that is not UTF-8 is NULL here, as is everything without memory. */
static json_t *edits_json(const struct allocation *allocation)
{
	json_t *edits = json_object(), *nodes = json_array(), *mounts = json_array(),
	       *env = json_array();
	int r = 0;

	for (size_t i = 0; i < allocation->n_nodes; i++)
		r |= json_array_append_new(allocation->nodes[i].mount ? mounts : nodes,
			node_json(&allocation->nodes[i]));
	for (size_t i = 0; i < allocation->n_env; i++)
		r |= json_array_append_new(env,
			json_sprintf("%s=%s", allocation->env[i].name, allocation->env[i].value));
	r |= add_array(edits, "env", env);
	r |= add_array(edits, "deviceNodes", nodes);
	r |= add_array(edits, "mounts", mounts);
	if (r < 0) {
		json_decref(edits);
		return NULL;
	}
	return edits;
}

static int add_device(json_t *devices, const struct declaration *declaration,
	const struct snapshot *snapshot, const char *root, size_t unit, struct strings *left_out)
{
	const char *id = snapshot->units[unit].device->id;
	_cleanup_allocation_ struct allocation allocation = { 0 };
	char name[CDI_DEVICE_NAME_MAX + 1];
	json_t *edits = NULL;
	struct error error;
	int r;

	r = allocation_build_device(declaration, snapshot, root, unit, &allocation, &error);
	if (r == -ENOMEM)
		return r;
	if (r >= 0 && allocation_is_empty(&allocation))
		return 0;
	if (r >= 0)
		edits = edits_json(&allocation);
	if (!edits)
		return strings_add(left_out, id, strlen(id));
	cdi_device_name(id, name);
	return json_array_append_new(
		       devices, json_pack("{s:s, s:o}", "name", name, "containerEdits", edits)) < 0
		? -ENOMEM
		: 0;
}

int cdi_spec_build(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, json_t **ret_spec, struct strings *left_out)
{
	json_t *devices = json_array(), *spec;
	int r = devices ? 0 : -ENOMEM;

	for (size_t i = 0; i < snapshot->n_units && r >= 0; i++)
		if (snapshot->units[i].present)
			r = add_device(devices, declaration, snapshot, root, i, left_out);
	if (r < 0 || json_array_size(devices) == 0) {
		json_decref(devices);
		if (r >= 0)
			*ret_spec = NULL;
		return r;
	}
	spec = json_pack("{s:s, s:o}", "kind", declaration->cdi_spec.kind, "devices", devices);
	if (!spec || json_object_set_new(spec, "cdiVersion", json_string(cdi_version(spec))) < 0) {
		json_decref(spec);
		return -ENOMEM;
	}
	*ret_spec = spec;
	return 0;
}
