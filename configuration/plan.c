/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the resources and the keys of the daemon that a reload changes, for the log and `--diff`;
 * supervisor/reload.c applies it. Values are compared by their text form, key by key of the option
 * tables, so a new key takes part without a change here.
 */
#include "configuration/plan.h"

#include <syslog.h>

#include "configuration/cdi-spec.h"
#include "configuration/libconfig-text.h"

/* Names of some keys, ", " between them. */
struct keys {
	char *text;
	size_t size;
	FILE *stream;
	unsigned count;
};

static int keys_open(struct keys *keys)
{
	keys->stream = open_memstream(&keys->text, &keys->size);
	return keys->stream ? 0 : -ENOMEM;
}

static void keys_add(struct keys *keys, const char *key)
{
	(void)fprintf(keys->stream, "%s%s", keys->count > 0 ? ", " : "", key);
	keys->count++;
}

static int keys_close(struct keys *keys)
{
	bool failed = ferror(keys->stream);

	failed = fclose(keys->stream) != 0 || failed;
	keys->stream = NULL;
	return failed ? -ENOMEM : 0;
}

static void keys_done(struct keys *keys)
{
	fclosep(&keys->stream);
	free(keys->text);
}

/* "key = value;", or nothing if it has the default. */
static int value_text(const struct option *option, const void *structure, char **ret)
{
	const struct option_table table = { .name = option->key, .options = option, .count = 1 };
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	bool failed;

	if (!stream)
		return -ENOMEM;
	text_write(stream, &table, structure, TEXT_CANONICAL, 0);
	failed = ferror(stream);
	failed = fclose(stream) != 0 || failed;
	if (failed) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	return 0;
}

/* Returns 1 if the values differ, 0 if not, or -ENOMEM. */
static int value_differs(const struct option *option, const void *from, const void *to)
{
	_cleanup_free_ char *old = NULL, *new = NULL;
	int r;

	r = value_text(option, from, &old);
	if (r >= 0)
		r = value_text(option, to, &new);
	return r < 0 ? r : !streq(old, new);
}

static int add_line(struct plan *plan, bool change, const char *name, char *text)
{
	struct plan_line line = { .text = text, .name = name ? strdup(name) : NULL };

	if (!text || (name && !line.name) ||
		array_reserve((void **)&plan->lines, plan->count, sizeof(line)) < 0) {
		free(text);
		free(line.name);
		return -ENOMEM;
	}
	plan->lines[plan->count++] = line;
	plan->n_changes += change;
	return 0;
}

_printf_(4, 5) static int add_text(
	struct plan *plan, bool change, const char *name, const char *format, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, format);
	(void)vformat_text(&text, format, ap);
	va_end(ap);
	return add_line(plan, change, name, text);
}

/* --- the daemon's own keys --- */

static int compare_keys(struct plan *plan, const struct option_table *table, const char *prefix,
	const void *from, const void *to)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct option *option = &table->options[i];
		const void *old = (const char *)from + option->offset;
		const void *new = (const char *)to + option->offset;
		bool refused = streq(option->key, "runtime_dir");
		int r = 0;

		/* The only lists are resources and cordons; both change resources. */
		if (option->type == OPTION_GROUP) {
			char group[64];

			(void)snprintf(group, sizeof(group), "%s.", option->key);
			r = compare_keys(plan, option->table, group, old, new);
		} else if (option->type != OPTION_GROUPS)
			r = value_differs(option, from, to);
		if (r > 0)
			r = add_text(plan, true, NULL, "%s change %s%s%s", refused ? "!" : "~",
				prefix, option->key,
				refused ? " (refused: it needs a restart)" : "");
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- resources --- */

static int list_changes(
	const struct resource_config *from, const struct resource_config *to, struct keys *keys)
{
	for (size_t i = 0; i < declaration_table.count; i++) {
		const struct option *option = &declaration_table.options[i];
		int r;

		/* Compares the effective value, which also depends on the kubelet's section. */
		if (option->offset == offsetof(struct declaration, registration))
			r = from->registration != to->registration &&
				from->declaration.serve == to->declaration.serve;
		else
			r = value_differs(option, &from->declaration, &to->declaration);
		if (r < 0)
			return r;
		if (r > 0)
			keys_add(keys, option->key);
	}
	return 0;
}

/* What `cdi` does not change, or NULL. */
static const char *cdi_exemption(const struct resource_config *resource)
{
	return resource->config->cdi ? cdi_spec_exempts(&resource->declaration) : NULL;
}

/* The line of a resource; it ends in what `cdi` does not change. */
static int add_resource(struct plan *plan, bool change, const struct resource_config *resource,
	const char *verb, const char *keys)
{
	const char *name = resource->declaration.name, *reason = cdi_exemption(resource);

	return add_text(plan, change, name, "%s %s%s%s%s%s", verb, name, keys,
		reason ? " (cdi does not apply: " : "", reason ?: "", reason ? ")" : "");
}

static bool is_kept(const struct resource_config *from, const struct resource_config *to)
{
	return streq(from->text, to->text) && from->registration == to->registration;
}

static int compare_resources(
	struct plan *plan, const struct resource_config *from, const struct resource_config *to)
{
	_cleanup_(keys_done) struct keys keys = { 0 };
	int r;

	if (is_kept(from, to))
		return cdi_exemption(to) ? add_resource(plan, false, to, "= keep", "") : 0;
	r = keys_open(&keys);
	if (r < 0)
		return r;
	(void)fputs(": ", keys.stream);
	r = list_changes(from, to, &keys);
	if (r >= 0)
		r = keys_close(&keys);
	return r < 0 ? r : add_resource(plan, true, to, "~ change", keys.text);
}

/* One line for all resources that stay and have no line of their own. */
static int add_kept(struct plan *plan, const struct config *from, const struct config *to)
{
	size_t n = 0;

	for (size_t i = 0; i < to->n_resources; i++) {
		const struct resource_config *new = &to->resources[i];
		const struct resource_config *old = config_find(from, new->declaration.name);

		n += old && is_kept(old, new) && !cdi_exemption(new);
	}
	return n == 0 ? 0
		      : add_text(plan, false, NULL, "= keep %zu resource%s", n, n == 1 ? "" : "s");
}

static int fill(struct plan *plan, const struct config *from, const struct config *to)
{
	int r = 0;

	if (from) {
		struct config old = *from, new = *to;

		/* The tables store the index of the choice. */
		old.log_level -= LOG_ERR;
		new.log_level -= LOG_ERR;
		r = compare_keys(plan, &config_table, "", &old, &new);
	}
	for (size_t i = 0; i < to->n_resources && r >= 0; i++) {
		const struct resource_config *new = &to->resources[i];
		const struct resource_config *old = config_find(from, new->declaration.name);

		r = old ? compare_resources(plan, old, new)
			: add_resource(plan, true, new, "+ add", "");
	}
	for (size_t i = 0; from && i < from->n_resources && r >= 0; i++) {
		const char *name = from->resources[i].declaration.name;

		if (!config_find(to, name))
			r = add_text(plan, true, name, "- remove %s", name);
	}
	return r < 0 || !from ? r : add_kept(plan, from, to);
}

int plan_check_kept(
	const struct config *from, const struct config *to, const char *file, struct report *report)
{
	const struct origin origin = { .file = file };

	/* The package's service may write to the default directory, and to those that are allowed.
	 */
	bool allowed = streq(to->runtime_dir, DEFAULT_RUNTIME_DIR);

	if (streq(from->runtime_dir, to->runtime_dir))
		return 0;
	return report_add(report, &origin, "runtime_dir",
		"cannot change from \"%s\" while devplugd runs: run \"%s%s%ssystemctl restart devplugd\", or undo the change",
		from->runtime_dir, allowed ? "" : "devplugctl allow ",
		allowed ? "" : to->runtime_dir, allowed ? "" : " && ");
}

int plan_make(const struct config *from, const struct config *to, struct plan *ret)
{
	_cleanup_plan_ struct plan plan = { 0 };
	int r;

	r = fill(&plan, from, to);
	if (r < 0)
		return r;
	*ret = plan;
	plan = (struct plan){ 0 };
	return 0;
}

void plan_done(struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		free(plan->lines[i].text);
		free(plan->lines[i].name);
	}
	free(plan->lines);
}
