/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and removes the files that describe devices to other programs, decides their names and
 * which resource may have a name, and finds files that were removed or changed. A file is written
 * only if it differs. Only checked documents get here, so the names of files are made from a kind
 * or an id and cannot lead elsewhere.
 */
#include "supervisor/files/published-files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/replace-file.h"
#include "common/sealed.h"
#include "drivers/allocation/cdi.h"
#include "drivers/allocation/publication.h"
#include "supervisor/files/publication-allowed.h"
#include "supervisor/files/publication-form.h"
#include "supervisor/files/published-table.h"
#include "supervisor/files/runtime-files.h"

struct published {
	const struct config *config;
	struct published_table table;
	bool complete;
	uint64_t failures;
};

int published_new(const char *runtime_dir, struct published **ret)
{
	_cleanup_(published_freep) struct published *published = calloc(1, sizeof(*published));

	if (!published)
		return -ENOMEM;
	published_table_init(&published->table, runtime_dir);
	*ret = TAKE_PTR(published);
	return 0;
}

/* --- names --- */

static int cdi_path(const struct config *config, const char *kind, char **ret)
{
	_cleanup_free_ char *name = cdi_file_name(kind);

	return !name || format_text(ret, "%s/%s", config->cdi_dir, name) < 0 ? -ENOMEM : 0;
}

/* The form of the name: section 4.1 of the specification. */
static int info_path(const struct config *config, const char *resource, const char *id, char **ret)
{
	_cleanup_free_ char *name = strdup(resource);

	if (!name)
		return -ENOMEM;
	*strchrnul(name, '/') = '-';
	return format_text(ret, "%s/%s-%s-device.json", config->device_info_dir, name, id);
}

static int claim_path(const struct config *config, const char *key, char **ret)
{
	return format_text(ret, "%s/" PUBLISHED_CLAIM_PREFIX "%s.json", config->cdi_dir, key);
}

int published_metadata_directory(const struct config *config, char **ret)
{
	return format_text(ret, "%s/" PUBLISHED_METADATA_DIRECTORY, config->cdi_dir);
}

int published_metadata_path(
	const struct published *published, const char *key, const char *request, char **ret)
{
	return format_text(ret,
		"%s/" PUBLISHED_METADATA_DIRECTORY "/" PUBLISHED_METADATA_PREFIX "%s_%s.json",
		published->config->cdi_dir, key, request);
}

/* Whether it is metadata of the claim; a key contains no "_". */
static bool is_metadata_of(const struct published_file *file, const char *key)
{
	const char *rest = file->kind == PUBLISHED_METADATA
		? startswith(strrchr(file->path, '/') + 1, PUBLISHED_METADATA_PREFIX)
		: NULL;

	rest = rest ? startswith(rest, key) : NULL;
	return rest && *rest == '_';
}

static bool is_in_metadata_directory(const struct config *config, const struct published_file *file)
{
	_cleanup_free_ char *directory = NULL;

	return published_metadata_directory(config, &directory) >= 0 &&
		streq(file->directory->path, directory);
}

static int labels_path(const struct config *config, const char *resource, char **ret)
{
	char name[PUBLISHED_LABELS_NAME_MAX];

	published_labels_name(resource, name);
	return format_text(ret, "%s/%s", config->features_dir, name);
}

/* Whether the resource with this declaration may have the file. */
static bool is_expected(const struct config *config, const struct declaration *declaration,
	const struct published_file *file)
{
	_cleanup_free_ char *path = NULL;

	if (file->kind == PUBLISHED_DEVICES)
		return true;
	if (file->kind == PUBLISHED_INFO)
		return streq(file->directory->path, config->device_info_dir);
	if (file->kind == PUBLISHED_LABELS)
		return declaration->labels.count > 0 &&
			streq(file->directory->path, config->features_dir);
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

static const struct declaration *find_judge(const struct published_judges *judges, const char *name)
{
	for (size_t i = 0; i < judges->count; i++)
		if (streq(judges->declarations[i]->name, name))
			return judges->declarations[i];
	return NULL;
}

/* Whether the file stays under the judges. A CDI document that no resource has proposed yet may get
 * another owner, and is needed again if a child refuses its new configuration. */
static bool stays(const struct config *config, const struct published_judges *judges,
	const struct published_file *file)
{
	const struct declaration *judge = find_judge(judges, file->resource);

	/* Containers with it may start again. */
	if (file->kind == PUBLISHED_DEVICES)
		return true;
	if (file->kind == PUBLISHED_CLAIM)
		return streq(file->directory->path, config->cdi_dir);
	if (file->kind == PUBLISHED_METADATA)
		return is_in_metadata_directory(config, file);
	if (file->kind == PUBLISHED_CDI && !file->claimed)
		return streq(file->directory->path, config->cdi_dir) &&
			(!judges->complete || is_declared(config, judges, file->path));
	return judge && is_expected(config, judge, file);
}

/* Keeps a CDI file of this configuration's directory for the pods that need it. */
static void leave(const struct config *config, struct published_file *file)
{
	file->kept = file->kind == PUBLISHED_CDI && streq(file->directory->path, config->cdi_dir);
	if (!file->kept || file->left_since > 0)
		return;
	file->left_since = now_usec(CLOCK_MONOTONIC);
	file->claimed = false;
	/* Nothing could write it again. */
	file->mark.inode = 0;
}

static void judge(const struct config *config, struct published_file *file, bool expected)
{
	if (!expected) {
		leave(config, file);
		return;
	}
	file->kept = true;
	file->left_since = 0;
}

void published_configure(struct published *published, const struct config *config,
	const struct published_judges *judges)
{
	struct published_table *table = &published->table;
	_cleanup_free_ char *metadata = NULL;

	published->config = config;
	published->complete = judges->complete;
	if (published_metadata_directory(config, &metadata) < 0 ||
		published_table_open(table, config->cdi_dir) < 0 ||
		published_table_open(table, config->device_info_dir) < 0 ||
		published_table_open(table, metadata) < 0 ||
		published_table_open(table, config->features_dir) < 0)
		log_error("cannot read the lists of published files: out of memory");
	for (size_t i = 0; i < table->n_files; i++)
		judge(config, table->files[i], stays(config, judges, table->files[i]));
	published_table_remove(table, NULL);
	(void)published_table_save(table);
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
			judge(published->config, file,
				is_expected(published->config, declaration, file));
	}
	published_table_remove(&published->table, declaration->name);
	(void)published_table_save(&published->table);
}

static bool is_named(const struct strings *named, const struct published_file *file)
{
	const char *name = strrchr(file->path, '/') + 1;

	for (size_t i = 0; i < named->count; i++) {
		_cleanup_free_ char *of_kind = cdi_file_name(named->items[i]);

		if (!of_kind || streq(of_kind, name))
			return true;
	}
	return false;
}

bool published_drop_left(struct published *published, const struct strings *named, uint64_t until)
{
	struct published_table *table = &published->table;
	bool later = false;

	for (size_t i = 0; i < table->n_files; i++) {
		struct published_file *file = table->files[i];

		if (file->left_since == 0 || is_named(named, file))
			continue;
		file->kept = file->left_since > until;
		later = later || file->kept;
	}
	published_table_remove(table, NULL);
	(void)published_table_save(table);
	return later;
}

/* --- writing --- */

/* Reads a file of ours with the permissions of a published one. */
static int read_file(int directory_fd, const char *name, size_t maximum, char **ret)
{
	_cleanup_close_ int fd = -EBADF;
	_cleanup_free_ char *text = NULL;
	struct stat st;
	int r;

	fd = runtime_files_open_file(directory_fd, name);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & 07777) != 0644)
		return -EPERM;
	if ((uint64_t)st.st_size > maximum)
		return -EFBIG;
	r = read_exactly(fd, (size_t)st.st_size, &text);
	if (r < 0)
		return r;
	if (strlen(text) != (size_t)st.st_size)
		return -EBADMSG;
	*ret = TAKE_PTR(text);
	return 0;
}

int published_read(const char *path, size_t maximum, char **ret)
{
	_cleanup_close_ int directory_fd = -EBADF;
	const char *name;

	directory_fd = published_table_open_directory(path, &name);
	return directory_fd < 0 ? directory_fd : read_file(directory_fd, name, maximum, ret);
}

/* Whether the file has this text: other processes, such as a pod with the directory, may have
 * changed it. */
static bool has_content(int directory_fd, const char *name, const char *text)
{
	_cleanup_free_ char *found = NULL;

	return read_file(directory_fd, name, strlen(text), &found) >= 0 && streq(found, text);
}

/* Writes into the file that is there. Returns 0, or negative errno if it is not such a file. */
static int write_in_place(int directory_fd, const char *name, const char *text)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;
	int r;

	fd = openat(directory_fd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1 ||
		(st.st_mode & 07777) != 0644)
		return -EEXIST;
	r = write_all(fd, text, strlen(text));
	return r >= 0 && ftruncate(fd, (off_t)strlen(text)) < 0 ? -errno : r;
}

const char *published_find_damage(const struct published *published)
{
	const struct published_table *table = &published->table;

	for (size_t i = 0; i < table->n_directories; i++)
		if (!published_table_fits(
			    &table->directories[i]->mark, table->directories[i]->list))
			return table->directories[i]->list;
	for (size_t i = 0; i < table->n_files; i++) {
		const struct published_file *file = table->files[i];

		if (file->mark.inode != 0 && !published_table_fits(&file->mark, file->path))
			return file->path;
	}
	return NULL;
}

void published_forget_damage(struct published *published)
{
	struct published_table *table = &published->table;

	for (size_t i = 0; i < table->n_files; i++)
		if (!published_table_fits(&table->files[i]->mark, table->files[i]->path))
			table->files[i]->mark.inode = 0;
	(void)published_table_save(table);
}

/* Makes the file have this text. */
static int write_file(const struct published_file *file, const char *text)
{
	_cleanup_close_ int directory_fd = -EBADF;
	const char *name;
	int r;

	directory_fd = published_table_open_directory(file->path, &name);
	if (directory_fd == -ENOENT) {
		r = runtime_files_make_directory(file->directory->path);
		if (r < 0)
			return r;
		directory_fd = published_table_open_directory(file->path, &name);
	}
	if (directory_fd < 0)
		return directory_fd;
	if (has_content(directory_fd, name, text))
		return 0;
	r = file->kind == PUBLISHED_METADATA || file->kind == PUBLISHED_DEVICES
		? write_in_place(directory_fd, name, text)
		: -ENOENT;
	return r < 0 ? replace_file(directory_fd, name, 0644, text, strlen(text)) : r;
}

static int put_file(
	struct published *published, const char *path, const char *text, struct error *error)
{
	struct published_file *file = map_get(&published->table.by_path, path);
	int r = write_file(file, text);

	if (r < 0) {
		file->mark.inode = 0;
		return error_set(error, r, "cannot write %s: %s", path, strerror(-r));
	}
	published_table_mark(&file->mark, path);
	return 0;
}

static int note_claim_file(struct published *published, const char *path, enum published_kind kind)
{
	const char *owner;

	return published_table_claim(&published->table, PUBLISHED_CLAIMS, path, kind, &owner);
}

/* Returns 0 or -ENOMEM. */
static int note_metadata(struct published *published, const char *key,
	const struct published_metadata *metadata, size_t n_metadata)
{
	int r = 0;

	for (size_t i = 0; i < published->table.n_files; i++)
		if (is_metadata_of(published->table.files[i], key))
			published->table.files[i]->kept = false;
	for (size_t i = 0; i < n_metadata && r >= 0; i++) {
		_cleanup_free_ char *path = NULL;

		r = published_metadata_path(published, key, metadata[i].request, &path);
		if (r >= 0)
			r = note_claim_file(published, path, PUBLISHED_METADATA);
	}
	published_table_remove(&published->table, PUBLISHED_CLAIMS);
	return r;
}

static int put_metadata(struct published *published, const char *key,
	const struct published_metadata *metadata, size_t n_metadata, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < n_metadata && r >= 0; i++) {
		_cleanup_free_ char *path = NULL;

		r = published_metadata_path(published, key, metadata[i].request, &path);
		r = r < 0 ? error_set(error, r, "out of memory")
			  : put_file(published, path, metadata[i].text, error);
	}
	return r;
}

int published_put_claim(struct published *published, const char *key, const char *text,
	const struct published_metadata *metadata, size_t n_metadata, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r;

	r = claim_path(published->config, key, &path);
	if (r >= 0)
		r = note_metadata(published, key, metadata, n_metadata);
	if (r >= 0)
		r = note_claim_file(published, path, PUBLISHED_CLAIM);
	if (r < 0)
		return error_set(error, r, "out of memory");
	(void)published_table_save(&published->table);
	r = put_metadata(published, key, metadata, n_metadata, error);
	return r < 0 ? r : put_file(published, path, text, error);
}

/* The file stays while the resource has no process, so that the Node keeps its labels. */
static void drop_labels(struct published *published, const char *resource, const char *path)
{
	struct published_file *file = map_get(&published->table.by_path, path);

	if (!file || file->kind != PUBLISHED_LABELS)
		return;
	file->kept = false;
	published_table_remove(&published->table, resource);
	(void)published_table_save(&published->table);
}

int published_put_labels(struct published *published, const struct declaration *declaration,
	const char *text, struct error *error)
{
	const char *directory = published->config->features_dir;
	_cleanup_free_ char *path = NULL;
	const char *owner;
	int r;

	if (labels_path(published->config, declaration->name, &path) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	if (!*text || published->config->cluster.labels) {
		drop_labels(published, declaration->name, path);
		return 1;
	}
	if (access(directory, F_OK) < 0)
		return error_set(error, -errno,
			"%s: %s; node-feature-discovery reads labels there, create it or set features_dir",
			directory, strerror(errno));
	r = published_table_claim(
		&published->table, declaration->name, path, PUBLISHED_LABELS, &owner);
	if (r < 0)
		return error_set(error, r, "out of memory");
	(void)published_table_save(&published->table);
	return put_file(published, path, text, error);
}

int published_devices_path(const struct published *published, const char *resource,
	const struct strings *ids, char **ret)
{
	char name[PUBLISHED_DEVICES_NAME_MAX];

	published_devices_name(resource, ids, name);
	return format_text(
		ret, "%s/" PUBLISHED_METADATA_DIRECTORY "/%s", published->config->cdi_dir, name);
}

int published_put_devices(struct published *published, const char *resource, const char *path,
	const char *text, struct error *error)
{
	const char *owner = "";
	int r = published_table_claim(&published->table, resource, path, PUBLISHED_DEVICES, &owner);

	if (r == -EEXIST)
		return error_set(error, r, "%s is also a file of %s", path, owner);
	if (r < 0)
		return error_set(error, r, "out of memory");
	(void)published_table_save(&published->table);
	return put_file(published, path, text, error);
}

void published_drop_devices(struct published *published, const char *path)
{
	struct published_file *file = map_get(&published->table.by_path, path);

	if (!file || file->kind != PUBLISHED_DEVICES)
		return;
	file->kept = false;
	published_table_remove(&published->table, NULL);
	(void)published_table_save(&published->table);
}

void published_drop_other_devices(struct published *published)
{
	for (size_t i = 0; i < published->table.n_files; i++) {
		struct published_file *file = published->table.files[i];

		if (file->kind == PUBLISHED_DEVICES)
			file->kept = file->claimed;
	}
	published_table_remove(&published->table, NULL);
	(void)published_table_save(&published->table);
}

/* Removes the files of claims that are not kept now. */
static void remove_claims(struct published *published)
{
	published_table_remove(&published->table, PUBLISHED_CLAIMS);
	(void)published_table_save(&published->table);
}

void published_drop_claim(struct published *published, const char *key)
{
	struct published_file *file;
	_cleanup_free_ char *path = NULL;

	if (claim_path(published->config, key, &path) < 0)
		return;
	file = map_get(&published->table.by_path, path);
	if (file && file->kind == PUBLISHED_CLAIM)
		file->kept = false;
	for (size_t i = 0; i < published->table.n_files; i++)
		if (is_metadata_of(published->table.files[i], key))
			published->table.files[i]->kept = false;
	remove_claims(published);
}

void published_drop_other_claims(struct published *published)
{
	for (size_t i = 0; i < published->table.n_files; i++) {
		struct published_file *file = published->table.files[i];

		if (file->kind == PUBLISHED_CLAIM || file->kind == PUBLISHED_METADATA)
			file->kept = file->claimed;
	}
	remove_claims(published);
}

/* Calls `act` for every file that the document stands for. */
static int for_each_file(struct published *published, const char *resource, const json_t *document,
	int (*act)(struct published *published, const char *resource, const char *path,
		enum published_kind kind, const json_t *content, struct error *error),
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
			  : act(published, resource, cdi, PUBLISHED_CDI, spec, error);
	}
	if (r < 0)
		return r;
	json_object_foreach(infos, id, info)
	{
		_cleanup_free_ char *path = NULL;

		r = info_path(published->config, resource, id, &path);
		r = r < 0 ? error_set(error, r, "out of memory")
			  : act(published, resource, path, PUBLISHED_INFO, info, error);
		if (r < 0)
			return r;
	}
	return 0;
}

static int act_note(struct published *published, const char *resource, const char *path,
	enum published_kind kind, const json_t *content, struct error *error)
{
	const char *owner = NULL;
	int r = published_table_claim(&published->table, resource, path, kind, &owner);

	if (r == -EEXIST)
		return error_set(error, r, "%s is also a file of %s", path, owner);
	return r < 0 ? error_set(error, r, "out of memory") : 0;
}

static int act_put(struct published *published, const char *resource, const char *path,
	enum published_kind kind, const json_t *content, struct error *error)
{
	_cleanup_free_ char *document = json_dumps(content, JSON_INDENT(2)), *text = NULL;

	if (!document || format_text(&text, "%s\n", document) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return put_file(published, path, text, error);
}

/* Only files that are noted then are kept, and those that the declaration does not publish. */
static void expect_files(struct published *published, const struct declaration *declaration)
{
	for (size_t i = 0; i < published->table.n_files; i++) {
		struct published_file *file = published->table.files[i];

		/* Others are not part of a publication. */
		if (!streq(file->resource, declaration->name) || file->kind == PUBLISHED_LABELS ||
			file->kind == PUBLISHED_DEVICES)
			continue;
		if (is_expected(published->config, declaration, file))
			file->kept = false;
		else
			leave(published->config, file);
	}
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
		return error_set(error, r, "the child's document cannot be read: %s", strerror(-r));
	document = json_loadb(text, size, JSON_REJECT_DUPLICATES, &json_error);
	if (!document)
		return error_set(error, -EBADMSG, "the child's document is not valid JSON: %s",
			json_error.text);
	r = publication_check(document, declaration->cdi_spec.kind, error);
	if (r >= 0)
		r = publication_check_allowed(
			declaration, json_object_get(document, PUBLICATION_CDI), error);
	if (r >= 0) {
		expect_files(published, declaration);
		r = for_each_file(published, resource, document, act_note, error);
		(void)published_table_save(&published->table);
		if (r >= 0)
			r = for_each_file(published, resource, document, act_put, error);
		published_table_remove(&published->table, resource);
		(void)published_table_save(&published->table);
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
	return published_table_save(&published->table);
}

struct published *published_free(struct published *published)
{
	if (!published)
		return NULL;
	published_table_done(&published->table);
	free(published);
	return NULL;
}
