/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what the CDI file of a resource contains for each device, and what remains for the answer
 * to Allocate. A device without edits is an error to readers of CDI, so it is left out, and
 * allocation_build_cdi() does not name it. Types and numbers of device nodes are left to the
 * runtime, which reads them when it creates the container. Everything is first built as if there
 * were no file, so that the same errors occur with and without one.
 */
#include "drivers/allocation/cdi.h"

#include "common/json-read.h"
#include "drivers/allocation/allocation-build.h"

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

/* What is left of the longest prefix must end as a name ends, see name_is_valid(). */
static size_t fit(const char *text, size_t length, size_t room)
{
	length = MIN_OF(length, room);
	while (length > 0 && !is_alphanumeric(text[length - 1]))
		length--;
	return length;
}

/* The resource's own kind if `number` is 0 and CDI allows it. */
static void make_kind(const char *resource, unsigned number, char ret_kind[static CDI_KIND_MAX + 1])
{
	const char *slash = strchrnul(resource, '/'), *type = *slash ? slash + 1 : slash;
	const char *letter = is_letter(type[0]) ? "" : "d";
	char hash[1 + HASH_DIGITS + 1] = "", digits[16] = "";
	size_t vendor = (size_t)(slash - resource),
	       room = CDI_KIND_MAX - 1 - strlen(CDI_KIND_PREFIX);

	if (number > 1)
		(void)snprintf(digits, sizeof(digits), "-%u", number);
	if (number > 0 || *letter || vendor + strlen(type) > room)
		append_hash(hash, resource);
	room -= strlen(letter) + strlen(type) + strlen(hash) + strlen(digits);
	(void)snprintf(ret_kind, CDI_KIND_MAX + 1, CDI_KIND_PREFIX "%.*s/%s%s%s%s",
		(int)fit(resource, vendor, room), resource, letter, type, hash, digits);
}

int cdi_kind_make(const char *resource, bool (*is_taken)(const char *kind, void *userdata),
	void *userdata, char **ret_kind)
{
	char kind[CDI_KIND_MAX + 1];
	unsigned number = 0;

	do
		make_kind(resource, number++, kind);
	while (is_taken(kind, userdata));
	*ret_kind = strdup(kind);
	return *ret_kind ? 0 : -ENOMEM;
}

char *cdi_file_name(const char *kind)
{
	const char *slash = strchrnul(kind, '/');
	char *name;

	if (format_text(&name, CDI_FILE_PREFIX "%.*s=%s.json", (int)(slash - kind), kind,
		    *slash ? slash + 1 : slash) < 0)
		return NULL;
	return name;
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
	const char *kind = text_of(spec, "kind");
	const char *class = strchrnul(kind, '/');

	if (strchr(class, '.'))
		return "0.6.0";
	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *device = json_array_get(devices, i);
		const char *name = text_of(device, "name");

		if (!is_letter(name[0]) || any_node_moves(device))
			return "0.5.0";
	}
	return "0.3.0";
}

static int set_number(json_t *object, const char *key, int64_t value)
{
	return value == CDI_UNSET ? 0 : json_object_set_new(object, key, json_integer(value));
}

static json_t *node_json(const struct cdi_spec *spec, const struct device_node *node)
{
	json_t *json;

	if (node->mount)
		return json_pack("{s:s, s:s, s:[s, s, s]}", "hostPath", node->host, "containerPath",
			node->path, "options", "rbind", "rprivate", node->read_only ? "ro" : "rw");
	json = json_pack("{s:s, s:s*, s:s}", "path", node->path, "hostPath",
		streq(node->host, node->path) ? NULL : node->host, "permissions",
		node->permissions);
	if (json &&
		(set_number(json, "uid", spec->uid) < 0 || set_number(json, "gid", spec->gid) < 0 ||
			set_number(json, "fileMode", cdi_file_mode(spec)) < 0)) {
		json_decref(json);
		return NULL;
	}
	return json;
}

int64_t cdi_file_mode(const struct cdi_spec *spec)
{
	return spec->mode ? strtol(spec->mode, NULL, 8) : CDI_UNSET;
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

json_t *cdi_edits(const struct cdi_spec *spec, const struct allocation *allocation)
{
	json_t *edits = json_object(), *nodes = json_array(), *mounts = json_array(),
	       *env = json_array();
	int r = 0;

	for (size_t i = 0; i < allocation->n_nodes; i++)
		r |= json_array_append_new(allocation->nodes[i].mount ? mounts : nodes,
			node_json(spec, &allocation->nodes[i]));
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
	const char *id = snapshot_existing(snapshot, unit)->id;
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
		edits = cdi_edits(&declaration->cdi_spec, &allocation);
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
		if (snapshot_existing(snapshot, i))
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

/* --- the allocation beside it --- */

int allocation_build_device(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, size_t unit, struct allocation *ret, struct error *error)
{
	_cleanup_build_ struct build build = {
		.part = BUILD_DEVICE,
		.declaration = declaration,
		.snapshot = snapshot,
		.root = root,
		.error = error,
	};

	build.chosen = calloc(1, sizeof(*build.chosen));
	build.devices = calloc(1, sizeof(*build.devices));
	if (!build.chosen || !build.devices)
		return build_out_of_memory(&build);
	build.chosen[build.n_chosen++].unit = unit;
	build.devices[build.n_devices++] = snapshot_existing(snapshot, unit);
	return build_allocation(&build, ret);
}

static int add_name(struct allocation *allocation, const char *kind, const char *id)
{
	char name[CDI_DEVICE_NAME_MAX + 1];
	char **names;

	names = reallocarray(allocation->cdi, allocation->n_cdi + 1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	allocation->cdi = names;
	cdi_device_name(id, name);
	if (format_text(&names[allocation->n_cdi], "%s=%s", kind, name) < 0)
		return -ENOMEM;
	allocation->n_cdi++;
	return 0;
}

/* Moves the names from `first` on into a separate annotation. */
static int add_annotation(struct allocation *allocation, const char *kind, size_t first)
{
	char key[CDI_ANNOTATION_KEY_MAX + 1];
	struct pair *pairs, *pair;
	size_t size;
	FILE *stream;

	pairs = reallocarray(
		allocation->annotations, allocation->n_annotations + 1, sizeof(*pairs));
	if (!pairs)
		return -ENOMEM;
	allocation->annotations = pairs;
	pair = &pairs[allocation->n_annotations];
	*pair = (struct pair){ 0 };
	stream = open_memstream(&pair->value, &size);
	if (!stream)
		return -ENOMEM;
	for (size_t i = first; i < allocation->n_cdi; i++)
		(void)fprintf(stream, "%s%s", i > first ? "," : "", allocation->cdi[i]);
	cdi_annotation_key(kind, key);
	pair->name = strdup(key);
	if (fclose(stream) != 0 || !pair->name) {
		free(pair->name);
		free(pair->value);
		return -ENOMEM;
	}
	allocation->n_annotations++;
	return 0;
}

/* Names the chosen devices that are in the file. */
static int add_names(struct build *build, struct allocation *allocation)
{
	const struct cdi_spec *spec = &build->declaration->cdi_spec;
	size_t first = allocation->n_cdi;
	int r = 0;

	for (size_t i = 0; i < build->n_chosen && r >= 0; i++) {
		size_t unit = build->chosen[i].unit;
		_cleanup_allocation_ struct allocation edits = { 0 };

		if (i > 0 && build->chosen[i - 1].unit == unit)
			continue;
		r = allocation_build_device(build->declaration, build->snapshot, build->root, unit,
			&edits, build->error);
		if (r < 0)
			return r;
		if (!allocation_is_empty(&edits) &&
			add_name(allocation, spec->kind, build->snapshot->units[unit].device->id) <
				0)
			return build_out_of_memory(build);
	}
	if (spec->annotations && allocation->n_cdi > first &&
		add_annotation(allocation, spec->kind, first) < 0)
		return build_out_of_memory(build);
	return 0;
}

int allocation_build_cdi(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, const char *const *ids, size_t n_ids,
	const struct allocation_answers *answers, struct allocation *ret, struct error *error)
{
	_cleanup_allocation_ struct allocation whole = { 0 }, allocation = { 0 };
	_cleanup_build_ struct build build =
		build_begin(BUILD_REST, declaration, snapshot, root, answers, error);
	int r;

	r = allocation_build(declaration, snapshot, root, ids, n_ids, answers, &whole, error);
	if (r < 0)
		return r;
	r = build_choose(&build, ids, n_ids);
	if (r < 0)
		return r;
	r = build_allocation(&build, &allocation);
	if (r < 0)
		return r;
	r = add_names(&build, &allocation);
	if (r < 0)
		return r;
	*ret = allocation;
	allocation = (struct allocation){ 0 };
	return 0;
}
