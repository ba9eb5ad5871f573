/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds CDI names in JSON and YAML files: the kind of a file, and the name of one of its devices. A
 * file that is not valid describes nothing.
 */
#include "kubelet/conformance/cdi-directories.h"

#include <dirent.h>
#include <limits.h>

#include "common/json-read.h"
#include "common/yaml-read.h"
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

static bool is_spec(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot && (streq(dot, ".json") || streq(dot, ".yaml"));
}

static bool file_describes(const char *path, const char *kind, const char *device)
{
	_cleanup_free_ char *text = NULL;
	json_t *root = NULL;
	bool found = false;
	const json_t *one;
	size_t size, i;

	if (!is_spec(path) || file_read(path, FILE_MAX, &text, &size) < 0 ||
		yaml_read(text, size, &root, NULL) < 0)
		return false;
	if (streq(text_of(root, "kind"), kind))
		json_array_foreach(json_object_get(root, "devices"), i, one)
		{
			found = found || streq(text_of(one, "name"), device);
		}
	json_decref(root);
	return found;
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
