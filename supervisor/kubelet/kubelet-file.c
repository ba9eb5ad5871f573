/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what may be read in the place of a kubelet's file: a regular file of a limited size.
 */
#include "supervisor/kubelet/kubelet-file.h"

#include <fcntl.h>

static int open_file(
	const char *path, unsigned maximum, struct stat *ret_status, struct error *error)
{
	_cleanup_close_ int fd = -EBADF;

	/* Non-blocking, in case it is a FIFO. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, ret_status) < 0)
		return error_set(error, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!S_ISREG(ret_status->st_mode))
		return error_set(error, -EBADMSG, "%s is not a regular file", path);
	if (ret_status->st_size > maximum)
		return error_set(error, -EFBIG, "%s is %lld bytes long, the maximum is %u", path,
			(long long)ret_status->st_size, maximum);
	return TAKE_FD(fd);
}

int kubelet_file_load(const char *path, unsigned maximum, json_t **ret, struct stat *ret_status,
	struct error *error)
{
	_cleanup_close_ int fd = -EBADF;
	_cleanup_free_ char *text = NULL;
	json_error_t problem;
	size_t size, done = 0;
	struct stat st;
	json_t *loaded;

	fd = open_file(path, maximum, &st, error);
	if (fd < 0)
		return fd;
	size = (size_t)st.st_size;
	text = malloc(size + 1);
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	while (done < size) {
		ssize_t n = RETRY_ON_EINTR(pread(fd, text + done, size - done, (off_t)done));

		if (n <= 0)
			return error_set(error, n < 0 ? -errno : -EBADMSG, "cannot read %s", path);
		done += (size_t)n;
	}
	loaded = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
	if (!loaded)
		return error_set(error, -EBADMSG, "%s is not valid JSON: %s", path, problem.text);
	*ret = loaded;
	*ret_status = st;
	return 0;
}
