/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses JSON files. In YAML files, it searches for the two lines that a library writes for the
 * kind and for the device.
 */
#include "kubelet/conformance/cdi-directories.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>

#include "kubelet/file.h"

#define FILE_MAX (16U << 20)

static const char *const default_dirs[] = { "/etc/cdi", "/var/run/cdi" };

bool cdi_is_name(const char *name)
{
	const char *slash = strchr(name, '/');
	const char *equals = slash ? strchr(slash, '=') : NULL;

	return slash && slash > name && equals && equals > slash + 1 && equals[1] != '\0' &&
		!strpbrk(equals + 1, "/= ");
}

static bool json_describes(const char *text, size_t size, const char *kind, const char *device)
{
	json_t *root = json_loadb(text, size, 0, NULL);
	const char *found_kind = json_string_value(json_object_get(root, "kind"));
	bool found = false;
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(root, "devices"), i, one)
	{
		const char *name = json_string_value(json_object_get(one, "name"));

		found = found || (name && streq(name, device));
	}
	found = found && found_kind && streq(found_kind, kind);
	json_decref(root);
	return found;
}

/* Whether a line is "KEY: VALUE", perhaps with quotes, or as the first of a list. */
static bool has_line(const char *text, const char *key, const char *value)
{
	size_t length = strlen(value);

	for (const char *p = strstr(text, key); p; p = strstr(p + 1, key)) {
		const char *at = p + strlen(key);

		if (*at != ':' || (p > text && !strchr(" \n-", p[-1])))
			continue;
		at += 1 + strspn(at + 1, " \"'");
		if (strncmp(at, value, length) == 0 &&
			(at[length] == '\0' || strchr("\"'\r\n ", at[length])))
			return true;
	}
	return false;
}

static bool file_describes(const char *path, const char *kind, const char *device)
{
	_cleanup_free_ char *text = NULL;
	size_t size, length = strlen(path);

	if (length < 5 || file_read(path, FILE_MAX, &text, &size) < 0)
		return false;
	if (streq(path + length - 5, ".json"))
		return json_describes(text, size, kind, device);
	return streq(path + length - 5, ".yaml") && has_line(text, "kind", kind) &&
		has_line(text, "name", device);
}

/* With `remove`, unlinks what is counted. */
static size_t count_in(const char *path, const char *kind, const char *device, bool remove)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	char file[PATH_MAX];
	size_t n = 0;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' ||
			snprintf(file, sizeof(file), "%s/%s", path, entry->d_name) >=
				(int)sizeof(file) ||
			!file_describes(file, kind, device))
			continue;
		n++;
		if (remove)
			(void)unlink(file);
	}
	if (dir)
		(void)closedir(dir);
	return n;
}

static const char *const *directories(const struct conformance_options *options, size_t *ret_n)
{
	*ret_n = options->n_cdi_dirs > 0 ? options->n_cdi_dirs : ARRAY_SIZE(default_dirs);
	return options->n_cdi_dirs > 0 ? options->cdi_dirs : default_dirs;
}

static size_t count(const struct conformance_options *options, const char *name, bool remove)
{
	size_t n_dirs;
	const char *const *dirs = directories(options, &n_dirs);
	const char *equals = strchr(name, '=');
	_cleanup_free_ char *kind = equals ? strndup(name, (size_t)(equals - name)) : NULL;
	size_t n = 0;

	for (size_t i = 0; kind && i < n_dirs; i++)
		n += count_in(dirs[i], kind, equals + 1, remove);
	return n;
}

size_t cdi_count(const struct conformance_options *options, const char *name)
{
	return count(options, name, false);
}

void cdi_remove(const struct conformance_options *options, const char *name)
{
	(void)count(options, name, true);
}
