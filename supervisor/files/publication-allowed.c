/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the values in a document that a child proposes are within the configuration of
 * its resource; publication-form.c has checked the form before, and published-files.c decides about
 * names of files. Configured paths are templates and may contain symbolic links, which are resolved
 * in the document. So the text before the first variable of a device is compared, as written and
 * with the links of its directory resolved.
 */
#include "supervisor/files/publication-allowed.h"

#include "common/utf8.h"
#include "drivers/allocation/cdi.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/driver.h"
#include "drivers/model/template.h"

/* Maximum length of a value in a message. */
#define SHOWN_MAX 200

struct policy {
	const struct declaration *declaration;
	bool any; /* as with a driver that runs programs and brings mounts */
};

static bool is_below(const char *path, const char *directory)
{
	size_t length = strlen(directory);

	while (length > 0 && directory[length - 1] == '/')
		length--;
	return strncmp(path, directory, length) == 0 &&
		(path[length] == '\0' || path[length] == '/');
}

/* Whether a part of the path is "." or "..", so that the path may lead outside of its beginning. */
static bool has_dots(const char *path)
{
	for (const char *part = path; *part; part += strspn(part, "/")) {
		size_t length = strcspn(part, "/");

		if ((length == 1 || length == 2) && strncmp(part, "..", length) == 0)
			return true;
		part += length;
	}
	return false;
}

static bool is_root(const char *path)
{
	return path[strspn(path, "/")] == '\0';
}

/* Whether the path begins with the prefix, and goes on as the rest of the template can: with
 * something, and without another "/" if the rest cannot have one. */
static bool continues(const char *path, const char *prefix, const char *rest)
{
	const char *value = startswith(path, prefix);
	size_t length = strlen(prefix);

	if (!value)
		return false;
	if (length > 0 && prefix[length - 1] == '/' && (*value == '\0' || *value == '/'))
		return false;
	return template_may_have_slash(rest) || !strchr(value, '/');
}

/* The prefix with the symbolic links of its directory resolved, or of all of it if it is `whole`.
 */
static char *resolve(const struct declaration *declaration, const char *prefix, bool whole)
{
	_cleanup_free_ char *directory = NULL, *resolved = NULL;
	const char *slash = whole ? NULL : strrchr(prefix, '/');
	char *joined;

	directory = slash ? strndup(prefix, (size_t)(slash - prefix) + 1) : strdup(prefix);
	if (!directory || sysroot_resolve(declaration_root(declaration), directory, &resolved) < 0)
		return NULL;
	if (!slash)
		return TAKE_PTR(resolved);
	return format_text(&joined, "%s%s", is_root(resolved) ? "" : resolved, slash) < 0 ? NULL
											  : joined;
}

/* Whether the path can be an expansion of the template. */
static bool names_path(
	const struct declaration *declaration, const char *template, const char *path)
{
	_cleanup_free_ char *prefix = NULL, *resolved = NULL;
	const char *rest;

	if (template_prefix(template, declaration->name, &prefix, &rest) < 0)
		return false;
	if (!*rest && streq(path, prefix))
		return true;
	if (has_dots(path) || is_root(path))
		return false;
	if (*rest && continues(path, prefix, rest))
		return true;
	resolved = resolve(declaration, prefix, !*rest);
	if (!resolved)
		return false;
	return *rest ? continues(path, resolved, rest) : streq(path, resolved);
}

static bool may_mount(const struct policy *policy, const char *host, bool read_only)
{
	const struct declaration *declaration = policy->declaration;
	const struct container *container = &declaration->container;

	for (size_t i = 0; i < container->mounts.count; i++) {
		const struct declared_mount *mount = groups_get(&container->mounts, i);

		if (names_path(declaration, mount->host, host) && (read_only || !mount->read_only))
			return true;
	}
	if (is_root(host) || has_dots(host))
		return false;
	return policy->any || declaration->driver->mounts == DRIVER_MOUNTS ||
		(declaration->driver->mounts == DRIVER_MOUNTS_READ_ONLY && read_only);
}

static bool may_have_node(const struct policy *policy, const char *host)
{
	const struct declaration *declaration = policy->declaration;
	const struct container *container = &declaration->container;

	if (is_root(host))
		return false;
	if (!has_dots(host) &&
		(policy->any || declaration->driver->mounts == DRIVER_MOUNTS ||
			is_below(host, "/dev")))
		return true;
	for (size_t i = 0; i < container->nodes.count; i++) {
		const struct declared_node *node = groups_get(&container->nodes, i);

		if (names_path(declaration, node->host, host))
			return true;
	}
	return false;
}

/* Whether the assignment's name can be an expansion of the template's. */
static bool names_variable(
	const struct declaration *declaration, const char *template, const char *assignment)
{
	_cleanup_free_ char *name = strndup(template, declaration_assigned_name(template));
	_cleanup_free_ char *prefix = NULL;
	const char *rest, *value;

	/* A variable of the template stands for anything but those of the dynamic loader. */
	if (startswith(assignment, "LD_") && !startswith(template, "LD_"))
		return false;
	if (!name || template_prefix(name, declaration->name, &prefix, &rest) < 0)
		return false;
	value = startswith(assignment, prefix);
	return value && (*rest || *value == '=');
}

static bool may_set(const struct policy *policy, const char *assignment)
{
	const struct declaration *declaration = policy->declaration;
	const struct strings *env = &declaration->container.env;
	const char *own = declaration->driver->environment;

	if (own && startswith(assignment, own))
		return true;
	for (size_t i = 0; i < env->count; i++)
		if (names_variable(declaration, env->items[i], assignment))
			return true;
	return (policy->any || declaration->driver->runs_programs) &&
		!startswith(assignment, "LD_");
}

static bool is_read_only(const json_t *mount)
{
	const json_t *options = json_object_get(mount, "options");

	for (size_t i = 0; i < json_array_size(options); i++)
		if (streq(json_string_value(json_array_get(options, i)), "ro"))
			return true;
	return false;
}

/* Whether the node's owner, group and mode are those of the configuration, if it has any. */
static bool has_owner(const struct cdi_spec *spec, const json_t *node)
{
	const struct {
		const char *key;
		int64_t value;
	} members[] = { { "uid", spec->uid }, { "gid", spec->gid },
		{ "fileMode", cdi_file_mode(spec) } };

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		const json_t *value = json_object_get(node, members[i].key);

		if ((value ? json_integer_value(value) : CDI_UNSET) != members[i].value)
			return false;
	}
	return true;
}

static int refuse(const char *device, const char *what, const char *value, const char *key,
	struct error *error)
{
	size_t shown = utf8_valid_length(value, strnlen(value, SHOWN_MAX));

	return error_set(error, -EPERM, "device \"%s\" %s %.*s, which %s does not name", device,
		what, (int)shown, value, key);
}

static int check_device(const struct policy *policy, const json_t *device, struct error *error)
{
	const char *name = json_string_value(json_object_get(device, "name"));
	const json_t *edits = json_object_get(device, "containerEdits");
	const json_t *env = json_object_get(edits, "env");
	const json_t *mounts = json_object_get(edits, "mounts");
	const json_t *nodes = json_object_get(edits, "deviceNodes");

	for (size_t i = 0; i < json_array_size(env); i++) {
		const char *text = json_string_value(json_array_get(env, i));

		if (!may_set(policy, text))
			return refuse(name, "sets the variable", text, "container.env", error);
	}
	for (size_t i = 0; i < json_array_size(mounts); i++) {
		const json_t *mount = json_array_get(mounts, i);
		const char *host = json_string_value(json_object_get(mount, "hostPath"));

		if (!may_mount(policy, host, is_read_only(mount)))
			return refuse(name, "mounts", host, "container.mounts", error);
	}
	for (size_t i = 0; i < json_array_size(nodes); i++) {
		const json_t *node = json_array_get(nodes, i);
		const char *host = json_string_value(json_object_get(node, "hostPath"));

		host = host ?: json_string_value(json_object_get(node, "path"));
		if (!may_have_node(policy, host))
			return refuse(name, "adds the node", host, "container.nodes", error);
		if (!has_owner(&policy->declaration->cdi_spec, node))
			return refuse(name, "sets an owner or mode of", host, "cdi_spec", error);
	}
	return 0;
}

static int check_devices(const struct policy *policy, const json_t *spec, struct error *error)
{
	const json_t *devices = json_object_get(spec, "devices");
	int r = 0;

	for (size_t i = 0; i < json_array_size(devices) && r >= 0; i++)
		r = check_device(policy, json_array_get(devices, i), error);
	return r;
}

int publication_check_allowed(
	const struct declaration *declaration, const json_t *spec, struct error *error)
{
	return check_devices(&(struct policy){ .declaration = declaration }, spec, error);
}

int publication_check_allowed_claim(
	const struct declaration *declaration, const json_t *spec, struct error *error)
{
	const struct policy policy = {
		.declaration = declaration,
		.any = declaration->allocate.command.count > 0,
	};

	return check_devices(&policy, spec, error);
}
