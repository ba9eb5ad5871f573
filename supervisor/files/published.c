/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and removes the files that describe devices to other programs, decides their names and
 * which resource may have a name, and finds those that were removed or changed. A file is
 * written only if it differs. Only checked documents get here, so the names of files are made from
 * a kind or an id and cannot lead elsewhere.
 */
#include "supervisor/files/published.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/replace-file.h"
#include "common/sealed.h"
#include "drivers/allocation/publication.h"
#include "supervisor/files/publication-form.h"
#include "supervisor/files/publication-policy.h"
#include "supervisor/files/published-table.h"

struct published {
	const struct config *config;
	struct published_table table;
	bool complete;
	uint64_t failures;
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

/* "=" is in no kind, so no two kinds have one name. */
static int cdi_path(const struct config *config, const char *kind, char **ret)
{
	const char *slash = strchr(kind, '/');

	return asprintf(ret, "%s/" PUBLISHED_PREFIX "%.*s=%s.json", config->cdi_dir,
		       (int)(slash - kind), kind, slash + 1) < 0
		? -ENOMEM
		: 0;
}

/* The form of the name: section 4.1 of the specification. */
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

/* Whether the resource with this declaration may have the file. */
static bool is_expected(const struct config *config, const struct declaration *declaration,
	const struct published_file *file)
{
	_cleanup_free_ char *path = NULL;
	const char *name;

	if (file->info) {
		name = startswith(file->path, config->device_info_dir);
		return name && name[0] == '/' && !strchr(name + 1, '/');
	}
	return declaration->cdi_spec.kind &&
		cdi_path(config, declaration->cdi_spec.kind, &path) >= 0 && streq(path, file->path);
}

static bool is_declared(
	const struct config *config, const struct published_judges *judges, const char *path)
{
	for (size_t i = 0; i < judges->count; i++) {
		const char *kind = judges->declarations[i]->cdi_spec.kind;
		_cleanup_free_ char *expected = NULL;

		if (kind && cdi_path(config, kind, &expected) >= 0 && streq(expected, path))
			return true;
	}
	return false;
}

/* --- what a daemon before left, and a configuration before --- */

/* Removes what has our prefix and is half written, or no resource's; `judges` NULL: that stays. */
static void sweep(
	const struct config *config, const struct published_judges *judges, const char *directory)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;

	while (stream && (entry = readdir(stream))) {
		_cleanup_free_ char *path = NULL;
		bool temporary = startswith(entry->d_name, REPLACE_FILE_PREFIX);
		bool published = startswith(entry->d_name, PUBLISHED_PREFIX);

		if ((!temporary && !(published && judges)) ||
			asprintf(&path, "%s/%s", directory, entry->d_name) < 0)
			continue;
		if (temporary || !is_declared(config, judges, path))
			(void)unlink(path);
	}
	if (stream)
		(void)closedir(stream);
}

/* What a daemon that was stopped left in the directory of device information. */
static void take_left(struct published *published)
{
	const char *directory = published->config->device_info_dir;
	_cleanup_close_ int directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	if (directory_fd >= 0)
		fd = openat(directory_fd, PUBLISHED_LEFT_FILE,
			O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		(st.st_uid != geteuid() && st.st_uid != 0))
		return;
	/* Without memory, files of resources that are not declared stay until a reboot. */
	(void)published_table_read(&published->table, TAKE_FD(fd), directory, PUBLISHED_LEFT_FILE);
	(void)unlinkat(directory_fd, PUBLISHED_LEFT_FILE, 0);
}

static const struct declaration *find_judge(const struct published_judges *judges, const char *name)
{
	for (size_t i = 0; i < judges->count; i++)
		if (streq(judges->declarations[i]->name, name))
			return judges->declarations[i];
	return NULL;
}

void published_configure(struct published *published, const struct config *config,
	const struct published_judges *judges)
{
	bool first = !published->config;

	published->config = config;
	published->complete = judges->complete;
	if (first)
		take_left(published);
	for (size_t i = 0; i < published->table.n_files; i++) {
		struct published_file *file = published->table.files[i];
		const struct declaration *judge = find_judge(judges, file->resource);

		file->kept = judge && is_expected(config, judge, file);
	}
	published_table_remove(&published->table, NULL);
	published_table_save(&published->table);
	sweep(config, judges->complete ? judges : NULL, config->cdi_dir);
	if (!streq(config->cdi_dir, config->device_info_dir))
		sweep(config, NULL, config->device_info_dir);
}

bool published_is_complete(const struct published *published)
{
	return published->complete;
}

void published_judge(struct published *published, const struct declaration *declaration)
{
	for (size_t i = 0; i < published->table.n_files; i++) {
		struct published_file *file = published->table.files[i];

		if (streq(file->resource, declaration->name))
			file->kept = is_expected(published->config, declaration, file);
	}
	published_table_remove(&published->table, declaration->name);
	published_table_save(&published->table);
}

/* --- writing --- */

bool published_has_content(const char *path, const char *text)
{
	_cleanup_free_ char *found = malloc(strlen(text) + 1);
	_cleanup_close_ int directory_fd = -EBADF, fd = -EBADF;
	size_t size = strlen(text), done = 0;
	const char *name;
	struct stat st;

	directory_fd = published_table_open_directory(path, &name);
	if (directory_fd >= 0)
		fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (!found || fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		(st.st_mode & 07777) != 0644 || (st.st_uid != geteuid() && st.st_uid != 0) ||
		(uint64_t)st.st_size != size)
		return false;
	while (done < size) {
		ssize_t n = RETRY_ON_EINTR(read(fd, found + done, size - done));

		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return memcmp(found, text, size) == 0;
}

int published_write_file(const char *path, const char *text)
{
	_cleanup_close_ int directory_fd = -EBADF;
	const char *name;

	directory_fd = published_table_open_directory(path, &name);
	if (directory_fd < 0)
		return directory_fd;
	return replace_file(directory_fd, name, 0644, text, strlen(text));
}

void published_stop(struct published *published)
{
	_cleanup_free_ char *list = published_table_list(&published->table), *path = NULL;
	int r;

	if (!list || !*list || !published->config)
		return;
	r = asprintf(&path, "%s/" PUBLISHED_LEFT_FILE, published->config->device_info_dir);
	r = r < 0 ? -ENOMEM : published_write_file(path, list);
	if (r < 0)
		log_warning("cannot write the list of device information to %s: %s",
			published->config->device_info_dir, strerror(-r));
}

/* Every change of a file or its name changes the time. */
static bool is_as_written(const struct published_file *file)
{
	struct stat now;

	return lstat(file->path, &now) == 0 && now.st_dev == file->device &&
		now.st_ino == file->inode && now.st_ctim.tv_sec == file->changed.tv_sec &&
		now.st_ctim.tv_nsec == file->changed.tv_nsec;
}

const char *published_find_damage(const struct published *published)
{
	for (size_t i = 0; i < published->table.n_files; i++) {
		const struct published_file *file = published->table.files[i];

		if (file->inode != 0 && !is_as_written(file))
			return file->path;
	}
	return NULL;
}

void published_forget_damage(struct published *published)
{
	for (size_t i = 0; i < published->table.n_files; i++)
		if (!is_as_written(published->table.files[i]))
			published->table.files[i]->inode = 0;
}

static int put_file(
	struct published *published, const char *path, const json_t *content, struct error *error)
{
	const struct config *config = published->config;
	_cleanup_free_ char *document = json_dumps(content, JSON_INDENT(2)), *text = NULL;
	struct stat st;
	struct published_file *file = map_get(&published->table.by_path, path);
	int r;

	if (!document || !file || asprintf(&text, "%s\n", document) < 0) {
		text = NULL;
		return error_set(error, -ENOMEM, "out of memory");
	}
	if (!published_has_content(path, text)) {
		file->inode = 0;
		r = state_make_directory(file->info ? config->device_info_dir : config->cdi_dir);
		if (r >= 0)
			r = published_write_file(path, text);
		if (r < 0)
			return error_set(error, r, "cannot write %s: %s", path, strerror(-r));
	}
	if (lstat(path, &st) >= 0) {
		file->device = st.st_dev;
		file->inode = st.st_ino;
		file->changed = st.st_ctim;
	}
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
		return error_set(error, -EEXIST, "%s is also a file of %s", path, file->resource);
	file->kept = true;
	return 0;
}

static int act_put(struct published *published, const char *resource, const char *path, bool info,
	const json_t *content, struct error *error)
{
	return put_file(published, path, content, error);
}

static int take(struct published *published, const struct declaration *declaration, int fd,
	struct error *error)
{
	const char *resource = declaration->name;
	_cleanup_free_ char *text = NULL;
	json_error_t json_error;
	json_t *document;
	size_t size;
	int r;

	r = sealed_read(fd, PUBLICATION_BYTES_MAX, &text, &size);
	if (r < 0)
		return error_set(error, r, "it cannot be read: %s", strerror(-r));
	document = json_loadb(text, size, JSON_REJECT_DUPLICATES, &json_error);
	if (!document)
		return error_set(error, -EBADMSG, "not valid JSON: %s", json_error.text);
	r = publication_check(document, declaration->cdi_spec.kind, error);
	if (r >= 0)
		r = publication_policy_check(
			declaration, json_object_get(document, PUBLICATION_CDI), error);
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

int published_take(struct published *published, const struct declaration *declaration, int fd,
	struct error *error)
{
	int r = take(published, declaration, fd, error);

	published->failures += r < 0;
	return r;
}

uint64_t published_failures(const struct published *published)
{
	return published->failures;
}

bool published_save_list(struct published *published)
{
	published_table_save(&published->table);
	return !published->table.list_failed;
}

void published_write_list(struct published *published)
{
	published->table.list_changed = true;
	published_table_save(&published->table);
}

struct published *published_free(struct published *published)
{
	if (!published)
		return NULL;
	published_table_done(&published->table);
	free(published);
	return NULL;
}
