/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the paths that match a pattern and watches every directory on the way. The walker keeps the
 * paths that match the components seen so far. Literal components are appended unseen; existence is
 * checked at the next pattern or at the end, so that a directory which may be entered but not read
 * does not hide what is in it.
 */
#include "drivers/host/glob.h"
#include "drivers/model/form.h"

#include <fnmatch.h>
#include <limits.h>

#include "common/text.h"
#include "common/utf8.h"
#include "drivers/host/sysroot.h"

static int add_path(struct strings *paths, const char *directory, const char *name, size_t length,
	struct error *error)
{
	_cleanup_free_ char *path = NULL;

	if (paths->count >= GLOB_MATCHES_MAX)
		return error_set(error, -E2BIG,
			"matches more than %d paths; use a narrower pattern", GLOB_MATCHES_MAX);
	if (format_text(&path, "%s/%.*s", directory, (int)length, name) < 0 ||
		strings_add(paths, path, strlen(path)) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return 0;
}

static int watch_directory(struct scan *scan, const char *path, struct error *error)
{
	int r = scan_watch(scan, *path ? path : "/");

	return r < 0 ? error_set(error, r, "cannot watch %s: %s", path, strerror(-r)) : 0;
}

/* Neither the kubelet nor JSON can represent such a name. It is skipped, so that it does not hide
 * the others. */
static bool is_text(struct scan *scan, const char *directory, const char *name)
{
	char shown[NAME_MAX + 1];

	if (utf8_is_valid(name))
		return true;
	(void)snprintf(shown, sizeof(shown), "%s", name);
	text_sanitize(shown);
	scan_note(scan, "%s/%s is left out: its name is not valid UTF-8; rename it", directory,
		shown);
	return false;
}

/* If only one of several directories cannot be read, a note is added, so that it (for example on a
 * file system whose server has ended) does not hide the others. */
static int set_unreadable(
	struct scan *scan, const char *directory, bool only, int r, struct error *error)
{
	if (sysroot_is_shortage(r) || (only && r != -EACCES && r != -EPERM))
		return error_set(error, r, "cannot read %s: %s", directory, strerror(-r));
	scan_note(
		scan, "%s cannot be read, so its content is unknown: %s", directory, strerror(-r));
	return 0;
}

/* Adds the entries of a directory that match; `only` if it is not one of several. */
static int match_directory(struct scan *scan, const char *directory, bool only, const char *pattern,
	bool last, struct strings *found, struct error *error)
{
	const struct dirent *entry;
	DIR *stream;
	int r;

	r = watch_directory(scan, directory, error);
	if (r < 0)
		return r;
	r = sysroot_opendir(scan_root(scan), *directory ? directory : "/", &stream);
	if (sysroot_is_absent(r))
		return 0;
	if (r < 0)
		return set_unreadable(scan, directory, only, r, error);

	while (errno = 0, (entry = readdir(stream))) {
		bool may_be_directory = entry->d_type == DT_DIR || entry->d_type == DT_LNK ||
			entry->d_type == DT_UNKNOWN;

		if (streq(entry->d_name, ".") || streq(entry->d_name, "..") ||
			(!last && !may_be_directory) ||
			fnmatch(pattern, entry->d_name, FNM_PERIOD) != 0 ||
			!is_text(scan, directory, entry->d_name))
			continue;
		r = add_path(found, directory, entry->d_name, strlen(entry->d_name), error);
		if (r < 0)
			goto finish;
	}
	r = errno ? set_unreadable(scan, directory, only, -errno, error) : 0;
finish:
	(void)closedir(stream);
	return r;
}

/* All paths of `paths` with one more component. */
static int next_component(struct scan *scan, struct strings *paths, const char *component,
	size_t length, bool last, struct error *error)
{
	_cleanup_strings_ struct strings found = { 0 };
	_cleanup_free_ char *pattern = strndup(component, length);
	struct strings done;
	int r;

	if (!pattern)
		return error_set(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < paths->count; i++) {
		if (form_is_pattern(pattern))
			r = match_directory(scan, paths->items[i], paths->count == 1, pattern, last,
				&found, error);
		else
			r = add_path(&found, paths->items[i], component, length, error);
		if (r < 0)
			return r;
	}
	done = *paths;
	*paths = found;
	found = done;
	return 0;
}

static int check_exists(struct scan *scan, const char *path, bool *ret_exists, struct error *error)
{
	_cleanup_free_ char *parent = NULL;
	struct stat st;
	int r;

	parent = strndup(path, (size_t)(strrchr(path, '/') - path));
	if (!parent)
		return error_set(error, -ENOMEM, "out of memory");
	r = watch_directory(scan, parent, error);
	if (r < 0)
		return r;
	r = sysroot_stat(scan_root(scan), path, &st);
	if (sysroot_is_shortage(r))
		return error_set(error, r, "cannot inspect %s: %s", path, strerror(-r));
	if (r < 0 && !sysroot_is_absent(r))
		scan_note(scan, "cannot inspect %s, so it is left out: %s", path, strerror(-r));
	*ret_exists = r >= 0;
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

int glob_expand(
	struct scan *scan, const char *pattern, struct strings *ret_paths, struct error *error)
{
	_cleanup_strings_ struct strings paths = { 0 };
	const char *component = pattern + strspn(pattern, "/");
	int r;

	if (strings_add(&paths, "", 0) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	while (*component) {
		size_t length = strcspn(component, "/");
		const char *next = component + length + strspn(component + length, "/");

		r = next_component(scan, &paths, component, length, !*next, error);
		if (r < 0)
			return r;
		component = next;
	}
	if (paths.count > 0)
		qsort(paths.items, paths.count, sizeof(*paths.items), compare_paths);
	for (size_t i = 0; i < paths.count; i++) {
		bool exists = false;

		r = check_exists(scan, paths.items[i], &exists, error);
		if (r < 0)
			return r;
		if (exists && strings_add(ret_paths, paths.items[i], strlen(paths.items[i])) < 0)
			return error_set(error, -ENOMEM, "out of memory");
	}
	return 0;
}
