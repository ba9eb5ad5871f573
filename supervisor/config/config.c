/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading: the file and its drop-ins are read into one structure, checked together, and only then
 * become a configuration. What was read stays untouched after that.
 */
#include "config/config.h"

#include <syslog.h>

#include "config/check.h"
#include "config/parse.h"
#include "config/text.h"
#include "drivers/driver.h"
#include "drivers/form.h"

/* Stands for a file in problems of a text that came from elsewhere. */
#define TEXT_NAME "resource"

static int check_plugin_dir(const char *value, struct error *error)
{
	const size_t most = SOCKET_PATH_MAX - SOCKET_NAME_MAX - 1;
	size_t length = strlen(value);
	int r;

	r = form_absolute_path(value, error);
	if (r < 0)
		return r;
	if (length > most)
		return error_set(error, -EINVAL,
			"has %zu bytes, the most is %zu: the path of a socket has room for %d, of "
			"which \"/\" and the names of the sockets need %d",
			length, most, SOCKET_PATH_MAX, SOCKET_NAME_MAX + 1);
	return 0;
}

static const char *const registrations[] = { [REGISTRATION_SOCKET] = "socket", NULL };

static const struct option kubelet_options[] = {
	{
		.key = "device_plugin_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct kubelet_config, device_plugin_dir),
		.default_string = DEFAULT_PLUGIN_DIR,
		.check = check_plugin_dir,
		.help = "Directory where the kubelet has its socket and looks for ours.",
	},
	{
		.key = "registration",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct kubelet_config, registration),
		.default_integer = REGISTRATION_SOCKET,
		.choices = registrations,
		.help = "How the kubelet learns of a resource: by a call on its \"socket\".",
	},
};

static const struct option_table kubelet_table = {
	.name = "kubelet",
	.size = sizeof(struct kubelet_config),
	.options = kubelet_options,
	.count = ARRAY_SIZE(kubelet_options),
};

/* In the order of syslog's levels from LOG_ERR on. */
static const char *const log_levels[] = { "error", "warning", "notice", "info", "debug", NULL };

static const struct option config_options[] = {
	{
		.key = "runtime_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct config, runtime_dir),
		.maximum = 4000,
		.default_string = DEFAULT_RUNTIME_DIR,
		.check = form_absolute_path,
		.help = "Directory for state and the last accepted configuration.",
	},
	{
		.key = "log_level",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct config, log_level),
		.default_integer = LOG_INFO - LOG_ERR,
		.choices = log_levels,
		.help = "The least urgent messages that are logged.",
	},
	{
		.key = "kubelet",
		.type = OPTION_GROUP,
		.offset = offsetof(struct config, kubelet),
		.table = &kubelet_table,
		.help = "Where the kubelet is found.",
	},
	{
		.key = "resources",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct config, declared),
		.table = &declaration_table,
		.help = "The resources that are offered.",
	},
};

const struct option_table config_table = {
	.name = "configuration",
	.size = sizeof(struct config),
	.options = config_options,
	.count = ARRAY_SIZE(config_options),
};

static int config_new(struct config **ret)
{
	_cleanup_config_ struct config *config = calloc(1, sizeof(*config));

	if (!config)
		return -ENOMEM;
	if (option_table_init(&config_table, config) < 0)
		return -ENOMEM;
	*ret = TAKE_PTR(config);
	return 0;
}

struct config *config_free(struct config *config)
{
	if (!config)
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

/* "syntax error" alone helps nobody find it. */
static void report_syntax(const config_t *parsed, const char *file, struct report *report)
{
	const char *included = config_error_file(parsed);
	const char *what = config_error_text(parsed);
	struct origin origin = { .file = included ? included : file,
		.line = (unsigned)config_error_line(parsed) };

	(void)report_add(report, &origin, NULL, "%s%s", what,
		streq(what, "syntax error")
			? " here or just before: look for a missing \";\", \",\" or quote"
			: "");
}

/* Parses a text of that name and has `read` take from it what it holds. */
static void config_parse(struct config *config, const char *file, const char *text,
	struct report *report, void (*read)(struct parser *, config_setting_t *, struct config *))
{
	struct parser parser = { .sources = &config->sources, .report = report };
	config_t parsed;

	parser.file = source_name(&config->sources, file);
	if (!parser.file) {
		report->incomplete = true;
		return;
	}
	config_init(&parsed);
	if (config_read_string(&parsed, text))
		read(&parser, config_root_setting(&parsed), config);
	else
		report_syntax(&parsed, file, report);
	config_destroy(&parsed);
}

static void read_file(struct parser *parser, config_setting_t *root, struct config *config)
{
	struct origin before = config->origin;

	parse_file(parser, root, &config_table, config);
	/* The first file is the one that the whole is known by. */
	config->origin = before.file ? before : (struct origin){ .file = parser->file };
}

static int load_file(struct config *config, const char *path, bool drop_in, struct report *report)
{
	_cleanup_free_ char *text = NULL;
	int r;

	r = source_read(path, drop_in, report, &text);
	if (r < 0)
		return r;
	config_parse(config, path, text, report, read_file);
	return 0;
}

static int list_drop_ins(const char *path, struct report *report, struct strings *paths)
{
	_cleanup_free_ char *directory = NULL;
	int r;

	if (asprintf(&directory, "%s.d", path) < 0) {
		directory = NULL;
		return -ENOMEM;
	}
	r = source_list_drop_ins(directory, report, paths);
	if (r < 0 || !streq(path, DEFAULT_CONFIG_FILE))
		return r;
	return source_list_drop_ins(RUNTIME_DROP_IN_DIR, report, paths);
}

/* Directories are compared and joined as text later. */
static void strip_slashes(char *directory)
{
	for (size_t length = strlen(directory); length > 1 && directory[length - 1] == '/';)
		directory[--length] = '\0';
}

static int resource_text(const struct declaration *declaration, char **ret)
{
	_cleanup_free_ char *text = NULL;
	FILE *stream;
	size_t size;
	bool failed;

	stream = open_memstream(&text, &size);
	if (!stream)
		return -ENOMEM;
	text_write(stream, &declaration_table, declaration, TEXT_CANONICAL, 0);
	failed = ferror(stream);
	if (fclose(stream) != 0 || failed)
		return -ENOMEM;
	*ret = TAKE_PTR(text);
	return 0;
}

/* Moves what is to be served out of what was declared. */
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
		r = resource_text(declaration, &resource->text);
		if (r < 0)
			return r;
		resource->declaration = *declaration;
		memset(declaration, 0, sizeof(*declaration));
		config->n_resources++;
	}
	return 0;
}

/* Checks all that was read and completes the configuration. */
static int config_finish(struct config *config, const struct report *report, size_t before)
{
	if (report->incomplete)
		return -ENOMEM;
	if (report->count > before)
		return -EINVAL;
	strip_slashes(config->runtime_dir);
	strip_slashes(config->kubelet.device_plugin_dir);
	config->log_level += LOG_ERR;
	return take_enabled(config);
}

int config_load(const char *path, struct report *report, struct config **ret)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_strings_ struct strings drop_ins = { 0 };
	size_t before = report->count;
	int r, unread;

	r = config_new(&config);
	if (r < 0)
		return r;
	unread = load_file(config, path, false, report);
	r = list_drop_ins(path, report, &drop_ins);
	if (r < 0 && unread >= 0)
		unread = r;
	for (size_t i = 0; i < drop_ins.count; i++) {
		r = load_file(config, drop_ins.items[i], true, report);
		if (r < 0 && unread >= 0)
			unread = r;
	}
	if (unread < 0)
		return unread;
	(void)config_check(config, report);
	r = config_finish(config, report, before);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(config);
	return 0;
}

static void read_resource(struct parser *parser, config_setting_t *root, struct config *config)
{
	void *declaration;

	if (groups_add(&config->declared, &declaration) < 0)
		parser->report->incomplete = true;
	else
		parse_resource(parser, root, declaration);
}

int config_load_resource(const char *text, struct report *report, struct config **ret)
{
	_cleanup_config_ struct config *config = NULL;
	size_t before = report->count;
	int r;

	r = config_new(&config);
	if (r < 0)
		return r;
	r = lexical_check(TEXT_NAME, text, strlen(text), report, NULL, NULL);
	if (r < 0)
		return r;
	config_parse(config, TEXT_NAME, text, report, read_resource);
	(void)config_check(config, report);
	r = config_finish(config, report, before);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(config);
	return 0;
}

int config_dump(const struct config *config, FILE *stream)
{
	struct config settings = *config;

	settings.log_level -= LOG_ERR;
	settings.declared.count = 0;
	text_write(stream, &config_table, &settings, TEXT_FULL, 0);
	(void)fputs("resources = (", stream);
	for (size_t i = 0; i < config->n_resources; i++) {
		(void)fputs(i > 0 ? ", {\n" : "\n{\n", stream);
		text_write(stream, &declaration_table, &config->resources[i].declaration, TEXT_FULL,
			1);
		(void)fputs("}", stream);
	}
	(void)fputs(config->n_resources > 0 ? "\n);\n" : " );\n", stream);
	return ferror(stream) ? -EIO : 0;
}
