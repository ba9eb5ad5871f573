/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which published files are ours and may be removed, also after a crash. The list has a
 * line for each file: the resource, a blank, and the path. It is checked like any input, because
 * the files that it names may be removed.
 */
#include "supervisor/files/published-table.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/log.h"
#include "drivers/model/declaration.h"
#include "drivers/model/device.h"
#include "drivers/model/form.h"

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

int published_table_add(
	struct published_table *table, const char *resource, const char *path, bool info)
{
	_cleanup_(file_freep) struct published_file *file = calloc(1, sizeof(*file));
	int r;

	if (!file)
		return -ENOMEM;
	file->info = info;
	file->kept = true;
	file->resource = strdup(resource);
	file->path = strdup(path);
	if (!file->resource || !file->path)
		return -ENOMEM;
	r = array_reserve((void **)&table->files, table->n_files, sizeof(*table->files));
	if (r < 0)
		return r;
	r = map_put(&table->by_path, file->path, file);
	if (r < 0)
		return r;
	table->files[table->n_files++] = TAKE_PTR(file);
	table->list_changed = table->list_changed || info;
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
		table->list_changed = table->list_changed || file->info;
		(void)map_remove(&table->by_path, file->path);
		(void)file_free(file);
	}
	table->n_files = n;
}

char *published_table_list(const struct published_table *table)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	for (size_t i = 0; i < table->n_files; i++)
		if (table->files[i]->info)
			(void)fprintf(stream, "%s %s\n", table->files[i]->resource,
				table->files[i]->path);
	if (fclose(stream) == 0)
		return text;
	free(text);
	return NULL;
}

void published_table_save(struct published_table *table)
{
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (!table->list_changed)
		return;
	text = published_table_list(table);
	if (!text || !*text)
		state_remove(table->state, PUBLISHED_LIST_FILE);
	else
		r = state_write_private(table->state, PUBLISHED_LIST_FILE, text, strlen(text));
	if (r < 0 && !table->list_failed)
		log_warning("cannot save the list of published files: %s", strerror(-r));
	table->list_changed = table->list_failed = r < 0;
}

/* Whether it is an absolute path without "." and "..", whose last name is what device information
 * of the resource is called. */
static bool names_info(const char *resource, const char *path)
{
	static const char suffix[] = "-device.json";
	_cleanup_free_ char *prefix = strdup(resource);
	char id[DEVICE_ID_MAX + 1];
	const char *name = strrchr(path, '/'), *found;
	struct error error;
	size_t length;

	if (!prefix || resource_name_check(resource, &error) < 0 || path[0] != '/' ||
		strstr(path, "//") || strstr(path, "/./") || strstr(path, "/../"))
		return false;
	*strchrnul(prefix, '/') = '-';
	found = startswith(name + 1, prefix);
	length = found ? strlen(found) : 0;
	if (length < 1 + strlen(suffix) || found[0] != '-' ||
		!streq(found + length - strlen(suffix), suffix) ||
		length - 1 - strlen(suffix) > DEVICE_ID_MAX)
		return false;
	(void)snprintf(id, sizeof(id), "%.*s", (int)(length - 1 - strlen(suffix)), found + 1);
	return form_is_pci_address(id);
}

/* Whether the file is in the directory itself. */
static bool is_in(const char *path, const char *directory)
{
	const char *name = startswith(path, directory);

	return name && name[0] == '/' && !strchr(name + 1, '/');
}

int published_table_read(
	struct published_table *table, int fd, const char *directory, const char *list)
{
	_cleanup_fclose_ FILE *stream = fd >= 0 ? fdopen(fd, "r") : NULL;
	_cleanup_free_ char *line = NULL;
	size_t size = 0, refused = 0;
	ssize_t n;
	int r = 0;

	if (!stream) {
		(void)close_fd(fd);
		return 0;
	}
	while (r >= 0 && (n = getline(&line, &size, stream)) > 0) {
		char *blank = strchr(line, ' ');

		if (blank && line[n - 1] == '\n')
			*blank = line[n - 1] = '\0';
		if (!blank || !names_info(line, blank + 1) ||
			(directory && !is_in(blank + 1, directory))) {
			refused++;
			continue;
		}
		r = published_table_add(table, line, blank + 1, true);
		if (r == -EEXIST)
			r = 0;
	}
	if (refused > 0)
		log_warning("ignored %zu line%s of %s: not files of devplugd", refused,
			refused == 1 ? "" : "s", list);
	return r;
}

int published_table_load(struct published_table *table, struct state *state)
{
	int r;

	table->state = state;
	r = published_table_read(
		table, state_open_file(state, PUBLISHED_LIST_FILE), NULL, PUBLISHED_LIST_FILE);
	table->list_changed = false;
	return r;
}

void published_table_done(struct published_table *table)
{
	for (size_t i = 0; i < table->n_files; i++)
		(void)file_free(table->files[i]);
	free(table->files);
	map_done(&table->by_path);
}
