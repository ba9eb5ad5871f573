/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files so that a FIFO or a symbolic link in their place can neither block nor redirect the
 * kubelet.
 */
#include "kubelet/file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

int file_read(const char *path, size_t max, char **ret_data, size_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	_cleanup_free_ char *data = NULL;
	struct stat st;
	size_t size = 0, room;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size < 0 || (uint64_t)st.st_size > max)
		return -EFBIG;
	room = (size_t)st.st_size;
	data = malloc(room + 1);
	if (!data)
		return -ENOMEM;
	while (size < room) {
		ssize_t n = RETRY_ON_EINTR(read(fd, data + size, room - size));

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		size += (size_t)n;
	}
	data[size] = '\0';
	*ret_data = TAKE_PTR(data);
	*ret_size = size;
	return 0;
}

static int write_and_rename(int dir, const char *temporary, const char *name, const void *data,
	size_t size, mode_t mode, bool durable)
{
	_cleanup_close_ int fd =
		openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	int r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, data, size);
	if (r < 0)
		return r;
	if (durable && fsync(fd) < 0)
		return -errno;
	return renameat(dir, temporary, dir, name) < 0 ? -errno : 0;
}

int file_replace(const char *path, const char *name, const void *data, size_t size, mode_t mode,
	bool durable)
{
	_cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char temporary[NAME_MAX + 1];
	int r;

	if (dir < 0)
		return -errno;
	r = snprintf(temporary, sizeof(temporary), ".%s.new", name);
	if (r < 0 || (size_t)r >= sizeof(temporary))
		return -ENAMETOOLONG;
	r = write_and_rename(dir, temporary, name, data, size, mode, durable);
	if (r < 0)
		(void)unlinkat(dir, temporary, 0);
	return r;
}

int make_directory(const char *path, mode_t mode)
{
	_cleanup_free_ char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	for (char *p = copy + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(copy, mode) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return mkdir(copy, mode) < 0 && errno != EEXIST ? -errno : 0;
}
