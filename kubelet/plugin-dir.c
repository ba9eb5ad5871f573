/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares the kubelet's directory before the kubelet serves. Links are followed to find the type
 * of an entry, but the entry itself is removed.
 */
#include "kubelet/plugin-dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "kubelet/checkpoint.h"
#include "kubelet/file.h"

static void closedirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}

static bool is_removed(const struct kubelet_version *version, mode_t mode)
{
	return version->removes_all_files ? !S_ISDIR(mode) : S_ISSOCK(mode);
}

static int clean(const char *path, const struct kubelet_version *version,
	void (*on_removed)(const char *name, void *userdata), void *userdata, struct error *error)
{
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;

	if (!dir)
		return error_set(error, -errno, "cannot read %s: %s", path, strerror(errno));
	while ((entry = readdir(dir))) {
		struct stat st;

		if (streq(entry->d_name, CHECKPOINT_NAME) ||
			fstatat(dirfd(dir), entry->d_name, &st, 0) < 0 ||
			!is_removed(version, st.st_mode))
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) < 0 && errno != ENOENT)
			return error_set(error, -errno, "cannot remove %s/%s: %s", path,
				entry->d_name, strerror(errno));
		on_removed(entry->d_name, userdata);
	}
	return 0;
}

int plugin_dir_prepare(const char *dir, const struct kubelet_version *version,
	void (*on_removed)(const char *name, void *userdata), void *userdata, struct error *error)
{
	int r;

	r = make_directory(dir, 0755);
	if (r < 0)
		return error_set(error, r, "cannot make %s: %s", dir, strerror(-r));
	return clean(dir, version, on_removed, userdata, error);
}

/* Creates a socket and the address for the path. */
static int open_socket(const char *path, struct sockaddr_un *address, int *ret_fd)
{
	size_t size = strlen(path) + 1;
	int fd;

	if (size > sizeof(address->sun_path))
		return -ENAMETOOLONG;
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(address->sun_path, path, size);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int socket_connect(const char *path, int *ret_fd)
{
	_cleanup_close_ int fd = -EBADF;
	struct sockaddr_un address;
	int r;

	r = open_socket(path, &address, &fd);
	if (r < 0)
		return r;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int socket_listen(const char *path, int *ret_fd)
{
	_cleanup_close_ int fd = -EBADF;
	struct sockaddr_un address;
	int r;

	r = open_socket(path, &address, &fd);
	if (r < 0)
		return r;
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(fd, SOMAXCONN) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int socket_publish(const char *path, int *ret_fd)
{
	char temporary[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	size_t size = strlen(path) + 1;
	_cleanup_close_ int fd = -EBADF;
	int r;

	if (size > sizeof(temporary))
		return -ENAMETOOLONG;
	memcpy(temporary, path, size);
	/* The temporary name is as long as the path itself, which may fill the address. */
	strrchr(temporary, '/')[1] = '.';
	(void)unlink(temporary);
	r = socket_listen(temporary, &fd);
	if (r < 0)
		return r;
	if (rename(temporary, path) < 0) {
		r = -errno;
		(void)unlink(temporary);
		return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int socket_path(const char *dir, char *path, size_t size, struct error *error)
{
	int r = snprintf(path, size, "%s/%s", dir, KUBELET_SOCKET_NAME);

	if (r < 0 || (size_t)r >= size)
		return error_set(error, -ENAMETOOLONG,
			"the path %s is too long for a socket in it: use a shorter --plugin-dir",
			dir);
	return 0;
}

int plugin_dir_check_unused(const char *dir, struct error *error)
{
	_cleanup_close_ int fd = -EBADF;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	int r;

	r = socket_path(dir, path, sizeof(path), error);
	if (r < 0)
		return r;
	if (socket_connect(path, &fd) >= 0)
		return error_set(error, -EADDRINUSE,
			"a kubelet serves %s: stop it, or choose another --plugin-dir", path);
	return 0;
}

int plugin_dir_listen(const char *dir, int *ret_fd, struct error *error)
{
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	int r;

	r = socket_path(dir, path, sizeof(path), error);
	if (r < 0)
		return r;
	r = socket_listen(path, ret_fd);
	if (r < 0)
		return error_set(error, r, "cannot listen on %s: %s", path, strerror(-r));
	return 0;
}
