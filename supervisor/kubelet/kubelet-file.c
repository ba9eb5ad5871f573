/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what may be read in the place of a kubelet's file: a regular file of a limited size, and
 * the newest one.
 */
#include "supervisor/kubelet/kubelet-file.h"

#include <fcntl.h>
#include <sys/stat.h>

/* How often a file may be replaced while it is opened. */
#define REPLACED_MAX 100

int kubelet_file_is_removed(int fd, bool *ret_mounted)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_NLINK, &st) < 0)
		return -errno;
	if (st.stx_nlink > 0)
		return 0;
	*ret_mounted = st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
	return 1;
}

/* Opens the newest file. */
static int open_newest(const char *path, struct error *error)
{
	for (unsigned i = 0; i < REPLACED_MAX; i++) {
		/* Non-blocking, in case it is a FIFO. */
		_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
		bool mounted = false;
		int r = fd < 0 ? -errno : kubelet_file_is_removed(fd, &mounted);

		if (r < 0)
			return error_set(error, r, "cannot read %s: %s", path, strerror(-r));
		if (r == 0)
			return TAKE_FD(fd);
		if (mounted)
			return error_set(error, -ESTALE,
				"%s was replaced, and a mount keeps the old file; mount its "
				"directory instead",
				path);
	}
	return error_set(error, -EAGAIN, "%s was replaced %d times", path, REPLACED_MAX);
}

static int open_file(const char *path, unsigned maximum, size_t *ret_size, struct error *error)
{
	_cleanup_close_ int fd = open_newest(path, error);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return error_set(error, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(error, -EBADMSG, "%s is not a regular file", path);
	if (st.st_size > maximum)
		return error_set(error, -EFBIG, "%s is %lld bytes long, the maximum is %u", path,
			(long long)st.st_size, maximum);
	*ret_size = (size_t)st.st_size;
	return TAKE_FD(fd);
}

int kubelet_file_load(const char *path, unsigned maximum, json_t **ret, struct error *error)
{
	_cleanup_close_ int fd = -EBADF;
	_cleanup_free_ char *text = NULL;
	json_error_t problem;
	json_t *loaded;
	size_t size = 0;
	int r;

	fd = open_file(path, maximum, &size, error);
	if (fd < 0)
		return fd;
	r = read_exactly(fd, size, &text);
	if (r < 0)
		return error_set(error, r, "cannot read %s: %s", path, strerror(-r));
	loaded = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
	if (!loaded)
		return error_set(error, -EBADMSG, "%s is not valid JSON: %s", path, problem.text);
	*ret = loaded;
	return 0;
}
