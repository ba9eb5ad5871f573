/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of a declaration that look at more than one option. What one option alone must look
 * like is said by its row in the tables (declaration-keys.c) and checked while it is read.
 */
#include "drivers/declaration.h"

#include <fnmatch.h>

#include "drivers/driver.h"

const char *declaration_type(const struct declaration *declaration)
{
	return strchr(declaration->name, '/') + 1;
}

const char *declaration_root(const struct declaration *declaration)
{
	const char *root = declaration->host_root;

	return !root || streq(root, "/") ? "" : root;
}

size_t declaration_assigned_name(const char *assignment)
{
	const char *p = assignment;

	while (*p != '=') {
		const char *end = startswith(p, "${") ? strchr(p, '}') : NULL;

		p = end ? end + 1 : p + 1;
	}
	return (size_t)(p - assignment);
}

static void check_assigned_once(const struct strings *assignments, const struct origin *origin,
	const char *key, struct report *report)
{
	for (size_t i = 0; i < assignments->count; i++) {
		const char *item = assignments->items[i];
		size_t length = declaration_assigned_name(item) + 1;

		for (size_t k = 0; k < i; k++)
			if (strncmp(assignments->items[k], item, length) == 0)
				(void)report_add(report, origin, key,
					"\"%.*s\" is set twice, remove one", (int)length - 1, item);
	}
}

static void check_program(const struct strings *command, const struct origin *origin,
	const char *key, struct report *report)
{
	if (command->count > 0 && command->items[0][0] != '/')
		(void)report_add(report, origin, key,
			"must begin with the absolute path of a program, not \"%s\"",
			command->items[0]);
}

int declaration_check(const struct declaration *declaration, struct report *report)
{
	const struct container *container = &declaration->container;
	size_t before = report->count;
	char key[64];

	check_assigned_once(&container->env, &container->origin, "container.env", report);
	check_assigned_once(
		&container->annotations, &container->origin, "container.annotations", report);
	for (size_t i = 0; i < declaration->health.count; i++) {
		const struct declared_probe *probe = groups_get(&declaration->health, i);

		(void)snprintf(key, sizeof(key), "health[%zu].command", i);
		check_program(&probe->command, &probe->origin, key, report);
	}
	check_program(&declaration->prestart.command, &declaration->prestart.origin,
		"prestart.command", report);
	if (declaration->driver->check)
		(void)declaration->driver->check(declaration, report);
	return report->count > before || report->incomplete ? -EINVAL : 0;
}

bool declaration_excludes(const struct declaration *declaration, const char *id)
{
	for (size_t i = 0; i < declaration->exclude.count; i++) {
		const struct exclusion *exclusion = groups_get(&declaration->exclude, i);

		if (fnmatch(exclusion->id, id, 0) == 0)
			return true;
	}
	return false;
}

const struct cordon *declaration_cordon(const struct declaration *declaration, const char *id)
{
	for (size_t i = 0; i < declaration->cordon.count; i++) {
		const struct cordon *cordon = groups_get(&declaration->cordon, i);

		if (fnmatch(cordon->id, id, 0) == 0)
			return cordon;
	}
	return NULL;
}

unsigned declaration_replicas(const struct declaration *declaration, const char *id)
{
	const struct share *share = &declaration->share;

	for (size_t i = 0; i < share->devices.count; i++) {
		const struct share_rule *rule = groups_get(&share->devices, i);

		if (fnmatch(rule->id, id, 0) == 0)
			return (unsigned)rule->replicas;
	}
	return (unsigned)share->replicas;
}

bool declaration_is_shared(const struct declaration *declaration)
{
	const struct share *share = &declaration->share;

	for (size_t i = 0; i < share->devices.count; i++)
		if (((const struct share_rule *)groups_get(&share->devices, i))->replicas > 1)
			return true;
	return share->replicas > 1;
}

void declaration_done(struct declaration *declaration)
{
	option_table_done(&declaration_table, declaration);
}
