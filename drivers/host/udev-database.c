/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the properties, tags and links that udev stores about a device. The file of a device is
 * named after its number, its network interface, or its subsystem and name
 * (sd_device_get_device_id(3)). Each line of it is a letter, a colon and a value.
 */
#include "drivers/host/udev-database.h"

#include "drivers/host/sysroot.h"
#include "drivers/host/uevent.h"

#define DATABASE_FILE_MAX 65536

static int database_path(const char *root, const char *directory, char **ret)
{
	char subsystem[NAME_MAX + 1], number[SYSFS_VALUE_MAX + 1];
	int r;

	r = sysfs_read_link(root, directory, "subsystem", subsystem);
	if (r < 0)
		return r;
	if (sysfs_read(root, directory, "dev", number) >= 0 && !strchr(number, '/'))
		r = format_text(
			ret, UDEV_DATABASE "/%c%s", streq(subsystem, "block") ? 'b' : 'c', number);
	else if (streq(subsystem, "net") && sysfs_read(root, directory, "ifindex", number) >= 0 &&
		!strchr(number, '/'))
		r = format_text(ret, UDEV_DATABASE "/n%s", number);
	else
		r = format_text(
			ret, UDEV_DATABASE "/+%s:%s", subsystem, strrchr(directory, '/') + 1);
	return r < 0 ? -ENOMEM : 0;
}

/* Reads the whole file. */
static int read_database(const char *root, const char *directory, char **ret)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	struct stat st;
	ssize_t length;
	int r;

	r = database_path(root, directory, &path);
	if (r < 0)
		return r;
	text = malloc(DATABASE_FILE_MAX);
	if (!text)
		return -ENOMEM;
	length = sysroot_read(root, path, text, DATABASE_FILE_MAX);
	if (length < 0)
		return sysroot_is_absent((int)length) &&
				sysroot_is_absent(sysroot_stat(root, UDEV_DATABASE, &st))
			? -ENODATA
			: (int)length;
	if (length == DATABASE_FILE_MAX - 1)
		return -EFBIG;
	*ret = TAKE_PTR(text);
	return 0;
}

static int read_tags(char *text, char ret_value[static SYSFS_VALUE_MAX + 1])
{
	char tags[SYSFS_VALUE_MAX + 2] = ":", *line;
	size_t length = 1;

	while ((line = strsep(&text, "\n"))) {
		const char *tag = startswith(line, "G:");

		if (!tag)
			continue;
		if (length + strlen(tag) + 1 >= sizeof(tags))
			return -EFBIG;
		length += (size_t)snprintf(tags + length, sizeof(tags) - length, "%s:", tag);
	}
	return length > 1 ? sysfs_copy_value(tags, ret_value) : -ENOENT;
}

/* The value of a property, or NULL. Changes the text. */
static const char *find_property(char *text, const char *key)
{
	char *line;

	while ((line = strsep(&text, "\n"))) {
		const char *value = startswith(line, "E:");

		value = value ? startswith(value, key) : NULL;
		if (value && *value == '=')
			return value + 1;
	}
	return NULL;
}

int udev_read_property(const char *root, const char *directory, const char *key,
	char ret_value[static SYSFS_VALUE_MAX + 1])
{
	_cleanup_free_ char *text = NULL;
	const char *value;
	int r;

	r = sysfs_read_uevent(root, directory, key, ret_value);
	if (r != -ENOENT)
		return r;
	r = read_database(root, directory, &text);
	if (r < 0)
		return r;
	if (streq(key, "TAGS"))
		return read_tags(text, ret_value);
	value = find_property(text, key);
	return value ? sysfs_copy_value(value, ret_value) : -ENOENT;
}

int udev_read_links(const char *root, const char *directory, struct strings *links)
{
	_cleanup_free_ char *text = NULL;
	char *rest, *line;
	int r;

	r = read_database(root, directory, &text);
	if (r < 0)
		return sysroot_is_shortage(r) || r == -ENODATA ? r : 0;
	for (rest = text; (line = strsep(&rest, "\n"));) {
		const char *link = startswith(line, "S:");
		char path[PATH_MAX];

		if (!link || !sysfs_is_text(link) || *link == '/' || strstr(link, "..") ||
			strlen(link) > PATH_MAX - sizeof("/dev/"))
			continue;
		(void)snprintf(path, sizeof(path), "/dev/%s", link);
		r = strings_add(links, path, strlen(path));
		if (r < 0)
			return r;
	}
	return 0;
}

/* udev stores an entry for each network interface when all rules are done. Meanwhile an entry with
 * ID_RENAMING may exist (device_is_renaming() in systemd). */
int udev_is_pending(const char *root, const char *directory)
{
	_cleanup_free_ char *text = NULL;
	struct stat st;
	int r;

	if (sysroot_stat(root, UDEV_CONTROL, &st) < 0)
		return 0;
	r = read_database(root, directory, &text);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : r == -ENOENT || r == -ENODATA;
	return streq(find_property(text, "ID_RENAMING") ?: "", "1");
}
