/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the file of a preset. The parser (parse.c) reads its content.
 */
#include <dirent.h>

#include "configuration/preset.h"

#define SUFFIX    ".conf"
#define LINE_SIZE 512

static int preset_directory(char **ret)
{
	static const char relative[] = "../share/devplugd/presets";
	_cleanup_free_ char *path = NULL;
	char self[4096], *slash, *found = NULL;
	ssize_t n;

	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash && format_text(&path, "%.*s/%s", (int)(slash - self), self, relative) < 0)
			return -ENOMEM;
		if (path)
			found = realpath(path, NULL);
		if (found) {
			*ret = found;
			return 0;
		}
	}
	found = strdup(DEVPLUGD_PRESET_DIR);
	if (!found)
		return -ENOMEM;
	*ret = found;
	return 0;
}

static int is_preset(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return entry->d_name[0] != '.' && length > strlen(SUFFIX) &&
		streq(entry->d_name + length - strlen(SUFFIX), SUFFIX);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int preset_list(struct strings *names, struct error *error)
{
	_cleanup_free_ char *directory = NULL;
	struct dirent **entries;
	int n, r;

	r = preset_directory(&directory);
	if (r < 0)
		return error_set(error, r, "out of memory");
	n = scandir(directory, &entries, is_preset, compare_names);
	if (n < 0)
		return error_set(error, -errno, "cannot read the directory of presets, %s: %s",
			directory, strerror(errno));
	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;

		if (r >= 0)
			r = strings_add(names, name, strlen(name) - strlen(SUFFIX));
		free(entries[i]);
	}
	free(entries);
	return r < 0 ? error_set(error, r, "out of memory") : 0;
}

static int unknown_preset(const char *name, const struct strings *names, struct error *error)
{
	const char *suggestion =
		suggest_word(name, (const char *const *)names->items, names->count);

	if (suggestion)
		return error_set(error, -ENOENT, "unknown preset \"%s\", did you mean \"%s\"?",
			name, suggestion);
	return error_set(error, -ENOENT,
		"unknown preset \"%s\": \"devplugctl presets\" lists all presets", name);
}

int preset_find(const char *name, char **ret_path, struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	_cleanup_free_ char *directory = NULL;
	size_t i;
	int r;

	r = preset_list(&names, error);
	if (r < 0)
		return r;
	for (i = 0; i < names.count && !streq(names.items[i], name); i++)
		;
	if (i == names.count)
		return unknown_preset(name, &names, error);
	r = preset_directory(&directory);
	if (r < 0 || format_text(ret_path, "%s/%s" SUFFIX, directory, name) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return 0;
}

/* The first comment at the beginning of the file that begins so, without that; empty if there is
 * none. */
static int read_comment(const char *path, const char *begin, char **ret, struct error *error)
{
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	char line[LINE_SIZE], *copy;
	const char *comment, *text = "";

	if (!stream)
		return error_set(error, -errno, "cannot read %s: %s", path, strerror(errno));
	while (!*text && fgets(line, sizeof(line), stream)) {
		line[strcspn(line, "\n")] = '\0';
		if (startswith(line, "# SPDX-"))
			continue;
		comment = startswith(line, "# ");
		if (!comment)
			break;
		text = startswith(comment, begin) ?: "";
	}
	/* open() also succeeds for a directory. */
	if (ferror(stream))
		return error_set(error, -EIO, "cannot read %s: %s", path, strerror(errno));
	copy = strdup(text);
	if (!copy)
		return error_set(error, -ENOMEM, "out of memory");
	*ret = copy;
	return 0;
}

int preset_summary(const char *path, char **ret, struct error *error)
{
	return read_comment(path, "", ret, error);
}

int preset_resource_name(const char *path, char **ret, struct error *error)
{
	return read_comment(path, "Resource name: ", ret, error);
}

int preset_describe(const char *name, char **ret_path, char **ret_summary, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r;

	r = preset_find(name, &path, error);
	if (r < 0)
		return r;
	r = preset_summary(path, ret_summary, error);
	if (r < 0)
		return r;
	*ret_path = TAKE_PTR(path);
	return 0;
}
