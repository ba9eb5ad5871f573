/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the list of published files that a daemon before has left in a directory: every file
 * that is read from it is in the directory itself, and has the name of a file that devplugd
 * publishes.
 */
#include <fcntl.h>

#include "common/replace-file.h"
#include "drivers/allocation/cdi.h"
#include "supervisor/files/published-table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *make_directory(void)
{
	static char directory[] = "/tmp/fuzz-list-XXXXXX";
	static bool made;

	if (!made && !mkdtemp(directory))
		abort();
	made = true;
	return directory;
}

static void demand_ours(const struct published_file *file, const char *directory)
{
	const char *name = startswith(file->path, directory), *suffix = strrchr(file->path, '.');
	bool is_json = suffix && streq(suffix, ".json");
	char labels[PUBLISHED_LABELS_NAME_MAX];

	if (!name || name[0] != '/' || strchr(name + 1, '/') || file->claimed ||
		is_json == (file->kind == PUBLISHED_LABELS))
		abort();
	switch (file->kind) {
	case PUBLISHED_INFO:
		if (!strchr(file->resource, '/') || !strstr(name, "-device.json"))
			abort();
		break;
	case PUBLISHED_CDI:
		if (!startswith(name + 1, CDI_FILE_PREFIX) || !strchr(name, '='))
			abort();
		break;
	case PUBLISHED_CLAIM:
		if (!startswith(name + 1, PUBLISHED_CLAIM_PREFIX) ||
			!streq(file->resource, PUBLISHED_CLAIMS))
			abort();
		break;
	case PUBLISHED_METADATA:
		if (!startswith(name + 1, PUBLISHED_METADATA_PREFIX) ||
			!streq(file->resource, PUBLISHED_CLAIMS))
			abort();
		break;
	case PUBLISHED_DEVICES:
		if (!startswith(name + 1, PUBLISHED_DEVICES_PREFIX) || !strchr(file->resource, '/'))
			abort();
		break;
	case PUBLISHED_LABELS:
		published_labels_name(file->resource, labels);
		if (!streq(name + 1, labels))
			abort();
		break;
	default:
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *directory = make_directory();
	_cleanup_free_ char *path = NULL, *text = NULL;
	struct published_table table = { 0 };

	published_table_init(&table, directory);
	text = strndup((const char *)data, size);
	if (!text || asprintf(&path, "%s/%s", directory, table.list) < 0 ||
		replace_file(AT_FDCWD, path, 0644, text, strlen(text)) < 0)
		abort();
	if (published_table_open(&table, directory) >= 0)
		for (size_t i = 0; i < table.n_files; i++) {
			demand_ours(table.files[i], directory);
			if (map_get(&table.by_path, table.files[i]->path) != table.files[i])
				abort();
		}
	published_table_done(&table);
	return 0;
}
