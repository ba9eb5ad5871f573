/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which files of NVIDIA's driver on the host a container gets. The name of every library
 * ends in the version of the kernel driver, which refuses any other version. So the files are found
 * by version, and a container gets each under the names of its soname links. Neither a hook nor
 * ldconfig in the container is needed.
 */
#include "drivers/nvidia/nvidia-host.h"

#include "common/text.h"
#include "drivers/host/sysroot.h"

/* Far more than any version has. */
#define NAMES_MAX 256
/* Maximum length of the path of a driver's root and a directory below it. */
#define DIRECTORY_MAX 512

/* Where the driver is installed: on the host, by its container, on Container-Optimized OS. */
static const char *const roots[] = { "", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia" };

/* Where its libraries are then. */
static const char *const directories[] = {
	"/usr/lib64",
	"/usr/lib/x86_64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu",
	"/usr/lib/x86_64-linux-gnu/nvidia/current",
	"/usr/lib/aarch64-linux-gnu/nvidia/current",
	"/usr/lib",
	"/lib64",
	"/lib/x86_64-linux-gnu",
	"/lib/aarch64-linux-gnu",
};

/* Every installation has one of these. */
static const char *const usual[] = { "libnvidia-ml", "libcuda" };

static const char *const tool_directories[] = { "/usr/bin", "/bin" };
static const char *const tools[] = { "nvidia-smi", "nvidia-debugdump" };

static bool exists(struct scan *scan, const char *path)
{
	struct stat st;

	return sysroot_stat(scan_root(scan), path, &st) >= 0;
}

/* The part of a library's name behind ".so.", or NULL. */
static const char *suffix_of(const char *name)
{
	const char *end = startswith(name, "lib") ? strstr(name, ".so.") : NULL;

	return end ? end + strlen(".so.") : NULL;
}

static bool is_of_version(const char *name, const char *version)
{
	const char *suffix = suffix_of(name);

	return suffix && streq(suffix, version);
}

bool nvidia_library_version(const char *path, char ret_version[static NVIDIA_VERSION_SIZE])
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
		const char *suffix = startswith(name, usual[i]);

		suffix = suffix ? startswith(suffix, ".so.") : NULL;
		if (!suffix || !strchr(suffix, '.') || strlen(suffix) >= NVIDIA_VERSION_SIZE)
			continue;
		(void)strcpy(ret_version, suffix);
		return true;
	}
	return false;
}

/* Whether both names are the same up to ".so.". */
static bool same_library(const char *a, const char *b)
{
	const char *end = strstr(a, ".so.");

	return end && strncmp(a, b, (size_t)(end - a) + strlen(".so.")) == 0;
}

/* The last part of the path that a link leads to; empty if it cannot be read. */
static void read_target(
	struct scan *scan, const char *directory, const char *name, char ret[static NAME_MAX + 1])
{
	char path[PATH_MAX];
	_cleanup_free_ char *resolved = NULL;

	*ret = '\0';
	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (sysroot_resolve(scan_root(scan), path, &resolved) >= 0)
		(void)snprintf(ret, NAME_MAX + 1, "%s", strrchr(resolved, '/') + 1);
}

/* Adds the soname links of a library, or its own name where it has none. */
static int add_names(struct scan *scan, const char *directory, const struct strings *all,
	const char *library, const char *version, struct strings *names)
{
	char target[NAME_MAX + 1];
	bool linked = false;
	int r = 0;

	for (size_t i = 0; i < all->count && r >= 0; i++) {
		const char *name = all->items[i];

		if (!same_library(library, name) || !text_is_number(suffix_of(name)))
			continue;
		read_target(scan, directory, name, target);
		if (!is_of_version(target, version))
			continue;
		linked = true;
		r = strings_add(names, name, strlen(name));
	}
	if (r >= 0 && !linked)
		r = strings_add(names, library, strlen(library));
	return r;
}

static int list_names(
	struct scan *scan, const char *directory, const char *version, struct strings *names)
{
	_cleanup_strings_ struct strings all = { 0 };
	char target[NAME_MAX + 1];
	int r;

	r = scan_watch(scan, directory);
	if (r >= 0)
		r = sysfs_list(scan_root(scan), directory, &all);
	for (size_t i = 0; i < all.count && r >= 0 && names->count < NAMES_MAX; i++) {
		const char *name = all.items[i];

		if (is_of_version(name, version))
			r = add_names(scan, directory, &all, name, version, names);
		else if (startswith(name, "libnvidia-nvvm70.so."))
			r = strings_add(names, name, strlen(name));
		else if (streq(name, "libcuda.so")) {
			/* Programs that were not linked with it load it by this name. */
			read_target(scan, directory, name, target);
			if (is_of_version(target, version))
				r = strings_add(names, name, strlen(name));
		}
	}
	return r == -ENOMEM ? r : 0;
}

/* Finds the directory that has a library of the version: `directory`, or the one to which its
 * soname link leads, as where a distribution keeps the driver elsewhere. Notes another version.
 * Returns whether it was found, or -ENOMEM. */
static int locate(struct scan *scan, const char *directory, const char *library,
	const char *version, struct nvidia_libraries *libraries)
{
	char path[PATH_MAX];
	_cleanup_free_ char *resolved = NULL;
	const char *suffix;
	char *name;

	(void)snprintf(path, sizeof(path), "%s/%s.so.%s", directory, library, version);
	if (exists(scan, path)) {
		libraries->directory = strdup(directory);
		return libraries->directory ? 1 : -ENOMEM;
	}
	(void)snprintf(path, sizeof(path), "%s/%s.so.1", directory, library);
	if (sysroot_resolve(scan_root(scan), path, &resolved) < 0)
		return 0;
	name = strrchr(resolved, '/') + 1;
	suffix = suffix_of(name);
	if (suffix && streq(suffix, version)) {
		name[-1] = '\0';
		libraries->directory = TAKE_PTR(resolved);
		return scan_watch(scan, directory) < 0 ? -ENOMEM : 1;
	}
	if (suffix && strlen(suffix) < NVIDIA_VERSION_SIZE && strchr(suffix, '.'))
		(void)snprintf(libraries->other, sizeof(libraries->other), "%s", suffix);
	return 0;
}

static int find_below(struct scan *scan, const char *root, const char *version,
	struct nvidia_libraries *libraries)
{
	char path[DIRECTORY_MAX];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(directories) && r == 0; i++) {
		(void)snprintf(path, sizeof(path), "%s%s", root, directories[i]);
		for (size_t k = 0; k < ARRAY_SIZE(usual) && r == 0; k++)
			r = locate(scan, path, usual[k], version, libraries);
	}
	if (r <= 0)
		return r;
	libraries->root = root;
	*libraries->other = '\0';
	return list_names(scan, libraries->directory, version, &libraries->names);
}

int nvidia_libraries_find(struct scan *scan, const char *driver_root, const char *version,
	struct nvidia_libraries *ret)
{
	int r = 0;

	*ret = (struct nvidia_libraries){ .root = driver_root ?: "" };
	if (driver_root)
		return find_below(scan, driver_root, version, ret);
	for (size_t i = 0; i < ARRAY_SIZE(roots) && !ret->directory && r >= 0; i++) {
		/* A driver in a container appears and disappears with its directory. */
		r = *roots[i] ? scan_watch(scan, roots[i]) : 0;
		if (r >= 0)
			r = find_below(scan, roots[i], version, ret);
	}
	return r;
}

static int library_below(struct scan *scan, const char *root, char **ret_path)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		(void)snprintf(path, sizeof(path), "%s%s/libnvidia-ml.so.1", root, directories[i]);
		if (!exists(scan, path))
			continue;
		*ret_path = strdup(path);
		return *ret_path ? 0 : -ENOMEM;
	}
	*ret_path = NULL;
	return 0;
}

int nvidia_library_find(struct scan *scan, const char *driver_root, char **ret_path)
{
	int r;

	*ret_path = NULL;
	if (driver_root)
		return library_below(scan, driver_root, ret_path);
	r = 0;
	for (size_t i = 0; i < ARRAY_SIZE(roots) && r >= 0 && !*ret_path; i++)
		r = library_below(scan, roots[i], ret_path);
	return r;
}

void nvidia_libraries_done(struct nvidia_libraries *libraries)
{
	strings_done(&libraries->names);
	free(libraries->directory);
	*libraries = (struct nvidia_libraries){ 0 };
}

/* Where a tool of the driver is: beside its libraries, where it has their version, or beside the
 * other programs of its root. */
static bool find_tool(struct scan *scan, const struct nvidia_libraries *libraries, const char *tool,
	char ret[static PATH_MAX])
{
	const char *end = libraries->directory ? strrchr(libraries->directory, '/') : NULL;

	if (end) {
		(void)snprintf(ret, PATH_MAX, "%.*s/bin/%s", (int)(end - libraries->directory),
			libraries->directory, tool);
		if (exists(scan, ret))
			return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(tool_directories); i++) {
		(void)snprintf(
			ret, PATH_MAX, "%s%s/%s", libraries->root, tool_directories[i], tool);
		if (exists(scan, ret))
			return true;
	}
	return false;
}

static int mount_tools(struct scan *scan, const struct nvidia_libraries *libraries,
	const char *target, struct device *device)
{
	char host[PATH_MAX], path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tools) && r >= 0; i++) {
		if (!find_tool(scan, libraries, tools[i], host))
			continue;
		(void)snprintf(path, sizeof(path), "%s/bin/%s", target, tools[i]);
		r = device_add_mount(device, host, path, true);
	}
	return r;
}

int nvidia_libraries_mount(struct scan *scan, const struct nvidia_libraries *libraries,
	const char *target, struct device *device)
{
	char host[PATH_MAX], path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < libraries->names.count && r >= 0; i++) {
		const char *name = libraries->names.items[i];

		(void)snprintf(host, sizeof(host), "%s/%s", libraries->directory, name);
		(void)snprintf(path, sizeof(path), "%s/lib64/%s", target, name);
		r = device_add_mount(device, host, path, true);
	}
	return r < 0 ? r : mount_tools(scan, libraries, target, device);
}
