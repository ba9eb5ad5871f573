/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a document that a child proposes to publish has the permitted form;
 * publication-allowed.c checks the values. The shape of a CDI document is a set of tables of
 * members: each object must have the required ones, may have the optional ones, and no others.
 */
#include "supervisor/files/publication-form.h"

#include <limits.h>

#include "drivers/allocation/cdi.h"
#include "drivers/allocation/publication.h"
#include "drivers/model/device-info.h"
#include "drivers/model/form.h"

#define MEMBERS_MAX 6

typedef bool (*value_check)(const json_t *value);

struct member {
	const char *name;
	value_check check;
	bool required;
};

static bool is_object_of(const json_t *object, const struct member members[static MEMBERS_MAX])
{
	size_t n = 0;

	if (!json_is_object(object))
		return false;
	for (size_t i = 0; i < MEMBERS_MAX && members[i].name; i++) {
		const json_t *value = json_object_get(object, members[i].name);

		if (value ? !members[i].check(value) : members[i].required)
			return false;
		n += value != NULL;
	}
	return json_object_size(object) == n;
}

static bool is_array_of(const json_t *array, value_check check)
{
	for (size_t i = 0; i < json_array_size(array); i++)
		if (!check(json_array_get(array, i)))
			return false;
	return json_array_size(array) > 0;
}

/* A longer one cannot be opened. */
static bool is_path(const json_t *value)
{
	size_t length = json_string_length(value);

	return length > 0 && length < PATH_MAX && json_string_value(value)[0] == '/';
}

static bool is_assignment(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && text[0] != '=' && strchr(text, '=');
}

static bool is_permissions(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && *text && strlen(text) <= 3 && text[strspn(text, "rwm")] == '\0';
}

/* Each at most once, and one of "ro" and "rw": of both, some runtimes follow the last one, and the
 * policy would judge by the other. */
static bool is_mount_options(const json_t *value)
{
	static const char *const options[] = { "ro", "rw", "rbind", "rprivate" };
	bool seen[ARRAY_SIZE(options)] = { false };

	for (size_t i = 0; i < json_array_size(value); i++) {
		const char *text = json_string_value(json_array_get(value, i));
		size_t k = 0;

		while (k < ARRAY_SIZE(options) && !(text && streq(text, options[k])))
			k++;
		if (k == ARRAY_SIZE(options) || seen[k])
			return false;
		seen[k] = true;
	}
	return seen[0] != seen[1];
}

static bool is_id(const json_t *value)
{
	json_int_t number = json_integer_value(value);

	return json_is_integer(value) && number >= 0 && number < UINT32_MAX;
}

static bool is_file_mode(const json_t *value)
{
	json_int_t mode = json_integer_value(value);

	return json_is_integer(value) && mode >= 0 && mode <= 0777;
}

static bool is_node(const json_t *value)
{
	return is_object_of(value,
		(const struct member[MEMBERS_MAX]){ { "path", is_path, true },
			{ "hostPath", is_path, false }, { "permissions", is_permissions, true },
			{ "uid", is_id, false }, { "gid", is_id, false },
			{ "fileMode", is_file_mode, false } });
}

static bool is_mount(const json_t *value)
{
	return is_object_of(value,
		(const struct member[MEMBERS_MAX]){ { "hostPath", is_path, true },
			{ "containerPath", is_path, true },
			{ "options", is_mount_options, true } });
}

static bool is_nodes(const json_t *value)
{
	return is_array_of(value, is_node);
}

static bool is_mounts(const json_t *value)
{
	return is_array_of(value, is_mount);
}

static bool is_environment(const json_t *value)
{
	return is_array_of(value, is_assignment);
}

static bool is_edits(const json_t *value)
{
	return json_object_size(value) > 0 &&
		is_object_of(value,
			(const struct member[MEMBERS_MAX]){ { "deviceNodes", is_nodes, false },
				{ "mounts", is_mounts, false }, { "env", is_environment, false } });
}

static bool is_device_name(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && cdi_device_name_is_valid(text) && strlen(text) <= CDI_DEVICE_NAME_MAX;
}

static bool is_device(const json_t *value)
{
	return is_object_of(value,
		(const struct member[MEMBERS_MAX]){
			{ "name", is_device_name, true }, { "containerEdits", is_edits, true } });
}

static bool is_devices(const json_t *value)
{
	return is_array_of(value, is_device);
}

static bool is_text(const json_t *value)
{
	return json_is_string(value);
}

int publication_check_cdi(const json_t *spec, const char *kind, struct error *error)
{
	const char *found = json_string_value(json_object_get(spec, "kind"));

	if (!kind || !found || !streq(found, kind))
		return error_set(error, -EBADMSG, "the CDI kind must be \"%s\", not \"%s\"",
			kind ?: "", found ?: "");
	if (!is_object_of(spec,
		    (const struct member[MEMBERS_MAX]){ { "cdiVersion", is_text, true },
			    { "kind", is_text, true }, { "devices", is_devices, true } }))
		return error_set(error, -EBADMSG,
			"the CDI document has missing, unknown or malformed members");
	if (!streq(json_string_value(json_object_get(spec, "cdiVersion")), cdi_version(spec)))
		return error_set(error, -EBADMSG, "the CDI version is not %s", cdi_version(spec));
	return 0;
}

/* Whether the information is about the PCI function that the id names. Ids of another form could
 * make a file's name that begins with the name of another resource. */
static bool is_info_of(const char *id, const json_t *info)
{
	const char *type = json_string_value(json_object_get(info, "type"));
	const char *address;

	if (!form_is_pci_address(id) || !device_info_is_valid(info))
		return false;
	address = json_string_value(json_object_get(json_object_get(info, type), "pci-address"));
	return !address || streq(address, id);
}

static int check_infos(const json_t *infos, struct error *error)
{
	const char *id;
	json_t *info;

	if (json_object_size(infos) > PUBLICATION_FILES_MAX)
		return error_set(
			error, -EBADMSG, "the device information is about too many devices");
	json_object_foreach((json_t *)(uintptr_t)infos, id, info)
	{
		if (!is_info_of(id, info))
			return error_set(error, -EBADMSG,
				"the device information is malformed, or is about another device");
	}
	return 0;
}

int publication_check(const json_t *document, const char *kind, struct error *error)
{
	const json_t *spec = json_object_get(document, PUBLICATION_CDI);
	const json_t *infos = json_object_get(document, PUBLICATION_DEVICE_INFO);
	int r = 0;

	if (!json_is_object(document) ||
		json_object_size(document) != (size_t)(spec != NULL) + (infos != NULL) ||
		(infos && !json_is_object(infos)))
		return error_set(error, -EBADMSG, "the document has unknown members");
	if (spec)
		r = publication_check_cdi(spec, kind, error);
	return r < 0 || !infos ? r : check_infos(infos, error);
}
