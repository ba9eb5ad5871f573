/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which names of two resources are the same but stand for different things. The first
 * resource with a name is kept in a table, and later ones are compared with it, so that a thousand
 * resources take little time. Equal values are no conflict, unless they depend on the device.
 */
#include "configuration/shared-names.h"

#include "common/map.h"
#include "configuration/same-path.h"
#include "drivers/model/driver.h"
#include "drivers/model/template.h"

#define KEY_MAX 64

/* The use of a name by a resource. */
struct use {
	struct use *next;
	const struct declaration *declaration;
	char *value; /* NULL: it depends on the device */
	char *text;  /* the kind of name, a tab, and the name */
};

struct finder {
	struct map first; /* by `text` */
	struct use *uses;
	const struct declaration *declaration;
	shared_name_visitor visitor;
	void *userdata;
};

static void finder_done(struct finder *finder)
{
	for (struct use *use = finder->uses, *next; use; use = next) {
		next = use->next;
		free(use->value);
		free(use->text);
		free(use);
	}
	map_done(&finder->first);
}

/* `value` is taken over. */
static int add_use(struct finder *finder, const char *kind, const char *name, char *value,
	const char *key, const struct origin *origin)
{
	struct use *use = calloc(1, sizeof(*use)), *first;
	struct shared_name shared = {
		.declaration = finder->declaration, .origin = origin, .key = key, .kind = kind
	};

	if (!use || format_text(&use->text, "%s\t%s", kind, name) < 0) {
		free(value);
		free(use);
		return -ENOMEM;
	}
	use->next = finder->uses;
	finder->uses = use;
	use->declaration = finder->declaration;
	use->value = value;
	first = map_get(&finder->first, use->text);
	if (!first)
		return map_put(&finder->first, use->text, use);
	if (first->declaration == use->declaration ||
		(first->value && value && streq(first->value, value)))
		return 0;
	shared.other = first->declaration;
	shared.name = name;
	finder->visitor(&shared, finder->userdata);
	return 0;
}

/* Any container has a device at the first position. */
static const char *first_position(void *userdata, const char *variable)
{
	return streq(variable, "position") ? "0" : NULL;
}

/* Returns 1, 0 if the text depends on the device, or -ENOMEM. */
static int expand(const struct finder *finder, const char *text, bool name, char **ret)
{
	const struct template_context context = {
		.name = finder->declaration->name,
		.device_value = name ? first_position : NULL,
	};
	struct error error;
	int r = template_expand(text, &context, ret, &error);

	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

/* "NAME=value" */
static int add_assignment(
	struct finder *finder, const char *kind, const char *text, const char *key)
{
	_cleanup_free_ char *left = strndup(text, strcspn(text, "=")), *name = NULL;
	const struct declaration *declaration = finder->declaration;
	const struct origin *origin = declaration->container.origin.file
		? &declaration->container.origin
		: &declaration->origin;
	char *value = NULL;
	int r;

	r = left ? expand(finder, left, true, &name) : -ENOMEM;
	if (r <= 0)
		return r;
	r = expand(finder, text + strcspn(text, "="), false, &value);
	return r < 0 ? r : add_use(finder, kind, name, value, key, origin);
}

static int add_assignments(
	struct finder *finder, const char *kind, const struct strings *texts, const char *list)
{
	char key[KEY_MAX];
	int r = 0;

	for (size_t i = 0; i < texts->count && r >= 0; i++) {
		(void)snprintf(key, sizeof(key), "%s[%zu]", list, i);
		r = add_assignment(finder, kind, texts->items[i], key);
	}
	return r;
}

static bool is_configured(const struct strings *env, const char *text)
{
	for (size_t i = 0; i < env->count; i++)
		if (strncmp(env->items[i], text, strcspn(text, "=") + 1) == 0)
			return true;
	return false;
}

/* The variables that the driver's devices set. */
static int add_variables_of_driver(struct finder *finder)
{
	const struct declaration *declaration = finder->declaration;
	_cleanup_strings_ struct strings env = { 0 };
	int r = declaration->driver->env ? declaration->driver->env(declaration, &env) : 0;

	for (size_t i = 0; i < env.count && r >= 0; i++)
		if (!is_configured(&declaration->container.env, env.items[i]))
			r = add_assignment(finder, "variable", env.items[i], "match");
	return r;
}

static int on_path(const char *key, const struct origin *origin, const char *host, const char *path,
	void *userdata)
{
	char *value = host ? strdup(host) : NULL;

	if (host && !value)
		return -ENOMEM;
	return add_use(userdata, "path", path, value, key, origin);
}

int shared_names_find(const struct config *config, shared_name_visitor visitor, void *userdata)
{
	_cleanup_(finder_done) struct finder finder = { .visitor = visitor, .userdata = userdata };
	int r = 0;

	for (size_t i = 0; i < config->n_resources && r >= 0; i++) {
		const struct container *container = &config->resources[i].declaration.container;

		finder.declaration = &config->resources[i].declaration;
		r = add_assignments(&finder, "variable", &container->env, "container.env");
		if (r >= 0)
			r = add_variables_of_driver(&finder);
		if (r >= 0)
			r = add_assignments(&finder, "annotation", &container->annotations,
				"container.annotations");
		if (r >= 0)
			r = same_path_visit(finder.declaration, on_path, &finder);
	}
	return r;
}
