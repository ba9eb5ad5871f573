/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a container runtime loads a file of CDI, and what the host must have for a device
 * in it. All scalars of a document are strings. The rules are those of pkg/cdi: spec.go, device.go,
 * container-edits.go, and container-edits_unix.go for nodes.
 */
#include "drivers/host/cdi-document.h"

#include "common/json-read.h"

/* --- what is valid --- */

/* Members that each entry of a list must have. */
static const struct {
	const char *list, *member;
} required[] = {
	{ "deviceNodes", "path" },
	{ "mounts", "hostPath" },
	{ "mounts", "containerPath" },
	{ "hooks", "hookName" },
	{ "hooks", "path" },
	{ "netDevices", "hostInterfaceName" },
	{ "netDevices", "name" },
};

static int check_edits(const json_t *edits, struct error *error)
{
	for (size_t i = 0; i < ARRAY_SIZE(required); i++) {
		const json_t *entry;
		size_t k;

		json_array_foreach(json_object_get(edits, required[i].list), k, entry)
		{
			if (!*text_of(entry, required[i].member))
				return error_set(error, -EBADMSG, "an entry of %s has no %s",
					required[i].list, required[i].member);
		}
	}
	return 0;
}

static bool is_empty(const json_t *edits)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)edits, key, value)
	{
		if (json_is_object(value) || json_array_size(value) > 0)
			return false;
	}
	return true;
}

/* `names`: those of the devices before it. */
static int check_device(const json_t *device, json_t *names, struct error *error)
{
	const json_t *edits = json_object_get(device, "containerEdits");
	const char *name = text_of(device, "name");

	if (!*name)
		return error_set(error, -EBADMSG, "a device has no name");
	if (json_object_get(names, name))
		return error_set(error, -EBADMSG, "the device \"%s\" occurs twice", name);
	if (is_empty(edits))
		return error_set(error, -EBADMSG, "the device \"%s\" has no containerEdits", name);
	if (json_object_set_new(names, name, json_true()) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return check_edits(edits, error);
}

static int check_devices(const json_t *devices, struct error *error)
{
	json_t *names = json_object();
	const json_t *device;
	int r = names ? 0 : -ENOMEM;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		if (r >= 0)
			r = check_device(device, names, error);
	}
	json_decref(names);
	return r;
}

int cdi_document_check(const json_t *document, struct error *error)
{
	const json_t *devices = json_object_get(document, "devices");
	const char *slash = strchr(text_of(document, "kind"), '/');
	int r;

	if (!*text_of(document, "cdiVersion"))
		return error_set(error, -EBADMSG, "it has no cdiVersion");
	if (!slash || slash == text_of(document, "kind") || !slash[1])
		return error_set(error, -EBADMSG, "its kind is not VENDOR/CLASS");
	if (json_array_size(devices) == 0)
		return error_set(error, -EBADMSG, "it has no devices");
	r = check_edits(json_object_get(document, "containerEdits"), error);
	return r < 0 ? r : check_devices(devices, error);
}

/* --- devices --- */

const json_t *cdi_document_find(const json_t *document, const char *kind, const char *name)
{
	const json_t *device;
	size_t i;

	if (!streq(text_of(document, "kind"), kind))
		return NULL;
	json_array_foreach(json_object_get(document, "devices"), i, device)
	{
		if (streq(text_of(device, "name"), name))
			return device;
	}
	return NULL;
}

/* Runtimes make the node from the numbers; a number of 0 counts as none. */
static const char *node_source(const json_t *node)
{
	const char *type = text_of(node, "type"), *number = text_of(node, "major");

	if (*type && (streq(type, "p") || strspn(number, "0") < strlen(number)))
		return NULL;
	return set_text_of(node, "hostPath") ?: text_of(node, "path");
}

static bool is_bind(const json_t *mount)
{
	const char *type = text_of(mount, "type");
	const json_t *option;
	size_t i;

	json_array_foreach(json_object_get(mount, "options"), i, option)
	{
		const char *text = json_string_value(option) ?: "";

		if (streq(text, "bind") || streq(text, "rbind"))
			return true;
	}
	return !*type || streq(type, "bind") || streq(type, "none");
}

/* A mount of another type, such as tmpfs, has no source on the host. */
static const char *mount_source(const json_t *mount)
{
	return is_bind(mount) ? text_of(mount, "hostPath") : NULL;
}

/* Its path is in the container then. */
static const char *hook_source(const json_t *hook)
{
	return streq(text_of(hook, "hookName"), "startContainer") ? NULL : text_of(hook, "path");
}

static const struct {
	const char *list;
	const char *(*source)(const json_t *entry); /* NULL: it needs nothing of the host */
} sources[] = {
	[CDI_NODE] = { "deviceNodes", node_source },
	[CDI_MOUNT] = { "mounts", mount_source },
	[CDI_HOOK] = { "hooks", hook_source },
};

static int find_sources(const json_t *edits, cdi_source_handler on_source, void *userdata)
{
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		const json_t *entry;
		size_t k;

		json_array_foreach(json_object_get(edits, sources[i].list), k, entry)
		{
			const char *path = sources[i].source(entry);
			int r = path && *path == '/' ? on_source((enum cdi_source)i, path, userdata)
						     : 0;

			if (r < 0)
				return r;
		}
	}
	return 0;
}

int cdi_document_sources(
	const json_t *document, const json_t *device, cdi_source_handler on_source, void *userdata)
{
	int r = find_sources(json_object_get(device, "containerEdits"), on_source, userdata);

	return r < 0
		? r
		: find_sources(json_object_get(document, "containerEdits"), on_source, userdata);
}
