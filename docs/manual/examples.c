/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the examples of the manual, each under the comment at its beginning. They are files that a
 * test tries.
 */
#include "docs/manual/examples.h"

#include <dirent.h>

#include "common/util.h"

#define LINE_MAX_LENGTH 1024
#define DRIVER_PREFIX   "driver-"

/* Whether the file is an example of the driver, for examples_write(). */
static bool is_example_of(const char *file, const char *driver)
{
	const char *rest = startswith(file, DRIVER_PREFIX);
	size_t length = driver ? strlen(driver) : 0;

	if (!driver || !rest)
		return !driver && !rest;
	return strncmp(rest, driver, length) == 0 && (!*driver || strchr("-.", rest[length]));
}

static int is_example(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return length > 5 && streq(entry->d_name + length - 5, ".conf");
}

static int compare_files(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* The next line of the file, without the licence. */
static bool next_line(FILE *stream, char line[static LINE_MAX_LENGTH])
{
	do {
		if (!fgets(line, LINE_MAX_LENGTH, stream))
			return false;
	} while (startswith(line, "# SPDX-"));
	return true;
}

/* Shows a file: the comment at its beginning, which may have several lines, is a paragraph. */
static int write_example(const struct manual_format *format, const char *path)
{
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	_cleanup_free_ char *comment = NULL, *code = NULL;
	char line[LINE_MAX_LENGTH];
	size_t size;
	FILE *buffer;
	bool more;

	if (!stream)
		return -errno;
	buffer = open_memstream(&comment, &size);
	if (!buffer)
		return -ENOMEM;
	while ((more = next_line(stream, line)) && startswith(line, "# ")) {
		line[strcspn(line, "\n")] = '\0';
		(void)fprintf(buffer, "%s%s", ftell(buffer) > 0 ? " " : "", line + 2);
	}
	if (fclose(buffer) != 0)
		return -ENOMEM;
	format->paragraph(stdout, comment);
	buffer = open_memstream(&code, &size);
	if (!buffer)
		return -ENOMEM;
	for (; more; more = next_line(stream, line))
		(void)fputs(line, buffer);
	if (fclose(buffer) != 0)
		return -ENOMEM;
	format->code(stdout, code);
	return 0;
}

/* Drop-ins belong to the example before them. */
int examples_write(const struct manual_format *format, const char *directory, const char *driver)
{
	struct dirent **entries;
	int n, r = 0;

	n = scandir(directory, &entries, is_example, compare_files);
	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *path = NULL, *drop_ins = NULL;
		bool wanted = is_example_of(entries[i]->d_name, driver);

		(void)format_text(&path, "%s/%s", directory, entries[i]->d_name);
		(void)format_text(&drop_ins, "%s/%s.d", directory, entries[i]->d_name);
		if (r >= 0 && wanted)
			r = path && drop_ins ? write_example(format, path) : -ENOMEM;
		if (r >= 0 && wanted)
			r = examples_write(format, drop_ins, NULL);
		free(entries[i]);
	}
	free(entries);
	return r;
}
