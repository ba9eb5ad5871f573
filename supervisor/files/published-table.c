/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which published files are ours and may be removed, also after a crash. A list has a line
 * for each file: the resource, a blank, and the name. It is checked like any input, because the
 * files that it names may be removed.
 */
#include "supervisor/files/published-table.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/replace-file.h"
#include "drivers/allocation/cdi.h"
#include "drivers/model/declaration.h"
#include "drivers/model/device.h"
#include "drivers/model/form.h"
#include "supervisor/files/runtime-files.h"

static struct published_file *file_free(struct published_file *file)
{
	if (!file)
		return NULL;
	free(file->resource);
	free(file->path);
	free(file);
	return NULL;
}
DEFINE_CLEANUP(struct published_file *, file_free)

static struct published_directory *directory_free(struct published_directory *directory)
{
	if (!directory)
		return NULL;
	free(directory->path);
	free(directory->list);
	free(directory);
	return NULL;
}
DEFINE_CLEANUP(struct published_directory *, directory_free)

void published_table_mark(struct published_mark *mark, const char *path)
{
	struct stat st;

	*mark = (struct published_mark){ 0 };
	if (lstat(path, &st) >= 0)
		*mark = (struct published_mark){
			.device = st.st_dev, .inode = st.st_ino, .changed = st.st_ctim
		};
}

bool published_table_fits(const struct published_mark *mark, const char *path)
{
	struct published_mark now;

	published_table_mark(&now, path);
	return now.device == mark->device && now.inode == mark->inode &&
		now.changed.tv_sec == mark->changed.tv_sec &&
		now.changed.tv_nsec == mark->changed.tv_nsec;
}

void published_table_init(struct published_table *table, const char *runtime_dir)
{
	(void)snprintf(table->list, sizeof(table->list), PUBLISHED_LIST_PREFIX "%016llx",
		(unsigned long long)hash_string(runtime_dir));
}

static struct published_directory *find_directory(
	const struct published_table *table, const char *path, size_t length)
{
	for (size_t i = 0; i < table->n_directories; i++)
		if (strlen(table->directories[i]->path) == length &&
			strncmp(table->directories[i]->path, path, length) == 0)
			return table->directories[i];
	return NULL;
}

static int add(struct published_table *table, const char *resource, const char *path,
	enum published_kind kind, struct published_directory *directory,
	struct published_file **ret)
{
	_cleanup_(file_freep) struct published_file *file = calloc(1, sizeof(*file));
	int r;

	if (!file)
		return -ENOMEM;
	file->directory = directory;
	file->kind = kind;
	file->resource = strdup(resource);
	file->path = strdup(path);
	if (!file->resource || !file->path)
		return -ENOMEM;
	r = array_reserve((void **)&table->files, table->n_files, sizeof(*table->files));
	if (r >= 0)
		r = map_put(&table->by_path, file->path, file);
	if (r < 0)
		return r;
	*ret = table->files[table->n_files++] = TAKE_PTR(file);
	return 0;
}

int published_table_claim(struct published_table *table, const char *resource, const char *path,
	enum published_kind kind, const char **ret_owner)
{
	struct published_directory *directory =
		find_directory(table, path, (size_t)(strrchr(path, '/') - path));
	struct published_file *file = map_get(&table->by_path, path);
	char *copy;
	int r;

	if (!directory)
		return -ENOMEM;
	if (!file) {
		r = add(table, resource, path, kind, directory, &file);
		if (r < 0)
			return r;
	} else if (!streq(file->resource, resource)) {
		*ret_owner = file->resource;
		if (file->claimed)
			return -EEXIST;
		copy = strdup(resource);
		if (!copy)
			return -ENOMEM;
		free(file->resource);
		file->resource = copy;
		directory->changed = true;
	}
	file->kept = file->claimed = true;
	file->left_since = 0;
	return 0;
}

int published_table_open_directory(const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *directory = NULL;
	int fd;

	if (!slash || slash == path || !slash[1])
		return -EINVAL;
	directory = strndup(path, (size_t)(slash - path));
	if (!directory)
		return -ENOMEM;
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*ret_name = slash + 1;
	return fd < 0 ? -errno : fd;
}

static void remove_file(const char *path)
{
	_cleanup_close_ int fd = -EBADF;
	const char *name;
	struct stat st;

	fd = published_table_open_directory(path, &name);
	if (fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) >= 0 && S_ISREG(st.st_mode) &&
		(st.st_uid == geteuid() || st.st_uid == 0))
		(void)unlinkat(fd, name, 0);
}

void published_table_remove(struct published_table *table, const char *resource)
{
	size_t n = 0;

	for (size_t i = 0; i < table->n_files; i++) {
		struct published_file *file = table->files[i];

		if (file->kept || (resource && !streq(file->resource, resource))) {
			table->files[n++] = file;
			continue;
		}
		remove_file(file->path);
		file->directory->changed = true;
		(void)map_remove(&table->by_path, file->path);
		(void)file_free(file);
	}
	table->n_files = n;
}

/* Makes the lines of all files in the directory, or of those that are not listed yet. */
static char *make_list(
	const struct published_table *table, const struct published_directory *directory, bool all)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	for (size_t i = 0; i < table->n_files; i++)
		if (table->files[i]->directory == directory && (all || !table->files[i]->listed))
			(void)fprintf(stream, "%s %s\n", table->files[i]->resource,
				table->files[i]->path + strlen(directory->path) + 1);
	if (fclose(stream) == 0)
		return text;
	free(text);
	return NULL;
}

static int replace_list(const struct published_directory *directory, const char *text)
{
	int r;

	if (!*text)
		return unlink(directory->list) < 0 && errno != ENOENT ? -errno : 0;
	r = runtime_files_make_directory(directory->path);
	return r < 0 ? r : replace_file(AT_FDCWD, directory->list, 0644, text, strlen(text));
}

static int append_to_list(const struct published_directory *directory, const char *text)
{
	_cleanup_close_ int fd =
		open(directory->list, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : write_all(fd, text, strlen(text));
}

static int save(
	const struct published_table *table, struct published_directory *directory, bool all)
{
	_cleanup_free_ char *text = make_list(table, directory, all);
	int r;

	if (!text)
		return -ENOMEM;
	r = all ? replace_list(directory, text) : append_to_list(directory, text);
	for (size_t i = 0; i < table->n_files; i++)
		if (table->files[i]->directory == directory)
			table->files[i]->listed = r >= 0;
	/* A list that does not exist, or that ends with a part of a line, is written as a whole. */
	directory->written = r >= 0 && *text;
	published_table_mark(&directory->mark, directory->list);
	return r;
}

static bool lists_all(
	const struct published_table *table, const struct published_directory *directory)
{
	for (size_t i = 0; i < table->n_files; i++)
		if (table->files[i]->directory == directory && !table->files[i]->listed)
			return false;
	return true;
}

bool published_table_save(struct published_table *table)
{
	bool saved = true;

	for (size_t i = 0; i < table->n_directories; i++) {
		struct published_directory *directory = table->directories[i];
		bool changed = directory->changed ||
			!published_table_fits(&directory->mark, directory->list);
		int r;

		if (!changed && lists_all(table, directory))
			continue;
		r = save(table, directory, changed || !directory->written);
		if (r < 0 && !directory->failed)
			log_warning("cannot write %s, the list of published files: %s",
				directory->list, strerror(-r));
		directory->changed = directory->failed = r < 0;
		saved = saved && r >= 0;
	}
	return saved;
}

/* Whether it is what device information of the resource is called. */
static bool names_info(const char *resource, const char *name)
{
	static const char suffix[] = "-device.json";
	_cleanup_free_ char *prefix = strdup(resource);
	char id[DEVICE_ID_MAX + 1];
	const char *found;
	struct error error;
	size_t length;

	if (!prefix || resource_name_check(resource, &error) < 0)
		return false;
	*strchrnul(prefix, '/') = '-';
	found = startswith(name, prefix);
	length = found ? strlen(found) : 0;
	if (length < 1 + strlen(suffix) || found[0] != '-' ||
		!streq(found + length - strlen(suffix), suffix) ||
		length - 1 - strlen(suffix) > DEVICE_ID_MAX)
		return false;
	(void)snprintf(id, sizeof(id), "%.*s", (int)(length - 1 - strlen(suffix)), found + 1);
	return form_is_pci_address(id);
}

static bool is_json(const char *name)
{
	const char *suffix = strrchr(name, '.');

	return !strchr(name, '/') && suffix && streq(suffix, ".json");
}

static bool names_cdi(const char *resource, const char *name)
{
	return startswith(name, CDI_FILE_PREFIX) && strchr(name, '=') && is_json(name);
}

static bool names_claim(const char *resource, const char *name)
{
	return streq(resource, PUBLISHED_CLAIMS) && startswith(name, PUBLISHED_CLAIM_PREFIX) &&
		is_json(name);
}

static bool names_metadata(const char *resource, const char *name)
{
	return streq(resource, PUBLISHED_CLAIMS) && startswith(name, PUBLISHED_METADATA_PREFIX) &&
		is_json(name);
}

/* The type is for people; the hash makes the name unique and its length bounded. */
void published_labels_name(const char *resource, char ret[static PUBLISHED_LABELS_NAME_MAX])
{
	const char *slash = strrchr(resource, '/');

	(void)snprintf(ret, PUBLISHED_LABELS_NAME_MAX, "devplugd-%.63s-%016llx",
		slash ? slash + 1 : resource, (unsigned long long)hash_string(resource));
}

static bool names_labels(const char *resource, const char *name)
{
	char expected[PUBLISHED_LABELS_NAME_MAX];
	struct error error;

	published_labels_name(resource, expected);
	return resource_name_check(resource, &error) >= 0 && streq(name, expected);
}

/* The type is for people, as in the name of labels. */
void published_devices_name(const char *resource, const struct strings *ids,
	char ret[static PUBLISHED_DEVICES_NAME_MAX])
{
	const char *slash = strrchr(resource, '/');
	uint64_t hash = hash_string(resource);

	for (size_t i = 0; i < ids->count; i++)
		hash = (hash ^ strlen(ids->items[i])) * 0x100000001b3ULL ^
			hash_string(ids->items[i]);
	(void)snprintf(ret, PUBLISHED_DEVICES_NAME_MAX,
		PUBLISHED_DEVICES_PREFIX "%.63s-%016llx.json", slash ? slash + 1 : resource,
		(unsigned long long)hash);
}

static bool names_devices(const char *resource, const char *name)
{
	struct error error;

	return resource_name_check(resource, &error) >= 0 &&
		startswith(name, PUBLISHED_DEVICES_PREFIX) && is_json(name);
}

/* Returns the kind, or -EINVAL for a name that no file of ours has. */
static int kind_of(const char *resource, const char *name)
{
	static bool (*const names[])(const char *resource, const char *name) = {
		[PUBLISHED_CDI] = names_cdi,
		[PUBLISHED_INFO] = names_info,
		[PUBLISHED_CLAIM] = names_claim,
		[PUBLISHED_METADATA] = names_metadata,
		[PUBLISHED_LABELS] = names_labels,
		[PUBLISHED_DEVICES] = names_devices,
	};

	for (int kind = 0; kind < (int)ARRAY_SIZE(names); kind++)
		if (names[kind](resource, name))
			return kind;
	return -EINVAL;
}

static int add_line(struct published_table *table, struct published_directory *directory,
	int directory_fd, const char *resource, const char *name)
{
	_cleanup_free_ char *path = NULL;
	int kind = kind_of(resource, name), r;
	struct published_file *file;

	if (kind < 0)
		return kind;
	if (format_text(&path, "%s/%s", directory->path, name) < 0)
		return -ENOMEM;
	(void)replace_file_end(directory_fd, name, -ECANCELED);
	r = add(table, resource, path, kind, directory, &file);
	if (r >= 0)
		file->listed = true;
	return r == -EEXIST ? 0 : r;
}

static int load(struct published_table *table, struct published_directory *directory)
{
	_cleanup_close_ int directory_fd =
		open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fclose_ FILE *stream = NULL;
	_cleanup_free_ char *line = NULL;
	size_t size = 0, refused = 0;
	ssize_t n;
	int fd, r = 0;

	if (directory_fd < 0)
		return 0;
	(void)replace_file_end(directory_fd, table->list, -ECANCELED);
	fd = runtime_files_open_file(directory_fd, table->list);
	stream = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (!stream)
		(void)close_fd(fd);
	while (stream && r != -ENOMEM && (n = getline(&line, &size, stream)) > 0) {
		char *blank = strchr(line, ' ');

		if (blank && line[n - 1] == '\n')
			*blank = line[n - 1] = '\0';
		r = blank ? add_line(table, directory, directory_fd, line, blank + 1) : -EINVAL;
		refused += r == -EINVAL;
	}
	if (refused > 0)
		log_warning("ignored %zu line%s of %s: not files of devplugd", refused,
			refused == 1 ? "" : "s", directory->list);
	return r == -ENOMEM ? r : 0;
}

int published_table_open(struct published_table *table, const char *path)
{
	_cleanup_(directory_freep) struct published_directory *directory = NULL;
	int r;

	if (find_directory(table, path, strlen(path)))
		return 0;
	directory = calloc(1, sizeof(*directory));
	if (!directory)
		return -ENOMEM;
	directory->path = strdup(path);
	if (!directory->path || format_text(&directory->list, "%s/%s", path, table->list) < 0)
		return -ENOMEM;
	r = array_reserve(
		(void **)&table->directories, table->n_directories, sizeof(*table->directories));
	if (r < 0)
		return r;
	r = load(table, directory);
	published_table_mark(&directory->mark, directory->list);
	table->directories[table->n_directories++] = TAKE_PTR(directory);
	return r;
}

void published_table_done(struct published_table *table)
{
	for (size_t i = 0; i < table->n_files; i++)
		(void)file_free(table->files[i]);
	free(table->files);
	map_done(&table->by_path);
	for (size_t i = 0; i < table->n_directories; i++)
		(void)directory_free(table->directories[i]);
	free(table->directories);
}
