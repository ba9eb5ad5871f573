/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides the temporary name of a file that is replaced. It has a fixed length, because the name of
 * the file may be as long as the file system allows, and is the same each time, so that a file that
 * a killed process left is replaced too.
 */
#include "common/replace-file.h"

#include <fcntl.h>
#include <sys/stat.h>

static int make_temporary(const char *name, char **ret)
{
	const char *slash = strrchr(name, '/');
	int length = slash ? (int)(slash + 1 - name) : 0;

	return format_text(ret, "%.*s" REPLACE_FILE_PREFIX "%016llx" REPLACE_FILE_SUFFIX, length,
		name, (unsigned long long)hash_string(name + length));
}

int replace_file_begin(int directory_fd, const char *name, mode_t mode)
{
	_cleanup_free_ char *temporary = NULL;
	_cleanup_close_ int fd = -EBADF;
	int r;

	r = make_temporary(name, &temporary);
	if (r < 0)
		return r;
	(void)unlinkat(directory_fd, temporary, 0);
	fd = openat(directory_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		mode);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, mode) < 0) {
		r = -errno;
		(void)unlinkat(directory_fd, temporary, 0);
		return r;
	}
	return TAKE_FD(fd);
}

int replace_file_end(int directory_fd, const char *name, int r)
{
	_cleanup_free_ char *temporary = NULL;

	if (make_temporary(name, &temporary) < 0)
		return -ENOMEM;
	if (r >= 0 && renameat(directory_fd, temporary, directory_fd, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(directory_fd, temporary, 0);
	return r;
}

int replace_file(int directory_fd, const char *name, mode_t mode, const void *data, size_t size)
{
	_cleanup_close_ int fd = replace_file_begin(directory_fd, name, mode);

	return fd < 0 ? fd : replace_file_end(directory_fd, name, write_all(fd, data, size));
}
