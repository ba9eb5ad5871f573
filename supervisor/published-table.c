/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list has a line for each file: the resource, a blank, and the path. It is ours alone, so what
 * it names may be removed.
 */
#include "published-table.h"

#include "common/log.h"
#include "published.h"

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

void published_table_remove(struct published_table *table, const char *resource)
{
	size_t n = 0;

	for (size_t i = 0; i < table->n_files; i++) {
		struct published_file *file = table->files[i];

		if (file->kept || (resource && !streq(file->resource, resource))) {
			table->files[n++] = file;
			continue;
		}
		(void)unlink(file->path);
		table->list_changed = table->list_changed || file->info;
		(void)map_remove(&table->by_path, file->path);
		(void)file_free(file);
	}
	table->n_files = n;
}

void published_table_save(struct published_table *table)
{
	char *text = NULL;
	size_t size;
	FILE *stream;
	int r;

	if (!table->list_changed)
		return;
	table->list_changed = false;
	stream = open_memstream(&text, &size);
	if (!stream)
		return;
	for (size_t i = 0; i < table->n_files; i++)
		if (table->files[i]->info)
			(void)fprintf(stream, "%s %s\n", table->files[i]->resource,
				table->files[i]->path);
	if (fclose(stream) != 0)
		size = 0;
	if (size == 0) {
		state_remove(table->state, PUBLISHED_LIST_FILE);
	} else {
		r = state_write_private(table->state, PUBLISHED_LIST_FILE, text, size);
		if (r < 0)
			log_warning("the list of published files cannot be kept: %s", strerror(-r));
	}
	free(text);
}

int published_table_load(struct published_table *table, struct state *state)
{
	_cleanup_fclose_ FILE *stream = NULL;
	_cleanup_free_ char *line = NULL;
	int fd = state_open_file(state, PUBLISHED_LIST_FILE), r = 0;
	size_t size = 0;
	ssize_t n;

	table->state = state;
	stream = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (!stream) {
		(void)close_fd(fd);
		return 0;
	}
	while (r >= 0 && (n = getline(&line, &size, stream)) > 0) {
		char *blank = strchr(line, ' ');

		if (!blank || blank[1] != '/' || line[n - 1] != '\n')
			continue;
		*blank = line[n - 1] = '\0';
		r = published_table_add(table, line, blank + 1, true);
		if (r == -EEXIST)
			r = 0;
	}
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
