/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and checks the file that describes a device to CNI plugins. The types of the specification
 * are a table, which is used for both. CNI plugins run as root and make paths from the values, so
 * each value must have the form of its member.
 */
#include "drivers/model/device-info.h"

#include "drivers/model/form.h"

#define MEMBERS_MAX 6

static const struct {
	const char *name;
	/* Required members come first. */
	size_t n_required;
	const char *members[MEMBERS_MAX + 1];
} types[] = {
	{ "pci", 1,
		{ "pci-address", "vhost-net", "rdma-device", "pf-pci-address",
			"representor-device" } },
	{ "vdpa", 3,
		{ "parent-device", "driver", "path", "pci-address", "pf-pci-address",
			"representor-device" } },
	{ "vhost-user", 2, { "mode", "path" } },
	{ "memif", 3, { "role", "path", "mode" } },
};

/* A name of a file in /sys or /dev. */
static bool is_name(const char *value)
{
	return !streq(value, ".") && !streq(value, "..") && !strchr(value, '/');
}

static bool is_path(const char *value)
{
	struct error error;

	return form_absolute_path(value, &error) >= 0;
}

static const struct {
	const char *member;
	bool (*is_valid)(const char *value);
} forms[] = {
	{ "pci-address", form_is_pci_address },
	{ "pf-pci-address", form_is_pci_address },
	{ "vhost-net", is_path },
	{ "path", is_path },
};

/* Whether the value is valid for the member. Without a form in the table, a name or a word is
 * valid. */
static bool value_is_valid(const char *member, const json_t *value)
{
	const char *text = json_string_value(value);

	if (!text || !*text)
		return false;
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		if (streq(forms[i].member, member))
			return forms[i].is_valid(text);
	return is_name(text);
}

static ssize_t find_type(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (streq(types[i].name, name))
			return (ssize_t)i;
	return -EINVAL;
}

static bool members_are_valid(size_t type, const json_t *members)
{
	size_t n = 0;

	for (size_t i = 0; types[type].members[i]; i++) {
		const char *member = types[type].members[i];
		const json_t *value = json_object_get(members, member);

		if (value ? !value_is_valid(member, value) : i < types[type].n_required)
			return false;
		n += value != NULL;
	}
	return n > 0 && json_object_size(members) == n;
}

bool device_info_is_valid(const json_t *info)
{
	const char *version = json_string_value(json_object_get(info, "version"));
	const char *name = json_string_value(json_object_get(info, "type"));
	ssize_t type = name ? find_type(name) : -EINVAL;

	return type >= 0 && version && streq(version, DEVICE_INFO_VERSION) &&
		json_object_size(info) == 3 &&
		members_are_valid((size_t)type, json_object_get(info, name));
}

int device_set_info(struct device *device, const char *type,
	const struct device_info_member *members, size_t n_members)
{
	json_t *given = json_object(), *info;
	char *text = NULL;
	int r = given ? 0 : -ENOMEM;

	for (size_t i = 0; i < n_members && r >= 0; i++)
		if (members[i].value &&
			json_object_set_new(given, members[i].name, json_string(members[i].value)) <
				0)
			r = -ENOMEM;
	info = json_pack(
		"{s:s, s:s, s:o}", "type", type, "version", DEVICE_INFO_VERSION, type, given);
	if (r >= 0 && !info)
		r = -ENOMEM;
	if (r >= 0 && !device_info_is_valid(info))
		r = -EINVAL;
	if (r >= 0) {
		text = json_dumps(info, JSON_COMPACT);
		r = text ? 0 : -ENOMEM;
	}
	json_decref(info);
	if (r < 0)
		return r;
	free(device->info);
	device->info = text;
	return 0;
}
