/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the list of published files that a daemon before has left: every path that is read
 * from it is absolute, leads nowhere by "..", and has the name of device information.
 */
#include <fcntl.h>

#include "supervisor/files/published-table.h"
#include "supervisor/files/published.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct state *open_state(void)
{
	static char directory[] = "/tmp/fuzz-list-XXXXXX";
	static struct state *state;
	struct error error = { 0 };

	if (!state && (!mkdtemp(directory) || state_open(directory, &state, &error) < 0))
		abort();
	return state;
}

static void demand_ours(const struct published_file *file)
{
	static const char suffix[] = "-device.json";
	const char *name = strrchr(file->path, '/');
	size_t length = name ? strlen(name) : 0;

	if (file->path[0] != '/' || strstr(file->path, "/../") || strstr(file->path, "/./") ||
		length <= strlen(suffix) || !streq(name + length - strlen(suffix), suffix) ||
		!strchr(file->resource, '/') || !file->info)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct state *state = open_state();
	struct published_table table = { 0 };

	if (state_write_private(state, PUBLISHED_LIST_FILE, data, size) < 0)
		abort();
	if (published_table_load(&table, state) >= 0)
		for (size_t i = 0; i < table.n_files; i++) {
			demand_ours(table.files[i]);
			if (map_get(&table.by_path, table.files[i]->path) != table.files[i])
				abort();
		}
	published_table_done(&table);
	return 0;
}
