/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a configuration: the file and its drop-ins are read into one structure, checked together,
 * and only then become a configuration, which never changes.
 */
#include "configuration/config.h"

#include <syslog.h>

#include "configuration/cdi-spec.h"
#include "configuration/check.h"
#include "configuration/libconfig-text.h"
#include "configuration/parse-resource.h"
#include "configuration/parse.h"
#include "drivers/model/driver.h"

/* The file name in problems of a text that is not from a file. */
#define TEXT_NAME "resource"

static int config_new(struct config **ret)
{
	_cleanup_config_ struct config *config = calloc(1, sizeof(*config));

	if (!config)
		return -ENOMEM;
	config->references = 1;
	if (option_table_init(&config_table, config) < 0)
		return -ENOMEM;
	*ret = TAKE_PTR(config);
	return 0;
}

struct config *config_free(struct config *config)
{
	if (!config || --config->references > 0)
		return NULL;
	for (size_t i = 0; i < config->n_resources; i++) {
		declaration_done(&config->resources[i].declaration);
		free(config->resources[i].text);
	}
	free(config->resources);
	option_table_done(&config_table, config);
	sources_free(config->sources);
	free(config);
	return NULL;
}

const struct resource_config *config_find(const struct config *config, const char *name)
{
	for (size_t i = 0; config && i < config->n_resources; i++)
		if (streq(config->resources[i].declaration.name, name))
			return &config->resources[i];
	return NULL;
}

bool config_has_labels(const struct config *config)
{
	for (size_t i = 0; i < config->n_resources; i++)
		if (config->resources[i].declaration.labels.count > 0)
			return true;
	return false;
}

const struct resource_config *resource_config_ref(const struct resource_config *resource)
{
	if (resource && resource->config)
		resource->config->references++;
	return resource;
}

const struct resource_config *resource_config_unref(const struct resource_config *resource)
{
	if (resource)
		(void)config_free(resource->config);
	return NULL;
}

/* Parses a text, and calls `read` to fill the configuration from it. */
static void config_parse(struct config *config, const struct source_text *text,
	struct report *report, void (*read)(struct parser *, config_setting_t *, struct config *))
{
	struct parser parser = { .text = text, .sources = &config->sources, .report = report };
	config_t parsed;

	config_init(&parsed);
	if (parse_text(text, report, &parsed) >= 0)
		read(&parser, config_root_setting(&parsed), config);
	config_destroy(&parsed);
}

/* Parses a text; messages name it as `file`. */
static void config_parse_text(struct config *config, const char *file, const char *text,
	struct report *report, void (*read)(struct parser *, config_setting_t *, struct config *))
{
	struct source_part part = { .line = 1, .origin = { .line = 1 } };
	struct source_text source = {
		.text = (char *)(uintptr_t)text, .parts = &part, .n_parts = 1
	};

	part.origin.file = source_name(&config->sources, file);
	if (part.origin.file)
		config_parse(config, &source, report, read);
	else
		report->incomplete = true;
}

static void read_file(struct parser *parser, config_setting_t *root, struct config *config)
{
	struct origin before = config->origin;

	parse_file(parser, root, &config_table, config);
	/* Messages about the whole name the first file. */
	config->origin = before.file
		? before
		: (struct origin){ .file = parser->text->parts[0].origin.file };
}

static void mark_cordons(struct config *config, size_t first)
{
	for (size_t i = first; i < config->cordon.count; i++)
		((struct cordon *)groups_get(&config->cordon, i))->set_by_command = true;
}

static int load_file(struct config *config, const char *path, bool drop_in, struct report *report)
{
	_cleanup_source_text_ struct source_text text = { 0 };
	int r;

	r = source_read(path, SOURCE_CONFIGURATION, &config->sources, report, &text);
	if (r < 0)
		return r;
	/* An editor may be about to write the file. An empty file would remove every resource. */
	if (!drop_in && !text.text[strspn(text.text, " \t\r\n")])
		return report_add(report, &(struct origin){ .file = path }, NULL,
			"is empty; to offer nothing, write \"resources = ( );\"");
	config_parse(config, &text, report, read_file);
	return 0;
}

int config_list_drop_ins(const char *path, struct report *report, struct strings *paths)
{
	_cleanup_free_ char *directory = NULL;
	int r;

	if (format_text(&directory, "%s.d", path) < 0)
		return -ENOMEM;
	r = source_list_drop_ins(directory, report, paths);
	if (r < 0 || !streq(path, DEFAULT_CONFIG_FILE))
		return r;
	return source_list_drop_ins(RUNTIME_DROP_IN_DIR, report, paths);
}

int config_runtime_drop_in_dir(const char *path, char **ret)
{
	return streq(path, DEFAULT_CONFIG_FILE) ? format_text(ret, "%s", RUNTIME_DROP_IN_DIR)
						: format_text(ret, "%s.d", path);
}

int config_cordon_file(const char *path, char **ret)
{
	_cleanup_free_ char *directory = NULL;
	int r;

	r = config_runtime_drop_in_dir(path, &directory);
	return r < 0 ? r : format_text(ret, "%s/" CORDON_FILE, directory);
}

static int load_cordon_file(struct config *config, const char *path, struct report *report)
{
	size_t first = config->cordon.count;
	int r;

	r = load_file(config, path, true, report);
	mark_cordons(config, first);
	return r;
}

/* Later code compares and joins directories as text. */
static void strip_slashes(char *directory)
{
	for (size_t length = strlen(directory); length > 1 && directory[length - 1] == '/';)
		directory[--length] = '\0';
}

/* The part of the id that applies to a resource: the pattern of its devices, or NULL if the id
 * names another resource. */
static const char *cordoned_ids(const char *id, const char *resource)
{
	const char *rest = startswith(id, resource);

	if (!strchr(id, '/'))
		return id;
	return rest && *rest == '/' ? rest + 1 : NULL;
}

static struct cordon *find_cordon(const struct groups *cordons, const char *ids)
{
	for (size_t i = 0; i < cordons->count; i++) {
		struct cordon *cordon = groups_get(cordons, i);

		if (streq(cordon->id, ids))
			return cordon;
	}
	return NULL;
}

/* Copies the cordons of the whole file that apply to a resource. The first of equal ones counts,
 * but one that is set by command only if no file sets it. */
static int distribute_cordons(const struct config *config, struct declaration *declaration)
{
	for (size_t i = 0; i < config->cordon.count; i++) {
		const struct cordon *cordon = groups_get(&config->cordon, i);
		const char *ids = cordoned_ids(cordon->id, declaration->name);
		struct cordon *copy = ids ? find_cordon(&declaration->cordon, ids) : NULL;
		void *element = copy;
		int r;

		if (!ids || (copy && (!copy->set_by_command || cordon->set_by_command)))
			continue;
		r = copy ? 0 : groups_add(&declaration->cordon, &element);
		if (r < 0)
			return r;
		copy = element;
		copy->origin = cordon->origin;
		copy->set_by_command = cordon->set_by_command;
		free(copy->id);
		free(copy->reason);
		copy->id = strdup(ids);
		copy->reason = cordon->reason ? strdup(cordon->reason) : NULL;
		if (!copy->id || (cordon->reason && !copy->reason))
			return -ENOMEM;
	}
	return 0;
}

static int distribute_root(const struct config *config, struct declaration *declaration)
{
	if (!declaration->host_root && !streq(config->host_root, "/")) {
		declaration->host_root = strdup(config->host_root);
		if (!declaration->host_root)
			return -ENOMEM;
	}
	if (declaration->host_root)
		strip_slashes(declaration->host_root);
	return 0;
}

static int resource_text(const struct declaration *declaration, char **ret)
{
	struct declaration shown = *declaration;
	_cleanup_free_ char *text = NULL;
	FILE *stream;
	size_t size;
	bool failed;

	shown.registration = REGISTRATION_DEFAULT;
	stream = open_memstream(&text, &size);
	if (!stream)
		return -ENOMEM;
	text_write(stream, &declaration_table, &shown, TEXT_CANONICAL, 0);
	failed = ferror(stream);
	if (fclose(stream) != 0 || failed)
		return -ENOMEM;
	*ret = TAKE_PTR(text);
	return 0;
}

/* Moves the enabled resources from `declared` to `resources`. */
static int take_enabled(struct config *config)
{
	config->resources =
		calloc(MAX_OF(config->declared.count, (size_t)1), sizeof(*config->resources));
	if (!config->resources)
		return -ENOMEM;
	for (size_t i = 0; i < config->declared.count; i++) {
		struct declaration *declaration = groups_get(&config->declared, i);
		struct resource_config *resource = &config->resources[config->n_resources];
		int r;

		if (!declaration->enabled)
			continue;
		r = distribute_cordons(config, declaration);
		if (r >= 0)
			r = distribute_root(config, declaration);
		if (r >= 0)
			r = resource_text(declaration, &resource->text);
		if (r < 0)
			return r;
		resource->registration = declaration->serve == SERVE_DRA ? REGISTRATION_DRA
			: declaration->registration == REGISTRATION_DEFAULT
			? (enum registration_way)config->kubelet.registration
			: (enum registration_way)declaration->registration;
		resource->declaration = *declaration;
		resource->config = config;
		memset(declaration, 0, sizeof(*declaration));
		config->n_resources++;
	}
	return 0;
}

const struct declaration *config_disabled(const struct config *config, size_t index)
{
	for (size_t i = 0; i < config->declared.count; i++) {
		const struct declaration *declaration = groups_get(&config->declared, i);

		if (declaration->name && index-- == 0)
			return declaration;
	}
	return NULL;
}

/* Fills in the default for a path below the kubelet's root directory. */
static int follow_root(const struct kubelet_config *kubelet, const char *below, char **path)
{
	if (*path)
		return 0;
	return format_text(
		path, "%s%s", streq(kubelet->root_dir, "/") ? "" : kubelet->root_dir, below);
}

static int complete_kubelet(struct kubelet_config *kubelet)
{
	int r;

	strip_slashes(kubelet->root_dir);
	strip_slashes(kubelet->device_plugin_dir);
	r = follow_root(kubelet, KUBELET_REGISTRY, &kubelet->plugins_registry_dir);
	if (r >= 0)
		r = follow_root(kubelet, KUBELET_POD_RESOURCES, &kubelet->pod_resources_socket);
	if (r >= 0)
		strip_slashes(kubelet->plugins_registry_dir);
	return r;
}

/* Checks everything that was read and completes the configuration. */
static int config_finish(struct config *config, const struct report *report, size_t before)
{
	int r;

	if (report->incomplete)
		return -ENOMEM;
	if (report->count > before)
		return -EINVAL;
	strip_slashes(config->runtime_dir);
	strip_slashes(config->host_root);
	r = complete_kubelet(&config->kubelet);
	if (r < 0)
		return r;
	config->log_level += LOG_ERR;
	r = config->cdi ? cdi_spec_assign(config) : 0;
	return r < 0 ? r : take_enabled(config);
}

static int load(const char *path, bool with_drop_ins, struct report *report, struct config **ret)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_strings_ struct strings drop_ins = { 0 };
	_cleanup_free_ char *cordon_file = NULL;
	size_t before = report->count;
	int r, unread;

	r = config_cordon_file(path, &cordon_file);
	if (r >= 0)
		r = config_new(&config);
	if (r < 0)
		return r;
	unread = load_file(config, path, false, report);
	if (with_drop_ins)
		r = config_list_drop_ins(path, report, &drop_ins);
	if (r < 0 && unread >= 0)
		unread = r;
	for (size_t i = 0; i < drop_ins.count; i++) {
		r = streq(drop_ins.items[i], cordon_file)
			? load_cordon_file(config, cordon_file, report)
			: load_file(config, drop_ins.items[i], true, report);
		if (r < 0 && unread >= 0)
			unread = r;
	}
	if (unread < 0)
		return unread;
	(void)config_check(config, true, report);
	r = config_finish(config, report, before);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(config);
	return 0;
}

int config_load(const char *path, struct report *report, struct config **ret)
{
	return load(path, true, report, ret);
}

int config_load_alone(const char *path, struct report *report, struct config **ret)
{
	return load(path, false, report, ret);
}

static void read_resource(struct parser *parser, config_setting_t *root, struct config *config)
{
	void *declaration;

	if (groups_add(&config->declared, &declaration) < 0)
		parser->report->incomplete = true;
	else
		parse_resource(parser, root, declaration);
}

static int load_text(const char *name, const char *text, size_t size, struct report *report,
	void (*read)(struct parser *parser, config_setting_t *root, struct config *config),
	struct config **ret)
{
	_cleanup_config_ struct config *config = NULL;
	size_t before = report->count;
	int r;

	r = config_new(&config);
	if (r < 0)
		return r;
	r = lexical_check(name, text, size, report, NULL, NULL);
	if (r < 0)
		return r;
	config_parse_text(config, name, text, report, read);
	mark_cordons(config, 0);
	(void)config_check(config, read == read_file, report);
	r = config_finish(config, report, before);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(config);
	return 0;
}

int config_load_text(
	const char *name, const char *text, size_t size, struct report *report, struct config **ret)
{
	return load_text(name, text, size, report, read_file, ret);
}

int config_load_resource(const char *text, struct report *report, struct config **ret)
{
	return load_text(TEXT_NAME, text, strlen(text), report, read_resource, ret);
}

/* The cordons of a list that are set by command, or all others. Borrowed; free `ret->items`. */
static int select_cordons(const struct groups *cordons, bool set_by_command, struct groups *ret)
{
	struct cordon *items = calloc(cordons->count + 1, sizeof(*items));
	size_t count = 0;

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < cordons->count; i++) {
		const struct cordon *cordon = groups_get(cordons, i);

		if (cordon->set_by_command == set_by_command)
			items[count++] = *cordon;
	}
	*ret = (struct groups){ .items = items, .count = count, .table = cordons->table };
	return 0;
}

static int dump_resource(const struct declaration *declaration, FILE *stream)
{
	struct declaration shown = *declaration;
	int r;

	r = select_cordons(&declaration->cordon, false, &shown.cordon);
	if (r < 0)
		return r;
	text_write(stream, &declaration_table, &shown, TEXT_FULL, 1);
	free(shown.cordon.items);
	return 0;
}

/* `by_command`: with the cordons that are set by command. */
static int dump(const struct config *config, bool by_command, FILE *stream)
{
	struct config settings = *config;
	int r;

	r = select_cordons(&config->cordon, true, &settings.cordon);
	if (r < 0)
		return r;
	if (!by_command)
		settings.cordon.count = 0;
	settings.log_level -= LOG_ERR;
	settings.declared.count = 0;
	text_write(stream, &config_table, &settings, TEXT_FULL, 0);
	free(settings.cordon.items);
	(void)fputs("resources = (", stream);
	for (size_t i = 0; i < config->n_resources && r >= 0; i++) {
		(void)fputs(i > 0 ? ", {\n" : "\n{\n", stream);
		r = dump_resource(&config->resources[i].declaration, stream);
		(void)fputs("}", stream);
	}
	(void)fputs(config->n_resources > 0 ? "\n);\n" : " );\n", stream);
	return ferror(stream) ? -EIO : r;
}

int config_dump(const struct config *config, FILE *stream)
{
	return dump(config, true, stream);
}

static int text_without_cordons(const struct config *config, char **ret)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	int r;

	if (!stream)
		return -ENOMEM;
	r = dump(config, false, stream);
	if (fclose(stream) != 0 || r < 0)
		return -ENOMEM;
	*ret = TAKE_PTR(text);
	return 0;
}

int config_load_cordons(
	const struct config *config, const char *path, struct report *report, struct config **ret)
{
	_cleanup_config_ struct config *changed = NULL;
	_cleanup_free_ char *cordon_file = NULL, *text = NULL;
	size_t before = report->count;
	int r;

	r = config_cordon_file(path, &cordon_file);
	if (r >= 0)
		r = text_without_cordons(config, &text);
	if (r >= 0)
		r = config_new(&changed);
	if (r < 0)
		return r;
	config_parse_text(changed, path, text, report, read_file);
	if (access(cordon_file, F_OK) == 0)
		r = load_cordon_file(changed, cordon_file, report);
	if (r < 0)
		return r;
	(void)config_check(changed, true, report);
	r = config_finish(changed, report, before);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(changed);
	return 0;
}
