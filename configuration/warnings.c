/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which valid settings --check warns about: programs and paths that are missing on this
 * host, patterns that match nothing, and kinds of CDI and names of DRA drivers that another program
 * uses. The option tables name these settings, so a driver's own keys are checked too.
 */
#include "configuration/warnings.h"

#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>
#include <sys/stat.h>

#include "common/accounts.h"
#include "configuration/cdi-spec.h"
#include "configuration/foreign-driver.h"
#include "configuration/same-path.h"
#include "configuration/shared-names.h"
#include "drivers/model/condition.h"
#include "drivers/model/driver.h"
#include "drivers/model/form.h"
#include "drivers/model/template.h"

#define CONTEXT_MAX 400
#define KEY_MAX     200

struct walk {
	const struct declaration *declaration;
	struct report *report;
};

/* A program whose name depends on the device cannot be checked. */
static void check_program(
	struct walk *walk, const struct origin *origin, const char *key, const char *program)
{
	struct stat st;

	if (program[0] != '/' || strstr(program, "${"))
		return;
	if (stat(program, &st) < 0)
		(void)report_add(walk->report, origin, key, "cannot run \"%s\": %s", program,
			strerror(errno));
	else if (!S_ISREG(st.st_mode) || !(st.st_mode & 0111))
		(void)report_add(walk->report, origin, key,
			"cannot run \"%s\": not an executable file", program);
}

/* The "]" of a bracket expression, or NULL if its component of the path does not contain one. */
static const char *bracket_end(const char *bracket)
{
	const char *p = bracket + 1 + (bracket[1] == '!' || bracket[1] == '^');

	/* A "]" as the first member does not end the expression. */
	for (p += *p == ']'; *p && *p != '/'; p++) {
		if (*p == ']')
			return p;
		if (*p == '\\' && p[1]) {
			p++;
		} else if (*p == '[' && (p[1] == ':' || p[1] == '.' || p[1] == '=')) {
			/* A class such as "[:digit:]". */
			const char *end = strstr(p + 2, (const char[]){ p[1], ']', '\0' });

			p = end ? end + 1 : p;
		}
	}
	return NULL;
}

static bool matches_nothing(const char *pattern)
{
	char text[2] = "";

	for (unsigned byte = 1; byte <= UCHAR_MAX; byte++) {
		text[0] = (char)byte;
		if (fnmatch(pattern, text, 0) == 0)
			return false;
	}
	return true;
}

static void check_brackets(
	struct walk *walk, const struct origin *origin, const char *key, const char *pattern)
{
	char bracket[256];

	for (const char *p = pattern; *p; p++) {
		const char *end;

		if (*p == '\\' && p[1]) {
			p++;
			continue;
		}
		if (*p != '[')
			continue;
		end = bracket_end(p);
		if (!end) {
			(void)report_add(walk->report, origin, key,
				"the \"[\" in \"%s\" is never closed, so it only matches a \"[\"",
				pattern);
			return;
		}
		(void)snprintf(bracket, sizeof(bracket), "%.*s", (int)(end + 1 - p), p);
		if ((size_t)(end + 1 - p) < sizeof(bracket) && matches_nothing(bracket))
			(void)report_add(walk->report, origin, key,
				"\"%s\" in \"%s\" matches no character, so no path matches: write a range as in "
				"\"[0-9]\", a class as in \"[[:digit:]]\"",
				bracket, pattern);
		p = end;
	}
}

static void check_pattern(
	struct walk *walk, const struct origin *origin, const char *key, const char *pattern)
{
	const char *brace = strchr(pattern, '{');
	const char *comma = brace ? strchr(brace, ',') : NULL;
	const char *parenthesis = strchr(pattern, '(');
	const char *bar = parenthesis ? strchr(parenthesis, '|') : NULL;
	const char *mistake = form_pattern_mistake(pattern);
	const char *root = declaration_root(walk->declaration);
	const char *inside = *root ? startswith(pattern, root) : NULL;

	if (mistake)
		(void)report_add(
			walk->report, origin, key, "in the pattern \"%s\", %s", pattern, mistake);
	if (inside && *inside == '/')
		(void)report_add(walk->report, origin, key,
			"\"%s\" is below host_root, but paths are those of the host: write \"%s\"",
			pattern, inside);
	check_brackets(walk, origin, key, pattern);
	if (comma && strchr(comma, '}') && (brace == pattern || brace[-1] != '$'))
		(void)report_add(walk->report, origin, key,
			"\"{\" and \"}\" have no special meaning in the pattern \"%s\": write an entry of `match` for "
			"each, or a pattern with \"*\", \"?\" and \"[ ]\"",
			pattern);
	if (bar && strchr(bar, ')'))
		(void)report_add(walk->report, origin, key,
			"\"(\", \"|\" and \")\" have no special meaning in the pattern \"%s\": write an entry of `match` "
			"for each",
			pattern);
}

static void check_numbers(struct walk *walk, const struct origin *origin, const char *key,
	const struct integers *integers)
{
	if (integers->decimal > 0)
		(void)report_add(walk->report, origin, key,
			"%lld is a decimal number: write 0x%04llx, or 0x%04llx if that is the value",
			(long long)integers->decimal,
			(unsigned long long)digits_as_hexadecimal(integers->decimal),
			(unsigned long long)integers->decimal);
}

static void check_options(struct walk *walk, const struct option_table *table,
	const void *structure, const char *prefix);

static void check_groups(struct walk *walk, const struct groups *groups, const char *key)
{
	for (size_t i = 0; i < groups->count; i++) {
		char element[KEY_MAX];

		(void)snprintf(element, sizeof(element), "%.100s[%zu].", key, i);
		check_options(walk, groups->table, groups_get(groups, i), element);
	}
}

static void check_options(struct walk *walk, const struct option_table *table,
	const void *structure, const char *prefix)
{
	bool patterns =
		streq(walk->declaration->driver->name, "path") && startswith(prefix, "match[");

	for (size_t i = 0; i < table->count; i++) {
		const struct option *option = &table->options[i];
		const void *member = (const char *)structure + option->offset;
		const struct strings *strings = member;
		char key[KEY_MAX];

		(void)snprintf(key, sizeof(key), "%.100s%s", prefix, option->key);
		if (option->type == OPTION_GROUPS || option->type == OPTION_DRIVER) {
			check_groups(walk, member, key);
		} else if (option->type == OPTION_GROUP) {
			(void)snprintf(key, sizeof(key), "%.100s%s.", prefix, option->key);
			check_options(walk, option->table, member, key);
		} else if (option->hexadecimal) {
			check_numbers(walk, structure, key, member);
		} else if (option->type == OPTION_STRINGS && streq(option->key, "command") &&
			strings->count > 0) {
			check_program(walk, structure, key, strings->items[0]);
		} else if (option->type == OPTION_STRING && patterns &&
			streq(option->key, "path") && *(char *const *)member) {
			check_pattern(walk, structure, key, *(char *const *)member);
		}
	}
}

static void check_user(struct walk *walk)
{
	const char *user = walk->declaration->user;
	uid_t uid;
	gid_t gid;

	if (user && !isdigit((unsigned char)*user) && account_find_any_user(user, &uid, &gid) < 0)
		(void)report_add(walk->report, &walk->declaration->origin, "user",
			"this host has no user \"%s\", so the process of the resource cannot start",
			user);
}

/* Devices without a device node (only names) have no directory in /sys. */
static void check_probes(struct walk *walk)
{
	const struct groups *probes = &walk->declaration->health;

	for (size_t i = 0; i < probes->count; i++) {
		const struct declared_probe *probe = groups_get(probes, i);
		char key[KEY_MAX];

		if (probe->kind != PROBE_SYSFS || !streq(walk->declaration->driver->name, "static"))
			continue;
		(void)snprintf(key, sizeof(key), "health[%zu].probe", i);
		(void)report_add(walk->report, &probe->origin, key,
			"\"sysfs\" will always fail: devices of driver \"static\" have no "
			"directory in /sys; use \"file\" or \"exec\"");
	}
}

/* Claims that select by such a value get other hardware after a reboot. */
static void check_attributes(struct walk *walk)
{
	const struct groups *attributes = &walk->declaration->dra.attributes;
	char variable[TEMPLATE_VARIABLE_MAX + 1], key[KEY_MAX];

	for (size_t i = 0; i < attributes->count; i++) {
		const struct declared_attribute *attribute = groups_get(attributes, i);

		(void)snprintf(key, sizeof(key), "dra.attributes[%zu].value", i);
		if (template_find_changing(attribute->value, walk->declaration->driver, variable))
			(void)report_add(walk->report, &attribute->origin, key,
				"\"${%s}\" may have another value after a reboot, so claims that "
				"select by it may get another device: use a value that stays, such "
				"as ${id}",
				variable);
	}
}

static void check_kind(struct walk *walk, const struct cdi_files *files)
{
	const char *kind = walk->declaration->cdi_spec.kind;
	const struct cdi_file *file = kind ? cdi_spec_foreign_file(files, kind) : NULL;

	if (file)
		(void)report_add(walk->report, &walk->declaration->origin, "cdi_spec.kind",
			"\"%s\" is also the kind of %s: if two files define a device, container "
			"runtimes use neither, or one of them, so choose another kind",
			kind, file->path);
}

/* Each name once. */
static void check_driver(struct walk *walk, const struct config *config, size_t number)
{
	const char *driver = resource_config_driver(&config->resources[number]);
	const char *directory = config->kubelet.plugins_registry_dir;
	const struct declaration *declaration = walk->declaration;
	char name[NAME_MAX + 1];

	for (size_t i = 0; i < number; i++) {
		const char *other = resource_config_driver(&config->resources[i]);

		if (driver && other && streq(driver, other))
			return;
	}
	if (driver && foreign_driver_find(directory, driver, name))
		(void)report_add(walk->report,
			declaration->dra.driver ? &declaration->dra.origin : &config->dra.origin,
			"dra.driver",
			"another program registers the DRA driver \"%s\" with the kubelet, by the "
			"socket %s/%s: of two, the kubelet uses the one that registered last, so "
			"remove that program, or choose another name",
			driver, directory, name);
}

static void on_shared_name(const struct shared_name *shared, void *userdata)
{
	const struct declaration *declaration = shared->declaration, *other = shared->other;
	struct report *report = userdata;
	char context[CONTEXT_MAX];

	(void)snprintf(context, sizeof(context), "resources[%zu] \"%s\"", declaration->position,
		declaration->name);
	report->context = context;
	(void)report_add(report, shared->origin, shared->key,
		"resources[%zu] \"%s\" at %s:%u also uses the %s \"%s\": a container with devices of both gets only one of the two, so choose another %s",
		other->position, other->name, other->origin.file, other->origin.line, shared->kind,
		shared->name,
		streq(shared->kind, "path") ? "path" : "name, such as one with ${env_name}");
	report->context = NULL;
}

int config_warnings(const struct config *config, struct report *report)
{
	_cleanup_cdi_files_ struct cdi_files files = { 0 };
	int r = cdi_spec_read_files(config, &files);

	for (size_t i = 0; i < config->n_resources && r >= 0; i++) {
		const struct declaration *declaration = &config->resources[i].declaration;
		struct walk walk = { .declaration = declaration, .report = report };
		char context[CONTEXT_MAX];

		(void)snprintf(context, sizeof(context), "resources[%zu] \"%s\"",
			declaration->position, declaration->name);
		report->context = context;
		check_user(&walk);
		r = same_path_warnings(declaration, report);
		check_probes(&walk);
		check_kind(&walk, &files);
		check_attributes(&walk);
		check_driver(&walk, config, i);
		check_options(&walk, &declaration_table, declaration, "");
		report->context = NULL;
	}
	if (r >= 0)
		r = shared_names_find(config, on_shared_name, report);
	return r < 0 || report->incomplete ? -ENOMEM : 0;
}
