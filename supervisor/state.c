/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files are written under a temporary name and renamed, with modes that do not depend on the umask.
 * Contents that come from a child are opaque here and bounded. The lock is an open-file-description
 * lock: others can test for it without taking it, and it ends with the process, however that ends.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "state.h"

#define COPY_CHUNK 65536
#define TEMPORARY  ".tmp"

struct state {
	int directory_fd, lock_fd;
};

int state_make_directory(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	for (char *p = copy + 1;; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(copy, 0755) == 0)
			(void)chmod(copy, 0755);
		else if (errno != EEXIST)
			return -errno;
		*p = c;
		if (c == '\0')
			return 0;
	}
}

static int take_lock(struct state *state, const char *runtime_dir, struct error *error)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	state->lock_fd = openat(state->directory_fd, STATE_LOCK_FILE,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (state->lock_fd < 0 || fchmod(state->lock_fd, 0644) < 0)
		return error_set(error, -errno, "cannot open %s/%s: %s", runtime_dir,
			STATE_LOCK_FILE, strerror(errno));
	if (fcntl(state->lock_fd, F_OFD_SETLK, &lock) == 0)
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return error_set(error, -EBUSY,
			"another devplugd already uses %s; stop it, or give this one its own "
			"`runtime_dir`",
			runtime_dir);
	return error_set(error, -errno, "cannot lock %s/%s: %s", runtime_dir, STATE_LOCK_FILE,
		strerror(errno));
}

static const char *const directories[] = { STATE_DEVICES_DIR, STATE_HEALTH_DIR };

int state_open(const char *runtime_dir, struct state **ret, struct error *error)
{
	_cleanup_(state_freep) struct state *state = calloc(1, sizeof(*state));
	int r;

	if (!state)
		return error_set(error, -ENOMEM, "out of memory");
	state->lock_fd = -EBADF;
	r = state_make_directory(runtime_dir);
	state->directory_fd = open(runtime_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (state->directory_fd < 0)
		return error_set(error, r < 0 ? r : -errno, "cannot open the directory %s: %s",
			runtime_dir, strerror(r < 0 ? -r : errno));
	r = take_lock(state, runtime_dir, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		if (mkdirat(state->directory_fd, directories[i], 0755) == 0)
			(void)fchmodat(state->directory_fd, directories[i], 0755, 0);
		else if (errno != EEXIST)
			return error_set(error, -errno, "cannot create %s/%s: %s", runtime_dir,
				directories[i], strerror(errno));
	state_clear(state);
	*ret = TAKE_PTR(state);
	return 0;
}

static int open_temporary(
	struct state *state, const char *name, mode_t mode, char ret_path[static STATE_NAME_MAX])
{
	int fd;

	if (snprintf(ret_path, STATE_NAME_MAX, "%s%s", name, TEMPORARY) >= STATE_NAME_MAX)
		return -ENAMETOOLONG;
	fd = openat(state->directory_fd, ret_path,
		O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return -errno;
	(void)fchmod(fd, mode);
	return fd;
}

/* Puts a completed file in its place, or removes the incomplete one. */
static int finish_temporary(struct state *state, const char *path, const char *name, int r)
{
	if (r >= 0 && renameat(state->directory_fd, path, state->directory_fd, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(state->directory_fd, path, 0);
	return r;
}

static int write_file(
	struct state *state, const char *name, mode_t mode, const void *data, size_t size)
{
	_cleanup_close_ int fd = -EBADF;
	char path[STATE_NAME_MAX];

	fd = open_temporary(state, name, mode, path);
	if (fd < 0)
		return fd;
	return finish_temporary(state, path, name, write_all(fd, data, size));
}

int state_write(struct state *state, const char *name, const void *data, size_t size)
{
	return write_file(state, name, 0644, data, size);
}

int state_write_private(struct state *state, const char *name, const void *data, size_t size)
{
	return write_file(state, name, 0600, data, size);
}

/* Copies what lies behind the first `size` bytes. */
static int copy_bounded(int from, size_t size, int to, size_t limit, size_t *ret_size)
{
	char chunk[COPY_CHUNK];

	for (;;) {
		ssize_t n = RETRY_ON_EINTR(pread(from, chunk, sizeof(chunk), (off_t)size));
		int r;

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > limit)
			return -EFBIG;
		r = write_all(to, chunk, (size_t)n);
		if (r < 0)
			return r;
	}
	*ret_size = size;
	return 0;
}

int state_copy(struct state *state, const char *name, int fd, size_t limit, size_t *ret_size)
{
	_cleanup_close_ int to = -EBADF;
	char path[STATE_NAME_MAX];

	to = open_temporary(state, name, 0644, path);
	if (to < 0)
		return to;
	return finish_temporary(state, path, name, copy_bounded(fd, 0, to, limit, ret_size));
}

static int append(struct state *state, const char *name, int fd, size_t limit, size_t *written)
{
	_cleanup_close_ int to = -EBADF;

	to = openat(state->directory_fd, name, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	return to < 0 ? -errno : copy_bounded(fd, *written, to, limit, written);
}

int64_t state_follow(struct state *state, const char *name, int fd, size_t limit, size_t *written)
{
	size_t before = *written;
	int r;

	if (before > 0 && append(state, name, fd, limit, written) >= 0)
		return (int64_t)(*written - before);
	*written = 0;
	r = state_copy(state, name, fd, limit, written);
	return r < 0 ? r : (int64_t)*written;
}

void state_remove(struct state *state, const char *name)
{
	(void)unlinkat(state->directory_fd, name, 0);
}

void state_clear(struct state *state)
{
	int fd = openat(state->directory_fd, STATE_DEVICES_DIR,
		O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	state_remove(state, STATE_FILE);
	if (!stream) {
		(void)close_fd(fd);
		return;
	}
	while ((entry = readdir(stream)))
		if (entry->d_name[0] != '.')
			(void)unlinkat(fd, entry->d_name, 0);
	(void)closedir(stream);
}

/* The type is for people; the hash makes the name unique and its length bounded. */
static void make_name(const char *directory, const char *resource, char ret[static STATE_NAME_MAX])
{
	const char *slash = strrchr(resource, '/');

	(void)snprintf(ret, STATE_NAME_MAX, "%s/%.63s-%016llx.json", directory,
		slash ? slash + 1 : resource, (unsigned long long)hash_string(resource));
}

void state_devices_name(const char *resource, char ret[static STATE_NAME_MAX])
{
	make_name(STATE_DEVICES_DIR, resource, ret);
}

void state_health_name(const char *resource, char ret[static STATE_NAME_MAX])
{
	make_name(STATE_HEALTH_DIR, resource, ret);
}

int state_open_file(const struct state *state, const char *name)
{
	int fd = openat(state->directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

struct state *state_free(struct state *state)
{
	if (!state)
		return NULL;
	(void)close_fd(state->directory_fd);
	(void)close_fd(state->lock_fd);
	free(state);
	return NULL;
}
