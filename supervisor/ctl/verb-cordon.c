/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cordons devices: a drop-in that only this file writes, kept until the host reboots. The daemon
 * can apply it without other files, so that an error in another file cannot keep a cordon from
 * taking effect. A daemon that starts reads it with the other drop-ins.
 */
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/replace-file.h"
#include "common/utf8.h"
#include "configuration/last-accepted.h"
#include "configuration/libconfig-text.h"
#include "supervisor/control/ask.h"
#include "supervisor/ctl/table.h"
#include "supervisor/ctl/verb.h"

struct drop_in {
	char *directory, *path;
	int directory_fd; /* locked */
	struct groups cordons;
};

static void drop_in_done(struct drop_in *drop_in)
{
	free(drop_in->directory);
	free(drop_in->path);
	(void)close_fd(drop_in->directory_fd);
	groups_done(&drop_in->cordons);
}

static int read_cordons(struct drop_in *drop_in, struct error *error)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	int r;

	if (faccessat(drop_in->directory_fd, CORDON_FILE, F_OK, 0) < 0 && errno == ENOENT)
		return 0;
	r = config_load_alone(drop_in->path, &report, &config);
	if (r < 0)
		return error_set(error, r, "%s:%u: %s; correct or remove that file", drop_in->path,
			report.count > 0 ? report.entries[0].origin.line : 0,
			report.count > 0 ? report.entries[0].text : strerror(-r));
	drop_in->cordons = config->cordon;
	config->cordon = (struct groups){ .table = drop_in->cordons.table };
	return 0;
}

static int open_drop_in(const char *config_file, struct drop_in *drop_in, struct error *error)
{
	if (config_runtime_drop_in_dir(config_file, &drop_in->directory) < 0 ||
		format_text(&drop_in->path, "%s/" CORDON_FILE, drop_in->directory) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	if (mkdir(drop_in->directory, 0755) == 0)
		(void)chmod(drop_in->directory, 0755);
	else if (errno != EEXIST)
		return error_set(
			error, -errno, "cannot create %s: %s", drop_in->directory, strerror(errno));
	drop_in->directory_fd = open(drop_in->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (drop_in->directory_fd < 0 || RETRY_ON_EINTR(flock(drop_in->directory_fd, LOCK_EX)) < 0)
		return error_set(
			error, -errno, "cannot open %s: %s", drop_in->directory, strerror(errno));
	return read_cordons(drop_in, error);
}

static int write_text(int fd, const struct groups *cordons)
{
	const struct option *option = option_table_find(&config_table, "cordon");
	const struct option_table table = { .name = "drop-in", .options = option, .count = 1 };
	const struct config holder = { .cordon = *cordons };
	FILE *stream = fdopen(fd, "w");
	bool failed;

	if (!stream) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	(void)fputs(
		"# Written by \"devplugctl cordon\"; \"devplugctl uncordon\" removes entries.\n",
		stream);
	text_write(stream, &table, &holder, TEXT_CANONICAL, 0);
	failed = ferror(stream);
	failed = fclose(stream) != 0 || failed;
	return failed ? -EIO : 0;
}

static int write_cordons(const struct drop_in *drop_in, struct error *error)
{
	int directory_fd = drop_in->directory_fd, r;

	if (drop_in->cordons.count == 0) {
		if (unlinkat(directory_fd, CORDON_FILE, 0) < 0 && errno != ENOENT)
			return error_set(error, -errno, "cannot remove %s: %s", drop_in->path,
				strerror(errno));
		return 0;
	}
	r = replace_file_begin(directory_fd, CORDON_FILE, 0644);
	if (r >= 0)
		r = replace_file_end(directory_fd, CORDON_FILE, write_text(r, &drop_in->cordons));
	if (r < 0)
		return error_set(error, r, "cannot write %s: %s", drop_in->path, strerror(-r));
	return 0;
}

static int set_cordon(struct drop_in *drop_in, const char *id, const char *reason)
{
	struct cordon *cordon = NULL;
	void *element;

	for (size_t i = 0; i < drop_in->cordons.count && !cordon; i++) {
		struct cordon *there = groups_get(&drop_in->cordons, i);

		if (streq(there->id, id))
			cordon = there;
	}
	if (!cordon) {
		if (groups_add(&drop_in->cordons, &element) < 0)
			return -ENOMEM;
		cordon = element;
		cordon->id = strdup(id);
	}
	free(cordon->reason);
	cordon->reason = reason ? strdup(reason) : NULL;
	return cordon->id && (!reason || cordon->reason) ? 0 : -ENOMEM;
}

static bool has_device(const json_t *resource, const char *pattern)
{
	const json_t *devices = json_object_get(resource, "devices");

	for (size_t i = 0; i < json_array_size(devices); i++)
		if (fnmatch(pattern, text_of(json_array_get(devices, i), "id"), 0) == 0)
			return true;
	return false;
}

/* ", did you mean \"gpu-1\"?" (malloc'ed), or NULL. */
static char *suggest(const json_t *names, const char *subject)
{
	const char *suggestion = daemon_state_suggest(names, "id", subject);
	char *text = NULL;

	if (suggestion)
		(void)format_text(&text, ", did you mean \"%s\"?", suggestion);
	return text;
}

/* If the subject names a resource, it is compared with names that do. */
static char *suggest_cordon(const struct drop_in *drop_in, const char *subject)
{
	json_auto_t *names = json_array();

	for (size_t i = 0; i < drop_in->cordons.count; i++) {
		const char *id = ((struct cordon *)groups_get(&drop_in->cordons, i))->id;
		const char *slash = strchr(subject, '/') ? NULL : strrchr(id, '/');

		(void)json_array_append_new(
			names, json_pack("{s:s}", "id", slash ? slash + 1 : id));
	}
	return suggest(names, subject);
}

/* Suggests the id of a device. */
static char *suggest_device(const struct daemon_state *daemon, const char *subject)
{
	json_auto_t *names = json_array();
	json_t *resource, *device;
	size_t i, k;

	json_array_foreach(json_object_get(daemon->root, "resources"), i, resource)
	{
		json_array_foreach(json_object_get(resource, "devices"), k, device)
		{
			const char *id = text_of(device, "id");

			(void)json_array_append_new(names,
				strchr(subject, '/')
					? json_pack("{s:o}", "id",
						  json_sprintf(
							  "%s/%s", text_of(resource, "name"), id))
					: json_pack("{s:s}", "id", id));
		}
	}
	return suggest(names, subject);
}

/* Cordons a device that was named without its resource, in each resource that has it. */
static int cordon_found(struct drop_in *drop_in, const struct command_line *line,
	const struct daemon_state *daemon, struct error *error)
{
	const json_t *resources = json_object_get(daemon->root, "resources");
	unsigned found = 0;

	if (daemon->unanswered.code < 0)
		return error_set(error, -ENODATA, "%s; name the device as RESOURCE/DEVICE",
			daemon->unanswered.message);
	for (size_t i = 0; i < json_array_size(resources); i++) {
		const json_t *resource = json_array_get(resources, i);
		_cleanup_free_ char *id = NULL;

		if (!has_device(resource, line->subject))
			continue;
		(void)format_text(&id, "%s/%s", text_of(resource, "name"), line->subject);
		if (!id || set_cordon(drop_in, id, line->reason) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		(void)printf("%s is cordoned\n", id);
		found++;
	}
	if (found == 0) {
		_cleanup_free_ char *hint = suggest_device(daemon, line->subject);

		return error_set(error, -ENOENT,
			"no resource has a device \"%s\"%s Use --force with RESOURCE/DEVICE to cordon a device that does not exist yet",
			line->subject, hint ?: "; see \"devplugctl devices\".");
	}
	return 0;
}

/* Whether a resource of the daemon has a device that matches "RESOURCE/ID" or "ID". */
static bool is_there(const struct daemon_state *daemon, const char *subject)
{
	const char *slash = strrchr(subject, '/');
	json_t *resource;
	size_t i;

	json_array_foreach(json_object_get(daemon->root, "resources"), i, resource)
	{
		const char *rest = startswith(subject, text_of(resource, "name"));

		if (slash ? rest && rest == slash && has_device(resource, slash + 1)
			  : has_device(resource, subject))
			return true;
	}
	return false;
}

static int cordon_named(struct drop_in *drop_in, const struct command_line *line,
	const struct daemon_state *daemon, struct error *error)
{
	/* Without an answer, the name cannot be checked. */
	if (!line->force && daemon->unanswered.code == 0 && !is_there(daemon, line->subject)) {
		_cleanup_free_ char *hint = suggest_device(daemon, line->subject);

		return error_set(error, -ENOENT,
			"%s does not exist%s Use --force to cordon a device that does not exist yet",
			line->subject, hint ?: "; see \"devplugctl devices\".");
	}
	if (set_cordon(drop_in, line->subject, line->reason) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	(void)printf("%s is cordoned\n", line->subject);
	return 0;
}

static int add_cordons(struct drop_in *drop_in, const struct command_line *line,
	const struct daemon_state *daemon, struct error *error)
{
	const struct option *id = option_table_find(&config_cordon_table, "id");
	const char *reason = line->reason;
	struct error form = { 0 };

	if (id->check(line->subject, &form) < 0 || !utf8_is_valid(line->subject) ||
		strlen(line->subject) > (size_t)id->maximum || *line->subject == '\0')
		return error_set(error, -EINVAL, "a device %s",
			form.code < 0 ? form.message : "must be named by its id");
	if (reason &&
		(*reason == '\0' || !utf8_is_valid(reason) || strlen(reason) > CORDON_REASON_MAX))
		return error_set(error, -EINVAL, "the reason must be UTF-8 of 1 to %d bytes",
			CORDON_REASON_MAX);
	if (strchr(line->subject, '/'))
		return cordon_named(drop_in, line, daemon, error);
	return cordon_found(drop_in, line, daemon, error);
}

static const char *device_of(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash ? slash + 1 : name;
}

/* The entry of the drop-in that covers "RESOURCE/ID" or "ID", or NULL. */
static const struct cordon *find_own(const struct drop_in *drop_in, const char *name)
{
	for (size_t i = 0; i < drop_in->cordons.count; i++) {
		const struct cordon *cordon = groups_get(&drop_in->cordons, i);
		bool whole = strchr(name, '/') && strchr(cordon->id, '/');

		if (fnmatch(whole ? cordon->id : device_of(cordon->id),
			    whole ? name : device_of(name), 0) == 0)
			return cordon;
	}
	return NULL;
}

/* Finds the cordon of a device in the other files. */
static const struct cordon *find_other(
	const struct drop_in *drop_in, const struct config *config, const char *name)
{
	const char *slash = strrchr(name, '/');

	for (size_t i = 0; i < config->n_resources; i++) {
		const struct declaration *declaration = &config->resources[i].declaration;
		const char *rest = startswith(name, declaration->name);

		if (slash && (!rest || rest != slash))
			continue;
		for (size_t k = 0; k < declaration->cordon.count; k++) {
			const struct cordon *cordon = groups_get(&declaration->cordon, k);

			if (!streq(cordon->origin.file ?: "", drop_in->path) &&
				fnmatch(cordon->id, device_of(name), 0) == 0)
				return cordon;
		}
	}
	return NULL;
}

/* Describes the cordon of a device and how to lift it (malloc'ed), or NULL. `config` may be
 * NULL. */
static char *describe_cordon(
	const struct drop_in *drop_in, const struct config *config, const char *name)
{
	const struct cordon *own = find_own(drop_in, name);
	const struct cordon *other = own || !config ? NULL : find_other(drop_in, config, name);
	char *text = NULL;

	if (own)
		(void)format_text(
			&text, "\"%s\": run \"devplugctl uncordon '%s'\"", own->id, own->id);
	else if (other)
		(void)format_text(&text, "\"%s\" at %s:%u: remove that entry", other->id,
			other->origin.file ?: "", other->origin.line);
	return text;
}

/* Describes the cordon of a device, which may be named without its resource. */
static char *describe_cordon_of(const struct drop_in *drop_in, const struct config *config,
	const char *subject, const struct daemon_state *daemon)
{
	json_t *resource;
	size_t i;

	if (strchr(subject, '/'))
		return describe_cordon(drop_in, config, subject);
	json_array_foreach(json_object_get(daemon->root, "resources"), i, resource)
	{
		_cleanup_free_ char *name = NULL;
		char *text;

		if (!has_device(resource, subject))
			continue;
		(void)format_text(&name, "%s/%s", text_of(resource, "name"), subject);
		text = name ? describe_cordon(drop_in, config, name) : NULL;
		if (text)
			return text;
	}
	return NULL;
}

/* Reports the cordon of a device without an entry of its own in the drop-in. */
static int explain_missing(const struct drop_in *drop_in, const struct config *config,
	const char *subject, const struct daemon_state *daemon, struct error *error)
{
	_cleanup_free_ char *cordon = describe_cordon_of(drop_in, config, subject, daemon);
	_cleanup_free_ char *hint = NULL;

	if (cordon)
		return error_set(error, -ENOENT, "%s is cordoned by %s", subject, cordon);
	if (!config)
		return error_set(error, -EINVAL,
			"%s is not in %s; \"devplugd --check\" shows why the other files cannot be searched",
			subject, drop_in->path);
	if (!is_there(daemon, subject))
		hint = suggest_cordon(drop_in, subject) ?: suggest_device(daemon, subject);
	return error_set(error, -ENOENT, "%s is not cordoned%s", subject,
		hint ?: "; see \"devplugctl cordon --list\"");
}

/* A device without its resource matches in every resource. A cordon that is a pattern matches the
 * same pattern, and one that matches its text. */
static bool is_meant(const char *id, const char *subject)
{
	const char *slash = strrchr(id, '/');

	return streq(id, subject) || fnmatch(subject, id, 0) == 0 ||
		(slash && !strchr(subject, '/') &&
			(streq(slash + 1, subject) || fnmatch(subject, slash + 1, 0) == 0));
}

/* Returns 1 if another cordon still covers a removed one, or 0. */
static int report_removed(
	const struct drop_in *drop_in, const struct config *config, const struct strings *removed)
{
	int r = 0;

	for (size_t i = 0; i < removed->count; i++) {
		_cleanup_free_ char *cordon = describe_cordon(drop_in, config, removed->items[i]);

		if (cordon)
			(void)fprintf(stderr, "devplugctl: %s is still cordoned by %s\n",
				removed->items[i], cordon);
		else
			(void)printf("%s is not cordoned any more\n", removed->items[i]);
		r = cordon ? 1 : r;
	}
	return r;
}

static void drop_meant(struct groups *cordons, const char *subject)
{
	size_t n = 0;

	for (size_t i = 0; i < cordons->count; i++) {
		struct cordon *cordon = groups_get(cordons, i);
		struct cordon *place = groups_get(cordons, n);

		if (is_meant(cordon->id, subject)) {
			option_table_done(cordons->table, cordon);
			continue;
		}
		if (place != cordon)
			*place = *cordon;
		n++;
	}
	cordons->count = n;
}

static int remove_cordons(struct drop_in *drop_in, const struct command_line *line,
	const struct daemon_state *daemon, struct error *error)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	_cleanup_strings_ struct strings removed = { 0 };

	for (size_t i = 0; i < drop_in->cordons.count; i++) {
		const struct cordon *cordon = groups_get(&drop_in->cordons, i);

		if (is_meant(cordon->id, line->subject) &&
			strings_add(&removed, cordon->id, strlen(cordon->id)) < 0)
			return error_set(error, -ENOMEM, "out of memory");
	}
	drop_meant(&drop_in->cordons, line->subject);
	(void)config_load(command_line_config_file(line, daemon), &report, &config);
	if (removed.count == 0)
		return explain_missing(drop_in, config, line->subject, daemon, error);
	return report_removed(drop_in, config, &removed);
}

/* Returns the result of the edit, which is not negative, or negative errno. */
static int change(const struct command_line *line,
	int (*edit)(struct drop_in *drop_in, const struct command_line *line,
		const struct daemon_state *daemon, struct error *error),
	struct daemon_state *daemon, struct error *error)
{
	_cleanup_(drop_in_done) struct drop_in drop_in = {
		.directory_fd = -EBADF,
		.cordons.table = &config_cordon_table,
	};
	int r, written;

	r = daemon_state_read(line->config_file, line->runtime_dir, daemon, error);
	if (r >= 0)
		r = require_root(daemon, line->verb, error);
	if (r >= 0)
		r = require_config_file(line, daemon, error);
	if (r < 0)
		return r;
	r = open_drop_in(command_line_config_file(line, daemon), &drop_in, error);
	if (r >= 0)
		r = edit(&drop_in, line, daemon, error);
	if (r < 0)
		return r;
	written = write_cordons(&drop_in, error);
	return written < 0 ? written : r;
}

static int run(const struct command_line *line,
	int (*edit)(struct drop_in *drop_in, const struct command_line *line,
		const struct daemon_state *daemon, struct error *error))
{
	_cleanup_(daemon_state_done) struct daemon_state daemon = { 0 };
	struct error error = { 0 };
	int r, status;

	r = change(line, edit, &daemon, &error);
	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	status = r > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	(void)fflush(stdout);
	if (!daemon.running) {
		(void)fprintf(stderr,
			"devplugctl: " NOT_RUNNING_FORMAT "; this takes effect when it starts\n",
			daemon.runtime_dir);
		return status;
	}
	r = have_applied(&daemon, "cordons", &error);
	if (r < 0)
		(void)fprintf(stderr, "devplugctl: the change is saved, but not applied yet: %s\n",
			error.message);
	return r < 0 ? EXIT_FAILURE : status;
}

static bool is_listed(const json_t *array, const char *file, unsigned line)
{
	json_t *cordon;
	size_t i;

	json_array_foreach(array, i, cordon)
	{
		if (file && streq(text_of(cordon, "file"), file) &&
			integer_of(cordon, "line") == (json_int_t)line)
			return true;
	}
	return false;
}

static void list_cordon(
	struct table *table, json_t *array, const struct cordon *cordon, const char *id)
{
	(void)json_array_append_new(array,
		json_pack("{s:s, s:s, s:s, s:i}", "id", id, "reason", cordon->reason ?: "", "file",
			cordon->origin.file ?: "", "line", (int)cordon->origin.line));
	table_add(table, COLOUR_NONE, "%s", id);
	table_add(table, COLOUR_NONE, "%s:%u", cordon->origin.file ?: "", cordon->origin.line);
	table_add(table, COLOUR_NONE, "%s", cordon->reason ?: "");
}

/* Lists the cordons of the file, then those of each resource. */
static void list_all(struct table *table, json_t *array, const struct config *config)
{
	for (size_t i = 0; i < config->cordon.count; i++) {
		const struct cordon *cordon = groups_get(&config->cordon, i);

		list_cordon(table, array, cordon, cordon->id);
	}
	for (size_t i = 0; i < config->n_resources; i++) {
		const struct declaration *declaration = &config->resources[i].declaration;

		for (size_t k = 0; k < declaration->cordon.count; k++) {
			const struct cordon *cordon = groups_get(&declaration->cordon, k);
			_cleanup_free_ char *id = NULL;

			/* In a resource's copy of a cordon of the file, the id does not contain the
			 * resource. */
			if (is_listed(array, cordon->origin.file, cordon->origin.line))
				continue;
			(void)format_text(&id, "%s/%s", declaration->name, cordon->id);
			list_cordon(table, array, cordon, id ?: cordon->id);
		}
	}
}

/* Loads the cordons of the files or, if these are not valid, of the applied configuration. */
static int load_listed(const struct command_line *line, struct config **ret)
{
	const char *file = line->config_file ?: DEFAULT_CONFIG_FILE;
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *runtime_dir = NULL;
	struct error error = { 0 };
	int r;

	r = config_load(file, &report, ret);
	if (r >= 0)
		return 0;
	print_report(&report, file);
	if (command_line_runtime_dir(line, &runtime_dir, &error) < 0 ||
		last_accepted_load(runtime_dir, ret, &error) < 0)
		return r;
	(void)fputs(
		"devplugctl: the configuration files are not valid; these are the applied cordons:\n",
		stderr);
	return 0;
}

static int list_cordons(const struct command_line *line)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_(table_freep) struct table *table = NULL;
	json_auto_t *array = json_array();
	json_auto_t *root = json_pack("{s:i, s:O}", "version", DOCUMENT_VERSION, "cordons", array);

	if (load_listed(line, &config) < 0)
		return EXIT_CONFIG;
	if (!root || table_new(3, &table) < 0)
		return EXIT_FAILURE;
	table_add(table, COLOUR_NONE, "DEVICE");
	table_add(table, COLOUR_NONE, "WHERE");
	table_add(table, COLOUR_NONE, "REASON");
	list_all(table, array, config);
	if (line->json)
		(void)(json_dumpf(root, stdout, JSON_INDENT(2)) >= 0 && puts(""));
	else
		(void)table_print(table);
	return fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int command_cordon(const struct command_line *line)
{
	if (line->list)
		return list_cordons(line);
	return run(line, add_cordons);
}

int command_uncordon(const struct command_line *line)
{
	return run(line, remove_cordons);
}
