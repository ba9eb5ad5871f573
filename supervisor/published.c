/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is as it should be is not written again. Only documents that were checked get here,
 * so what is made a name of is a kind or an id, and cannot lead elsewhere.
 */
#include "published.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/sealed.h"
#include "drivers/publication.h"
#include "publication-check.h"
#include "published-table.h"

#define TEMPORARY ".tmp"

struct published {
	const struct config *config;
	struct published_table table;
};

int published_new(struct state *state, struct published **ret)
{
	_cleanup_(published_freep) struct published *published = calloc(1, sizeof(*published));
	int r;

	if (!published)
		return -ENOMEM;
	r = published_table_load(&published->table, state);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(published);
	return 0;
}

/* --- names --- */

static const struct declaration *find_declaration(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_resources; i++)
		if (streq(config->resources[i].declaration.name, name))
			return &config->resources[i].declaration;
	return NULL;
}

/* "=" is in no kind, so no two kinds have one name. */
static int cdi_path(const struct config *config, const char *kind, char **ret)
{
	const char *slash = strchr(kind, '/');

	return asprintf(ret, "%s/" PUBLISHED_PREFIX "%.*s=%s.json", config->cdi_dir,
		       (int)(slash - kind), kind, slash + 1) < 0
		? -ENOMEM
		: 0;
}

/* Section 4.1 of the specification says how. */
static int info_path(const struct config *config, const char *resource, const char *id, char **ret)
{
	_cleanup_free_ char *name = strdup(resource);

	if (!name)
		return -ENOMEM;
	*strchrnul(name, '/') = '-';
	return asprintf(ret, "%s/%s-%s-device.json", config->device_info_dir, name, id) < 0
		? -ENOMEM
		: 0;
}

static bool is_expected(const struct config *config, const struct published_file *file)
{
	const struct declaration *declaration = find_declaration(config, file->resource);
	_cleanup_free_ char *path = NULL;
	const char *name;

	if (!declaration)
		return false;
	if (file->info) {
		name = startswith(file->path, config->device_info_dir);
		return name && name[0] == '/' && !strchr(name + 1, '/');
	}
	return declaration->cdi_spec.kind &&
		cdi_path(config, declaration->cdi_spec.kind, &path) >= 0 && streq(path, file->path);
}

static bool is_declared(const struct config *config, const char *path)
{
	for (size_t i = 0; i < config->n_resources; i++) {
		const char *kind = config->resources[i].declaration.cdi_spec.kind;
		_cleanup_free_ char *expected = NULL;

		if (kind && cdi_path(config, kind, &expected) >= 0 && streq(expected, path))
			return true;
	}
	return false;
}

/* --- what a daemon before left, and a configuration before --- */

/* Removes what has our prefix and is half written, or (`all`) is no resource's. */
static void sweep(const struct config *config, const char *directory, bool all)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;

	while (stream && (entry = readdir(stream))) {
		_cleanup_free_ char *path = NULL;
		size_t length = strlen(entry->d_name);
		bool temporary = length > strlen(TEMPORARY) &&
			streq(entry->d_name + length - strlen(TEMPORARY), TEMPORARY);

		if (!startswith(entry->d_name, PUBLISHED_PREFIX) || (!temporary && !all) ||
			asprintf(&path, "%s/%s", directory, entry->d_name) < 0)
			continue;
		if (temporary || !is_declared(config, path))
			(void)unlink(path);
	}
	if (stream)
		(void)closedir(stream);
}

void published_configure(struct published *published, const struct config *config)
{
	published->config = config;
	for (size_t i = 0; i < published->table.n_files; i++)
		published->table.files[i]->kept = is_expected(config, published->table.files[i]);
	published_table_remove(&published->table, NULL);
	published_table_save(&published->table);
	sweep(config, config->cdi_dir, true);
	if (!streq(config->cdi_dir, config->device_info_dir))
		sweep(config, config->device_info_dir, false);
}

void published_stop(struct published *published)
{
	for (size_t i = 0; i < published->table.n_files; i++)
		published->table.files[i]->kept = !published->table.files[i]->info;
	published_table_remove(&published->table, NULL);
	published_table_save(&published->table);
}

/* --- writing --- */

static int write_file(const char *directory, const char *path, const json_t *content)
{
	_cleanup_free_ char *text = NULL, *temporary = NULL;
	_cleanup_fclose_ FILE *stream = NULL;
	int fd, r = 0;

	text = json_dumps(content, JSON_INDENT(2));
	if (!text ||
		asprintf(&temporary, "%s/" PUBLISHED_PREFIX "%016llx" TEMPORARY, directory,
			(unsigned long long)hash_string(path)) < 0)
		return -ENOMEM;
	r = state_make_directory(directory);
	if (r < 0)
		return r;
	(void)unlink(temporary);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	stream = fdopen(fd, "w");
	if (!stream) {
		r = -errno;
		(void)close_fd(fd);
	} else {
		(void)fchmod(fd, 0644);
		if (fputs(text, stream) < 0 || fputc('\n', stream) < 0 ||
			fclose(TAKE_PTR(stream)) != 0 || rename(temporary, path) < 0)
			r = -errno;
	}
	if (r < 0)
		(void)unlink(temporary);
	return r;
}

static int put_file(
	struct published *published, const char *path, const json_t *content, struct error *error)
{
	const struct config *config = published->config;
	_cleanup_free_ char *text = json_dumps(content, JSON_COMPACT | JSON_SORT_KEYS);
	struct published_file *file = map_get(&published->table.by_path, path);
	uint64_t hash;
	int r;

	if (!text || !file)
		return error_set(error, -ENOMEM, "out of memory");
	hash = hash_string(text);
	if (file->hash == hash && access(path, F_OK) == 0)
		return 0;
	r = write_file(file->info ? config->device_info_dir : config->cdi_dir, path, content);
	if (r < 0)
		return error_set(error, r, "cannot write %s: %s", path, strerror(-r));
	file->hash = hash;
	return 0;
}

/* Calls `act` for every file that the document stands for. */
static int for_each_file(struct published *published, const char *resource, const json_t *document,
	int (*act)(struct published *published, const char *resource, const char *path, bool info,
		const json_t *content, struct error *error),
	struct error *error)
{
	const json_t *spec = json_object_get(document, PUBLICATION_CDI);
	json_t *infos = json_object_get(document, PUBLICATION_DEVICE_INFO), *info;
	_cleanup_free_ char *cdi = NULL;
	const char *id;
	int r = 0;

	if (spec) {
		r = cdi_path(
			published->config, json_string_value(json_object_get(spec, "kind")), &cdi);
		r = r < 0 ? error_set(error, r, "out of memory")
			  : act(published, resource, cdi, false, spec, error);
	}
	if (r < 0)
		return r;
	json_object_foreach(infos, id, info)
	{
		_cleanup_free_ char *path = NULL;

		r = info_path(published->config, resource, id, &path);
		r = r < 0 ? error_set(error, r, "out of memory")
			  : act(published, resource, path, true, info, error);
		if (r < 0)
			return r;
	}
	return 0;
}

static int act_note(struct published *published, const char *resource, const char *path, bool info,
	const json_t *content, struct error *error)
{
	struct published_file *file = map_get(&published->table.by_path, path);

	if (!file)
		return published_table_add(&published->table, resource, path, info) < 0
			? error_set(error, -ENOMEM, "out of memory")
			: 0;
	if (!streq(file->resource, resource))
		return error_set(error, -EEXIST, "%s is a file of %s, too", path, file->resource);
	file->kept = true;
	return 0;
}

static int act_put(struct published *published, const char *resource, const char *path, bool info,
	const json_t *content, struct error *error)
{
	return put_file(published, path, content, error);
}

int published_take(struct published *published, const char *resource, int fd, struct error *error)
{
	const struct declaration *declaration = find_declaration(published->config, resource);
	_cleanup_free_ char *text = NULL;
	json_error_t json_error;
	json_t *document;
	size_t size;
	int r;

	if (!declaration)
		return error_set(error, -EBADMSG, "the resource is not declared");
	r = sealed_read(fd, PUBLICATION_BYTES_MAX, &text, &size);
	if (r < 0)
		return error_set(error, r, "it cannot be read: %s", strerror(-r));
	document = json_loadb(text, size, JSON_REJECT_DUPLICATES, &json_error);
	if (!document)
		return error_set(error, -EBADMSG, "it is no JSON: %s", json_error.text);
	r = publication_check(document, declaration->cdi_spec.kind, error);
	if (r >= 0) {
		for (size_t i = 0; i < published->table.n_files; i++)
			if (streq(published->table.files[i]->resource, resource))
				published->table.files[i]->kept = false;
		r = for_each_file(published, resource, document, act_note, error);
		published_table_save(&published->table);
		if (r >= 0)
			r = for_each_file(published, resource, document, act_put, error);
		published_table_remove(&published->table, resource);
		published_table_save(&published->table);
	}
	json_decref(document);
	return r;
}

struct published *published_free(struct published *published)
{
	if (!published)
		return NULL;
	published_table_done(&published->table);
	free(published);
	return NULL;
}
