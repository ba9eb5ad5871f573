/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether a CDI name is defined on the host, because a pod with an unknown name fails to
 * start, and which kinds are in use. Programs write JSON or YAML; only the usual forms are
 * understood: a line "kind: KIND" and lines "name: DEVICE" in block style, or the same as members
 * of JSON, one to a line or not. If a name is found here that no runtime would find, the pod fails
 * as it would without this check.
 */
#include "drivers/host/cdi-lookup.h"

#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"

/* A host with 16 GPUs, each in seven instances, has a few hundred KiB. */
#define FILE_MAX  (4U << 20)
#define FILES_MAX 1000

/* The value at the beginning of the text, in quotes or not. */
static const char *value_at(const char *text, size_t *ret_length)
{
	char quote[2] = "";

	text += strspn(text, " \t");
	if (*text == '"' || *text == '\'')
		quote[0] = *text++;
	*ret_length = strcspn(text, *quote ? quote : " \t\r\n,}");
	return text;
}

/* Whether the key is at the begin of a word, so that "hostname:" is not "name:". */
static bool is_key(const char *text, const char *at, size_t length)
{
	const char *behind = at + length;

	if (at > text && (at[-1] == '"' || at[-1] == '\'')) {
		if (*behind != at[-1])
			return false;
		behind++;
	} else if (at > text && !strchr(" \t\n-{,", at[-1]))
		return false;
	return *behind == ':';
}

/* The next value of the key from `at` on, or NULL. */
static const char *next_value(const char *text, const char *at, const char *key, size_t *ret_length)
{
	size_t length = strlen(key);

	for (at = strstr(at, key); at; at = strstr(at + length, key))
		if (is_key(text, at, length))
			return value_at(strchr(at, ':') + 1, ret_length);
	return NULL;
}

/* Whether the text has "KEY: VALUE". */
static bool has_pair(const char *text, const char *key, const char *value)
{
	size_t length;

	for (const char *found = next_value(text, text, key, &length); found;
		found = next_value(text, found, key, &length))
		if (length == strlen(value) && memcmp(found, value, length) == 0)
			return true;
	return false;
}

static bool is_spec(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && (streq(dot, ".json") || streq(dot, ".yaml"));
}

static int read_file(struct cdi_files *files, struct scan *scan, const char *path, char *buffer)
{
	ssize_t length = sysroot_read(scan_root(scan), path, buffer, FILE_MAX);

	if (length == -ENOMEM)
		return -ENOMEM;
	return length > 0 ? strings_add(&files->texts, buffer, strlen(buffer)) : 0;
}

static int read_directory(struct cdi_files *files, struct scan *scan, const char *directory)
{
	_cleanup_free_ char *buffer = malloc(FILE_MAX);
	_cleanup_strings_ struct strings names = { 0 };
	int r = buffer ? scan_watch_content(scan, directory) : -ENOMEM;

	if (r >= 0)
		r = sysfs_list(scan_root(scan), directory, &names);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < names.count && r >= 0 && files->texts.count < FILES_MAX; i++) {
		char path[PATH_MAX];

		(void)snprintf(path, sizeof(path), "%s/%s", directory, names.items[i]);
		if (is_spec(names.items[i]))
			r = read_file(files, scan, path, buffer);
	}
	return r;
}

static const char *const usual[] = { "/etc/cdi", "/run/cdi" };

int cdi_files_read(struct cdi_files *files, struct scan *scan, const struct strings *directories)
{
	int r = 0;

	if (files->read)
		return 0;
	if (!directories || directories->count == 0)
		for (size_t i = 0; i < ARRAY_SIZE(usual) && r >= 0; i++)
			r = read_directory(files, scan, usual[i]);
	else
		for (size_t i = 0; i < directories->count && r >= 0; i++)
			r = read_directory(files, scan, directories->items[i]);
	files->read = r >= 0;
	return r;
}

bool cdi_files_define(const struct cdi_files *files, const char *kind, const char *device)
{
	for (size_t i = 0; i < files->texts.count; i++)
		if (has_pair(files->texts.items[i], "kind", kind) &&
			has_pair(files->texts.items[i], "name", device))
			return true;
	return false;
}

void cdi_files_done(struct cdi_files *files)
{
	strings_done(&files->texts);
	files->read = false;
}

/* --- kinds --- */

static int add_kinds(struct cdi_kinds *kinds, const char *name, const char *text)
{
	size_t length;
	int r = 0;

	for (const char *kind = next_value(text, text, "kind", &length); kind && r >= 0;
		kind = next_value(text, kind, "kind", &length)) {
		r = strings_add(&kinds->kinds, kind, length);
		if (r >= 0)
			r = strings_add(&kinds->files, name, strlen(name));
	}
	return r;
}

int cdi_kinds_read(struct cdi_kinds *kinds, const char *root, const char *directory)
{
	_cleanup_free_ char *buffer = malloc(FILE_MAX);
	_cleanup_strings_ struct strings names = { 0 };
	int r = buffer ? sysfs_list(root, directory, &names) : -ENOMEM;

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < names.count && i < FILES_MAX && r >= 0; i++) {
		char path[PATH_MAX];

		(void)snprintf(path, sizeof(path), "%s/%s", directory, names.items[i]);
		if (is_spec(names.items[i]) && sysroot_read(root, path, buffer, FILE_MAX) > 0)
			r = add_kinds(kinds, names.items[i], buffer);
	}
	return r;
}

int cdi_kinds_read_usual(struct cdi_kinds *kinds, const char *root)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(usual) && r >= 0; i++)
		r = cdi_kinds_read(kinds, root, usual[i]);
	return r;
}

bool cdi_kinds_has(const struct cdi_kinds *kinds, const char *kind, const char *but_for)
{
	for (size_t i = 0; i < kinds->kinds.count; i++)
		if (streq(kinds->kinds.items[i], kind) && !streq(kinds->files.items[i], but_for))
			return true;
	return false;
}

void cdi_kinds_done(struct cdi_kinds *kinds)
{
	strings_done(&kinds->kinds);
	strings_done(&kinds->files);
}
