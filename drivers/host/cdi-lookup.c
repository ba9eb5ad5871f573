/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how container runtimes resolve a CDI name, because a pod with a name that they cannot
 * resolve fails to start (pkg/cdi/cache.go of cncf-tags/container-device-interface). A file that is
 * only unknown, because this process may not read it, or because it uses YAML that is not read
 * here, never makes a name invalid.
 */
#include "drivers/host/cdi-lookup.h"

#include "common/json-read.h"
#include "common/yaml-read.h"
#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"

/* A host with 16 GPUs, each in seven instances, has a few hundred KiB. */
#define FILE_MAX  (4U << 20)
#define FILES_MAX 1000

static const char *const usual[] = { "/etc/cdi", "/run/cdi" };

const char *cdi_directory(const struct strings *configured, size_t number)
{
	if (configured->count > 0)
		return number < configured->count ? configured->items[number] : NULL;
	return number < ARRAY_SIZE(usual) ? usual[number] : NULL;
}

/* --- reading --- */

static bool is_spec(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && (streq(dot, ".json") || streq(dot, ".yaml"));
}

static int set_problem(
	struct cdi_file *file, bool is_unknown, const char *problem, const char *text)
{
	file->is_unknown = is_unknown;
	file->problem = strdup(problem);
	file->text = text ? strdup(text) : NULL;
	return file->problem && (!text || file->text) ? 0 : -ENOMEM;
}

static int parse(struct cdi_file *file, const char *text, size_t size)
{
	struct error error;
	int r;

	r = yaml_read(text, size, &file->document, &error);
	if (r >= 0)
		r = cdi_document_check(file->document, &error);
	if (r >= 0 || r == -ENOMEM)
		return r;
	return set_problem(file, r == -EOPNOTSUPP, error.message, text);
}

/* Returns 0 or -ENOMEM. `length` is that of the content, or negative errno. */
static int take_content(struct cdi_file *file, const char *buffer, ssize_t length)
{
	char problem[128];

	if (length < 0) {
		(void)snprintf(
			problem, sizeof(problem), "it cannot be read: %s", strerror((int)-length));
		return set_problem(file, true, problem, NULL);
	}
	if (length == FILE_MAX - 1)
		return set_problem(file, true, "it is larger than 4 MiB", buffer);
	return parse(file, buffer, (size_t)length);
}

static int append(struct cdi_files *files, const char *path, struct cdi_file **ret)
{
	int r = array_reserve((void **)&files->items, files->count, sizeof(*files->items));

	if (r < 0)
		return r;
	*ret = &files->items[files->count];
	**ret = (struct cdi_file){ .path = strdup(path), .directory = files->n_directories };
	if (!(*ret)->path)
		return -ENOMEM;
	files->count++;
	return 0;
}

static int add_file(struct cdi_files *files, const char *root, const char *path, char *buffer)
{
	ssize_t length = sysroot_read(root, path, buffer, FILE_MAX);
	struct cdi_file *file;
	int r;

	if (length == -ENOMEM)
		return -ENOMEM;
	/* It was removed, or is not a file. */
	if (length < 0 && (sysroot_is_absent((int)length) || length == -EINVAL))
		return 0;
	r = append(files, path, &file);
	return r < 0 ? r : take_content(file, buffer, length);
}

/* Adds an entry that stands for files of the directory whose names are not known. */
static int add_unknown(struct cdi_files *files, const char *directory, const char *problem)
{
	struct cdi_file *file;
	int r = append(files, directory, &file);

	return r < 0 ? r : set_problem(file, true, problem, NULL);
}

static int add_files(struct cdi_files *files, const char *root, const char *directory,
	const struct strings *names, char *buffer)
{
	int r = 0;

	for (size_t i = 0; i < names->count && r >= 0; i++) {
		char path[PATH_MAX];

		if (!is_spec(names->items[i]))
			continue;
		if (files->count >= FILES_MAX)
			return add_unknown(files, directory, "it has too many files");
		(void)snprintf(path, sizeof(path), "%s/%s", directory, names->items[i]);
		r = add_file(files, root, path, buffer);
	}
	return r;
}

int cdi_files_add(struct cdi_files *files, const char *root, const char *directory)
{
	_cleanup_free_ char *buffer = malloc(FILE_MAX);
	_cleanup_strings_ struct strings names = { 0 };
	int r = buffer ? sysfs_list(root, directory, &names) : -ENOMEM;

	if (r >= 0)
		r = add_files(files, root, directory, &names, buffer);
	else if (r != -ENOMEM)
		r = sysroot_is_absent(r) ? 0 : add_unknown(files, directory, "it cannot be read");
	files->n_directories++;
	return r;
}

int cdi_files_add_usual(struct cdi_files *files, const char *root)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(usual) && r >= 0; i++)
		r = cdi_files_add(files, root, usual[i]);
	return r;
}

void cdi_files_done(struct cdi_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		struct cdi_file *file = &files->items[i];

		json_decref(file->document);
		free(file->path);
		free(file->problem);
		free(file->text);
	}
	free(files->items);
	*files = (struct cdi_files){ 0 };
}

/* --- finding --- */

/* Whether a file with a problem may be meant to define the device. */
static bool may_define(const struct cdi_file *file, const char *kind, const char *name)
{
	return file->problem &&
		(file->text ? strstr(file->text, kind) && strstr(file->text, name)
			    : file->is_unknown);
}

/* The file that may define a device that no valid one defines; one that is unknown comes first. */
static const struct cdi_file *find_suspect(
	const struct cdi_files *files, const char *kind, const char *name)
{
	const struct cdi_file *found = NULL;

	for (size_t i = 0; i < files->count; i++) {
		const struct cdi_file *file = &files->items[i];

		if (may_define(file, kind, name) &&
			(!found || (file->is_unknown && !found->is_unknown)))
			found = file;
	}
	return found;
}

void cdi_files_find(const struct cdi_files *files, const char *kind, const char *name,
	struct cdi_definition *ret)
{
	*ret = (struct cdi_definition){ .status = CDI_UNDEFINED };
	for (size_t i = 0; i < files->count; i++) {
		const struct cdi_file *file = &files->items[i];
		const json_t *device =
			file->problem ? NULL : cdi_document_find(file->document, kind, name);

		if (!device)
			continue;
		if (ret->file && ret->file->directory == file->directory) {
			/* No other directory makes good for this one. */
			*ret = (struct cdi_definition){ CDI_CONFLICT, ret->file, file, NULL };
			return;
		}
		*ret = (struct cdi_definition){ CDI_DEFINED, file, NULL, device };
	}
	if (ret->status == CDI_DEFINED)
		return;
	ret->file = find_suspect(files, kind, name);
	if (ret->file && ret->file->is_unknown)
		ret->status = CDI_UNKNOWN;
}

const struct cdi_file *cdi_files_find_kind(
	const struct cdi_files *files, const char *kind, const char *but_for)
{
	for (size_t i = 0; i < files->count; i++) {
		const struct cdi_file *file = &files->items[i];

		if (streq(text_of(file->document, "kind"), kind) &&
			!streq(strrchr(file->path, '/') + 1, but_for))
			return file;
	}
	return NULL;
}
