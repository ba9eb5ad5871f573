/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the values in a document that a child proposes are within the configuration of
 * its resource; publication-form.c has checked the form before, and published.c decides about names
 * of files. Configured paths are templates and may contain symbolic links, which are resolved in
 * the document. So the part before the first variable is compared, as written and resolved.
 */
#include "supervisor/publication-policy.h"

#include "drivers/allocation/cdi.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/driver.h"

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

/* The directories of a template before its first variable or pattern, or all of it. */
static char *fixed_part(const char *template)
{
	size_t length = strcspn(template, "$*?[{");

	if (template[length] == '\0')
		return strdup(template);
	while (length > 1 && template[length - 1] != '/')
		length--;
	return strndup(template, length);
}

/* Whether the template can stand for the path: it is the same, or below the fixed part. */
static bool names_path(
	const struct declaration *declaration, const char *template, const char *path)
{
	_cleanup_free_ char *fixed = fixed_part(template), *resolved = NULL;
	bool whole = fixed && streq(fixed, template);

	if (!fixed)
		return false;
	if (whole && streq(path, fixed))
		return true;
	if (has_dots(path) || is_root(path))
		return false;
	if (!whole && is_below(path, fixed))
		return true;
	if (sysroot_resolve(declaration_root(declaration), fixed, &resolved) < 0)
		return false;
	return whole ? streq(path, resolved) : is_below(path, resolved);
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

/* Whether the template's name, in which variables stand for anything, can be that of the
 * assignment. */
static bool names_variable(const char *template, const char *assignment)
{
	size_t length = declaration_assigned_name(template), fixed = strcspn(template, "$");

	/* A variable of the template stands for anything but those of the dynamic loader. */
	if (startswith(assignment, "LD_") && !startswith(template, "LD_"))
		return false;
	if (fixed >= length)
		return strncmp(template, assignment, length) == 0 && assignment[length] == '=';
	return strncmp(template, assignment, fixed) == 0;
}

static bool may_set(const struct policy *policy, const char *assignment)
{
	const struct declaration *declaration = policy->declaration;
	const struct strings *env = &declaration->container.env;
	const char *own = declaration->driver->environment;

	if (own && startswith(assignment, own))
		return true;
	for (size_t i = 0; i < env->count; i++)
		if (names_variable(env->items[i], assignment))
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

static int refuse(const char *device, const char *what, const char *value, struct error *error)
{
	return error_set(error, -EPERM,
		"it gives containers of the device \"%s\" the %s %.200s, which the configuration "
		"of the resource does not name",
		device, what, value);
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
			return refuse(name, "variable", text, error);
	}
	for (size_t i = 0; i < json_array_size(mounts); i++) {
		const json_t *mount = json_array_get(mounts, i);
		const char *host = json_string_value(json_object_get(mount, "hostPath"));

		if (!may_mount(policy, host, is_read_only(mount)))
			return refuse(name, "mount of", host, error);
	}
	for (size_t i = 0; i < json_array_size(nodes); i++) {
		const json_t *node = json_array_get(nodes, i);
		const char *host = json_string_value(json_object_get(node, "hostPath"));

		host = host ?: json_string_value(json_object_get(node, "path"));
		if (!may_have_node(policy, host))
			return refuse(name, "node", host, error);
		if (!has_owner(&policy->declaration->cdi_spec, node))
			return refuse(name, "owner or mode of the node", host, error);
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

int publication_policy_check(
	const struct declaration *declaration, const json_t *spec, struct error *error)
{
	return check_devices(&(struct policy){ .declaration = declaration }, spec, error);
}

int publication_policy_check_claim(
	const struct declaration *declaration, const json_t *spec, struct error *error)
{
	const struct policy policy = {
		.declaration = declaration,
		.any = declaration->allocate.command.count > 0,
	};

	return check_devices(&policy, spec, error);
}
