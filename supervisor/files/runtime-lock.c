/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides that only one devplugd uses a runtime_dir: the one that has the lock on a file in it. The
 * lock belongs to the process, so that a child which was just forked does not hold it. Closing any
 * descriptor of the locked file releases it.
 */
#include "supervisor/files/runtime-lock.h"

/* Any process that can open the file can take the lock, so it is ours alone; a file that others
 * could open before is not used. */
static int open_lock(int directory_fd)
{
	struct stat st;
	int fd;

	if (fstatat(directory_fd, RUNTIME_LOCK_FILE, &st, AT_SYMLINK_NOFOLLOW) >= 0 &&
		(!S_ISREG(st.st_mode) || st.st_mode & 077) &&
		unlinkat(directory_fd, RUNTIME_LOCK_FILE, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) <
			0)
		return -errno;
	fd = openat(directory_fd, RUNTIME_LOCK_FILE,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	return fd < 0 ? -errno : fd;
}

int runtime_lock_take(int directory_fd, const char *path, struct error *error)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	_cleanup_close_ int fd = open_lock(directory_fd);

	if (fd < 0)
		return error_set(
			error, fd, "cannot open %s/" RUNTIME_LOCK_FILE ": %s", path, strerror(-fd));
	if (fcntl(fd, F_SETLK, &lock) == 0)
		return TAKE_FD(fd);
	if (errno == EAGAIN || errno == EACCES)
		return error_set(error, -EBUSY,
			"another devplugd already uses %s; stop it, or set another `runtime_dir` for this one",
			path);
	return error_set(
		error, -errno, "cannot lock %s/" RUNTIME_LOCK_FILE ": %s", path, strerror(errno));
}

bool runtime_lock_is_taken(const char *path)
{
	_cleanup_close_ int directory_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct error ignored = { 0 };
	int r;

	if (directory_fd < 0)
		return false;
	r = runtime_lock_take(directory_fd, path, &ignored);
	(void)close_fd(r);
	return r == -EBUSY;
}
