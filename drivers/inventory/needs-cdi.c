/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a container runtime can provide a CDI device that a device needs: whether it
 * resolves the name, and whether the host has the nodes, mounts and hooks that the file names. A
 * runtime fails only when the container is made. What this process cannot see is not a problem.
 */
#include "drivers/inventory/needs.h"

#include <fcntl.h>

#include "drivers/host/sysroot.h"

/* A CDI device, and what runtimes find of it. */
struct cdi_need {
	struct needs *needs;
	struct device *device;
	const char *name;
	need_reader read;
	struct cdi_definition definition;
};

/* The first directory on the way to the path that the host's root lacks, in a container. */
static int find_unmounted(const struct scan *scan, const char *path, char **ret)
{
	_cleanup_free_ char *directory = strdup(path);
	struct stat st;

	if (!directory)
		return -ENOMEM;
	for (char *slash = directory; (slash = strchr(slash + 1, '/')); *slash = '/') {
		*slash = '\0';
		if (sysroot_is_absent(sysroot_stat(scan->root, directory, &st))) {
			*ret = TAKE_PTR(directory);
			return 0;
		}
	}
	*ret = NULL;
	return 0;
}

/* The same for the path that each link on the way leads to. */
static int find_unmounted_behind_links(const struct scan *scan, const char *path, char **ret)
{
	_cleanup_free_ char *way = strdup(path);
	int r = way ? find_unmounted(scan, way, ret) : -ENOMEM;

	for (unsigned links = 0; r >= 0 && !*ret && links < SYSROOT_LINKS_MAX; links++) {
		char *next;

		r = sysroot_follow_link(scan->root, way, &next);
		if (r < 0 || !next)
			return r;
		free(way);
		way = next;
		r = find_unmounted(scan, way, ret);
	}
	return r;
}

/* Whether the host may have something at the path that this process does not see: the unit has a
 * /tmp of its own, and a container has only the directories that are mounted. Returns 1, 0 or
 * -ENOMEM. */
static int is_hidden(struct scan *scan, const char *path)
{
	_cleanup_free_ char *unmounted = NULL;
	int r;

	if (!*scan->root)
		return startswith(path, "/tmp/") || startswith(path, "/var/tmp/");
	if (startswith(path, "/dev/"))
		return 0;
	r = find_unmounted_behind_links(scan, path, &unmounted);
	if (r < 0 || !unmounted)
		return MIN_OF(r, 0);
	scan_note_absent(scan, unmounted, "paths in it that CDI files name are not checked");
	return 1;
}

/* Runtimes do not follow a link that a file of CDI names as a node. */
static bool is_link(const struct scan *scan, const char *path)
{
	_cleanup_close_ int fd = sysroot_open(scan->root, path, O_PATH | O_NOFOLLOW);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) >= 0 && S_ISLNK(st.st_mode);
}

static int on_source(enum cdi_source source, const char *path, void *userdata)
{
	static const char *const remedies[] = {
		[CDI_NODE] = "load its driver",
		[CDI_MOUNT] = "install the package that provides it",
		[CDI_HOOK] = "install the program",
	};
	const struct cdi_need *need = userdata;
	struct scan *scan = need->needs->scan;
	const char *file = need->definition.file->path;
	enum node_state state;
	int r;

	r = need->read(need->needs, path, source != CDI_NODE, &state);
	if (r < 0)
		return r;
	if (node_state_is_usable(state, false))
		return source != CDI_NODE || !is_link(scan, path)
			? 0
			: device_set_problem(need->device,
				  "container runtimes refuse the CDI device %s, because its node %s is "
				  "a symbolic link: write the target in %s",
				  need->name, path, file);
	r = state == NODE_MISSING ? is_hidden(scan, path) : 0;
	if (r != 0)
		return MIN_OF(r, 0);
	return device_set_problem(need->device,
		"needs %s, which %s on the host: %s%s, or write %s again, which names it for the "
		"CDI device %s",
		path, node_state_phrase(state), node_state_remedy(state), remedies[source], file,
		need->name);
}

static int set_undefined(const struct cdi_need *need)
{
	const struct strings *directories = &need->needs->declaration->container.cdi_dirs;
	const struct cdi_file *ignored = need->definition.file;

	if (ignored)
		return device_set_problem(need->device,
			"needs the CDI device %s, but container runtimes ignore %s, which names it: "
			"%s: write the file again",
			need->name, ignored->path, ignored->problem);
	return device_set_problem(need->device,
		"needs the CDI device %s, which no file in %s defines: install what writes the "
		"file, or correct container.cdi in the configuration",
		need->name, directories->count > 0 ? "container.cdi_dirs" : CDI_DIRECTORIES);
}

static int set_conflict(const struct cdi_need *need)
{
	const char *first = need->definition.file->path, *second = need->definition.other->path;
	const char *slash = strrchr(first, '/');

	return device_set_problem(need->device,
		"needs the CDI device %s, which is defined in %s and %s of %.*s: container runtimes "
		"use neither, so remove one of them",
		need->name, slash + 1, strrchr(second, '/') + 1, (int)(slash - first), first);
}

int needs_check_cdi(struct needs *needs, struct device *device, const char *name, need_reader read)
{
	struct cdi_need need = {
		.needs = needs,
		.device = device,
		.name = name,
		.read = read,
	};
	const struct cdi_definition *definition = &need.definition;
	const char *equals = strchr(name, '=');
	_cleanup_free_ char *kind = NULL;
	const struct cdi_files *files;
	int r;

	kind = equals ? strndup(name, (size_t)(equals - name)) : NULL;
	if (!kind)
		return equals ? -ENOMEM : 0;
	r = scan_cdi(needs->scan, needs->declaration, &files);
	if (r < 0)
		return r;
	cdi_files_find(files, kind, equals + 1, &need.definition);
	switch (definition->status) {
	case CDI_UNDEFINED:
		return set_undefined(&need);
	case CDI_CONFLICT:
		return set_conflict(&need);
	case CDI_UNKNOWN:
		scan_note(needs->scan, "the CDI device %s is not checked, because of %s: %s", name,
			definition->file->path, definition->file->problem);
		return 0;
	default:
		return cdi_document_sources(
			definition->file->document, definition->device, on_source, &need);
	}
}
