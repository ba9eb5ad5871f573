/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads attributes and links in /sys, with bounds. One function reads files and one follows links.
 * All other functions use these two, which make all checks.
 */
#include "drivers/host/sysfs.h"
#include "drivers/model/form.h"

#include <ctype.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/sysmacros.h>

#include "common/text.h"
#include "drivers/host/sysfs-locked.h"
#include "drivers/host/sysroot.h"

/* Deeper than any chain of buses. */
#define DEPTH_MAX 32

/* The number of virtual functions is 16 bits wide in the SR-IOV capability. */
#define VFS_MAX 65535

static int join(const char *directory, const char *file, char **ret)
{
	return format_text(ret, "%s/%s", directory, file);
}

bool sysfs_is_text(const char *text)
{
	return text_is_plain(text);
}

int sysfs_copy_value(const char *value, char ret_value[static SYSFS_VALUE_MAX + 1])
{
	if (strlen(value) > SYSFS_VALUE_MAX)
		return -EFBIG;
	if (!sysfs_is_text(value))
		return -EBADMSG;
	(void)stpcpy(ret_value, value);
	return 0;
}

/* Reads a whole file, which is text but for line ends. `locked`: its name does not show whether
 * reading it may take long. */
static int read_text(const char *root, const char *directory, const char *file, bool locked,
	char *text, size_t size)
{
	_cleanup_free_ char *path = NULL;
	ssize_t length;
	int r;

	r = join(directory, file, &path);
	if (r < 0)
		return r;
	length = locked || sysfs_is_locked(path) ? sysfs_read_locked(root, path, text, size)
						 : sysroot_read(root, path, text, size);
	if (length < 0)
		return (int)length;
	if ((size_t)length == size - 1)
		return -EFBIG;
	return strlen(text) == (size_t)length ? 0 : -EBADMSG;
}

int sysfs_read(const char *root, const char *directory, const char *file,
	char ret_value[static SYSFS_VALUE_MAX + 1])
{
	char text[SYSFS_VALUE_MAX + 2];
	int r;

	r = read_text(root, directory, file, false, text, sizeof(text));
	return r < 0 ? r : sysfs_copy_value(text_trim(text), ret_value);
}

int sysfs_read_lines(const char *root, const char *directory, const char *file,
	char ret_value[static SYSFS_VALUE_MAX + 1])
{
	char text[SYSFS_VALUE_MAX + 2];
	int r;

	r = read_text(root, directory, file, true, text, sizeof(text));
	if (r < 0)
		return r;
	for (char *p = text; *p; p++)
		if (*p == '\n' || *p == '\t')
			*p = ' ';
	return sysfs_copy_value(text_trim(text), ret_value);
}

int sysfs_read_number(const char *root, const char *directory, const char *file, int64_t *ret)
{
	char value[SYSFS_VALUE_MAX + 1], *end;
	long long number;
	int r;

	r = sysfs_read(root, directory, file, value);
	if (r < 0)
		return r;
	errno = 0;
	number = strtoll(value, &end, startswith(value, "0x") ? 16 : 10);
	if (end == value || *end || errno != 0)
		return -EBADMSG;
	*ret = number;
	return 0;
}

int sysfs_read_uevent(const char *root, const char *directory, const char *key,
	char ret_value[static SYSFS_VALUE_MAX + 1])
{
	/* The kernel's own buffer for it (UEVENT_BUFFER_SIZE) is 2048 bytes. */
	char text[8192], *rest = text, *line;
	int r;

	r = read_text(root, directory, "uevent", false, text, sizeof(text));
	if (r < 0)
		return r;
	while ((line = strsep(&rest, "\n"))) {
		const char *value = startswith(line, key);

		if (!value || *value != '=')
			continue;
		return sysfs_copy_value(value + 1, ret_value);
	}
	return -ENOENT;
}

/* Whether a relative path stays below its directory. */
static bool is_inside(const char *path)
{
	if (!*path || *path == '/')
		return false;
	while (*path) {
		size_t length = strcspn(path, "/");

		if (length == 2 && path[0] == '.' && path[1] == '.')
			return false;
		path += length;
		path += strspn(path, "/");
	}
	return true;
}

/* The uevent file of a device of neither a class nor a bus (vhost-vdpa-0) is empty, and its node
 * has the device's name (device_get_devnode()). Another file of that name is not its node. */
static int read_quiet_node(const char *root, const char *directory, char **ret)
{
	unsigned major_number, minor_number;
	_cleanup_free_ char *node = NULL;
	char number[SYSFS_VALUE_MAX + 1];
	struct stat st;
	int r;

	r = sysfs_read(root, directory, "dev", number);
	if (r < 0)
		return r;
	if (sscanf(number, "%8u:%8u", &major_number, &minor_number) != 2)
		return -EBADMSG;
	r = join("/dev", strrchr(directory, '/') + 1, &node);
	if (r < 0)
		return r;
	for (char *p = node; (p = strchr(p, '!'));)
		*p = '/';
	if (!is_inside(node + strlen("/dev/")))
		return -EBADMSG;
	r = sysroot_stat(root, node, &st);
	if (sysroot_is_shortage(r))
		return r;
	if (r >= 0 && (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(major_number, minor_number)))
		return -ENOENT;
	*ret = TAKE_PTR(node);
	return 0;
}

int sysfs_read_node(const char *root, const char *directory, char **ret)
{
	char name[SYSFS_VALUE_MAX + 1];
	int r;

	r = sysfs_read_uevent(root, directory, "DEVNAME", name);
	if (r == -ENOENT)
		return read_quiet_node(root, directory, ret);
	if (r < 0)
		return r;
	if (!is_inside(name))
		return -EBADMSG;
	return join("/dev", name, ret);
}

int sysfs_read_link(const char *root, const char *directory, const char *link,
	char ret_name[static NAME_MAX + 1])
{
	_cleanup_free_ char *path = NULL, *target = NULL;
	const char *name;
	int r;

	r = join(directory, link, &path);
	if (r < 0)
		return r;
	r = sysroot_resolve(root, path, &target);
	if (r < 0)
		return r;
	name = strrchr(target, '/') + 1;
	if (!*name || strlen(name) > NAME_MAX || !sysfs_is_text(name))
		return -EBADMSG;
	(void)stpcpy(ret_name, name);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	/* eth2 before eth10. */
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

static void closedirp(DIR **directory)
{
	if (*directory)
		(void)closedir(*directory);
}

static bool is_directory(DIR *stream, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISDIR(st.st_mode);
}

static int list(
	const char *root, const char *directory, bool directories, struct strings *ret_names)
{
	_cleanup_strings_ struct strings names = { 0 };
	_cleanup_(closedirp) DIR *stream = NULL;
	const struct dirent *entry;
	int r;

	r = sysroot_opendir(root, directory, &stream);
	if (r < 0)
		return r;
	while ((errno = 0, entry = readdir(stream))) {
		if (entry->d_name[0] == '.' || !sysfs_is_text(entry->d_name) ||
			(directories && !is_directory(stream, entry)))
			continue;
		if (names.count >= SYSFS_ENTRIES_MAX)
			return -E2BIG;
		r = strings_add(&names, entry->d_name, strlen(entry->d_name));
		if (r < 0)
			return r;
	}
	if (errno != 0)
		return -errno;
	if (names.count > 0)
		qsort(names.items, names.count, sizeof(names.items[0]), compare_names);
	*ret_names = names;
	names = (struct strings){ 0 };
	return 0;
}

int sysfs_list(const char *root, const char *directory, struct strings *ret_names)
{
	return list(root, directory, false, ret_names);
}

int sysfs_list_directories(const char *root, const char *directory, struct strings *ret_names)
{
	return list(root, directory, true, ret_names);
}

static int expand(const char *root, const char *directory, const char *pattern, size_t position,
	struct strings *files);

/* The pattern after one of its components, which ends at `end`, was settled. */
static int expand_rest(const char *root, const char *directory, const char *pattern, size_t end,
	struct strings *files)
{
	if (pattern[end])
		return expand(root, directory, pattern, end + 1, files);
	return files->count < SYSFS_MATCHES_MAX ? strings_add(files, pattern, end) : -E2BIG;
}

static int expand(const char *root, const char *directory, const char *pattern, size_t position,
	struct strings *files)
{
	size_t end = position + strcspn(pattern + position, "/");
	_cleanup_free_ char *component = strndup(pattern + position, end - position);
	_cleanup_free_ char *above = NULL;
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	if (!component)
		return -ENOMEM;
	if (!strpbrk(component, "*?["))
		return expand_rest(root, directory, pattern, end, files);
	if (format_text(&above, "%s/%.*s", directory, (int)position, pattern) < 0)
		return -ENOMEM;
	r = sysfs_list(root, above, &names);
	if (r == -ENOENT || r == -ENOTDIR || r == -ENODEV)
		return 0;
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		const char *name = names.items[i];
		_cleanup_free_ char *named = NULL;

		if (fnmatch(component, name, FNM_PERIOD) != 0)
			continue;
		if (format_text(&named, "%.*s%s%s", (int)position, pattern, name, pattern + end) <
			0)
			return -ENOMEM;
		r = expand_rest(root, directory, named, position + strlen(name), files);
	}
	return r;
}

int sysfs_expand(
	const char *root, const char *directory, const char *pattern, struct strings *ret_files)
{
	_cleanup_strings_ struct strings files = { 0 };
	int r;

	r = expand(root, directory, pattern, 0, &files);
	if (r < 0)
		return r;
	*ret_files = files;
	files = (struct strings){ 0 };
	return 0;
}

int sysfs_resolve(const char *root, const char *directory, char **ret)
{
	_cleanup_free_ char *resolved = NULL;
	int r;

	r = sysroot_resolve(root, directory, &resolved);
	if (r < 0)
		return r;
	if (!startswith(resolved, "/sys/"))
		return -EXDEV;
	*ret = TAKE_PTR(resolved);
	return 0;
}

bool sysfs_ascend(char *directory)
{
	char *slash = strrchr(directory, '/');

	if (!slash || !startswith(directory, "/sys/"))
		return false;
	*slash = '\0';
	return startswith(directory, "/sys/devices/") != NULL;
}

/* The kernel's form is "%04x:%02x:%02x.%d". */
static bool find_address(char *path, char ret_address[static PCI_ADDRESS_SIZE])
{
	do {
		const char *name = strrchr(path, '/') + 1;

		if (form_is_pci_address(name)) {
			(void)stpcpy(ret_address, name);
			return true;
		}
	} while (sysfs_ascend(path));
	return false;
}

#define NVME_SUBSYSTEMS "/sys/devices/virtual/nvme-subsystem/"

/* Adds the controllers of the NVMe subsystem to which the device in a directory belongs, which has
 * links to them (nvme0). With native multipath, namespaces are devices of the subsystem. */
static int find_controllers(const char *root, const char *directory, struct strings *ret_paths)
{
	const char *name = startswith(directory, NVME_SUBSYSTEMS);
	_cleanup_free_ char *subsystem = NULL;
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	if (!name)
		return 0;
	if (format_text(&subsystem, NVME_SUBSYSTEMS "%.*s", (int)strcspn(name, "/"), name) < 0)
		return -ENOMEM;
	r = sysfs_list(root, subsystem, &names);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		_cleanup_free_ char *path = NULL;

		if (!text_is_number(startswith(names.items[i], "nvme")))
			continue;
		r = join(subsystem, names.items[i], &path);
		if (r >= 0)
			r = strings_add(ret_paths, path, strlen(path));
	}
	return r;
}

static int controller_address(
	const char *root, const char *directory, char ret_address[static PCI_ADDRESS_SIZE])
{
	_cleanup_strings_ struct strings controllers = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	r = find_controllers(root, directory, &controllers);
	if (r < 0 || controllers.count != 1)
		return r < 0 ? r : -ENOENT;
	r = sysfs_resolve(root, controllers.items[0], &path);
	if (r < 0)
		return r;
	return find_address(path, ret_address) ? 0 : -ENOENT;
}

int sysfs_pci_address(
	const char *root, const char *directory, char ret_address[static PCI_ADDRESS_SIZE])
{
	_cleanup_free_ char *path = NULL, *copy = NULL;
	int r;

	r = sysfs_resolve(root, directory, &path);
	if (r < 0)
		return r;
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	if (find_address(copy, ret_address))
		return 0;
	return controller_address(root, path, ret_address);
}

bool sysfs_has_vfs(const char *root, const char *directory)
{
	_cleanup_free_ char *path = NULL, *function = NULL;

	return join(directory, "virtfn0", &path) >= 0 &&
		sysroot_resolve(root, path, &function) >= 0;
}

int sysfs_list_vfs(const char *root, const char *directory, struct strings *ret_addresses)
{
	int r = 0;

	for (int i = 0; i < VFS_MAX && r >= 0; i++) {
		char link[32], address[NAME_MAX + 1] = "";

		(void)snprintf(link, sizeof(link), "virtfn%d", i);
		r = sysfs_read_link(root, directory, link, address);
		if (sysroot_is_absent(r))
			return 0;
		if (!sysroot_is_shortage(r))
			r = strings_add(ret_addresses, address, strlen(address));
	}
	return r;
}

/* Returns 1 if there is an answer, 0 or a shortage. */
static int add_numa(const char *root, const char *directory, struct device *device)
{
	_cleanup_free_ char *path = NULL;
	int64_t node;
	int r;

	r = sysfs_resolve(root, directory, &path);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	for (unsigned i = 0; i < DEPTH_MAX; i++) {
		r = sysfs_read_number(root, path, "numa_node", &node);
		if (r >= 0 && node >= -1 && node <= INT32_MAX) {
			r = device_add_numa(device, (int)node);
			return r < 0 ? r : 1;
		}
		if (!sysfs_ascend(path))
			break;
	}
	return 0;
}

int sysfs_add_numa(const char *root, const char *directory, struct device *device)
{
	_cleanup_strings_ struct strings controllers = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	r = add_numa(root, directory, device);
	if (r != 0)
		return MIN_OF(r, 0);
	r = sysfs_resolve(root, directory, &path);
	if (r >= 0)
		r = find_controllers(root, path, &controllers);
	for (size_t i = 0; i < controllers.count && r >= 0; i++)
		r = add_numa(root, controllers.items[i], device);
	return sysroot_is_shortage(r) ? r : 0;
}

int sysfs_describe(const char *root, const char *directory, struct device *device)
{
	_cleanup_free_ char *resolved = NULL;
	char address[PCI_ADDRESS_SIZE];
	int r;

	r = sysfs_resolve(root, directory, &resolved);
	if (r < 0)
		return r;
	r = device_add_variable(device, "sysfs", resolved);
	if (r < 0)
		return r;
	if (sysfs_pci_address(root, resolved, address) >= 0) {
		r = device_add_variable(device, "bdf", address);
		if (r < 0)
			return r;
	}
	return sysfs_add_numa(root, resolved, device);
}
