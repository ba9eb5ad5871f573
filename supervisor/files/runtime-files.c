/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which files devplugd uses in runtime_dir: its own, which no other user could have written
 * or can write. Files are written under a temporary name and renamed, with modes that do not depend
 * on the umask. The directories are held open, so that no name on the way to a file can be replaced
 * by a link.
 */
#include "supervisor/files/runtime-files.h"

#include "common/replace-file.h"
#include "supervisor/files/runtime-lock.h"

#define HEALTH_DIR "health"
#define LISTS_DIR  "complete"

struct runtime_files {
	int directory_fd, health_fd, lock_fd;
	int lists_fd; /* -EBADF: not opened yet */
	char *path;
};

int runtime_files_make_directory(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	/* Mostly, it is there. */
	if (access(path, F_OK) == 0)
		return 0;
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

int runtime_files_remove_any(int at, const char *name)
{
	if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
		return 0;
	return unlinkat(at, name, errno == EISDIR ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
}

static bool is_ours(const struct stat *st)
{
	return (st->st_uid == geteuid() || st->st_uid == 0) && !(st->st_mode & S_IWOTH) &&
		(!(st->st_mode & S_IWGRP) || st->st_gid == 0 || st->st_gid == getegid());
}

/* What others can write to is as good as theirs. */
static int check_owner(int fd, const char *path, struct stat *ret, struct error *error)
{
	if (fstat(fd, ret) < 0)
		return error_set(error, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!is_ours(ret))
		return error_set(error, -EPERM,
			"%s must belong to the user of devplugd or to root, and others must not be "
			"able to write to it; remove it, or set another `runtime_dir`",
			path);
	return 0;
}

static int open_directory(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int runtime_files_open_private(int at, const char *name, const char *path, struct error *error)
{
	_cleanup_close_ int fd = open_directory(at, name);
	struct stat st;
	int r;

	if (fd < 0) {
		/* In the place of anything else with that name. */
		(void)unlinkat(at, name, 0);
		fd = mkdirat(at, name, 0700) < 0 ? -errno : open_directory(at, name);
	}
	if (fd < 0)
		return error_set(error, fd, "cannot create %s: %s", path, strerror(-fd));
	r = check_owner(fd, path, &st, error);
	if (r < 0)
		return r;
	/* A change of the mode is an event of a watched directory. */
	if ((st.st_mode & 07777) != 0700)
		(void)fchmod(fd, 0700);
	return TAKE_FD(fd);
}

static int open_health(struct runtime_files *files, struct error *error)
{
	_cleanup_free_ char *path = NULL;

	if (format_text(&path, "%s/" HEALTH_DIR, files->path) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return files->health_fd =
		       runtime_files_open_private(files->directory_fd, HEALTH_DIR, path, error);
}

static int open_all(struct runtime_files *files, struct error *error)
{
	struct stat st;
	int r;

	r = runtime_files_make_directory(files->path);
	files->directory_fd = open_directory(AT_FDCWD, files->path);
	if (files->directory_fd < 0) {
		r = r < 0 ? r : files->directory_fd;
		return error_set(
			error, r, "cannot open the directory %s: %s", files->path, strerror(-r));
	}
	r = check_owner(files->directory_fd, files->path, &st, error);
	if (r >= 0 && !is_name_of(files->directory_fd, RUNTIME_LOCK_FILE, files->lock_fd))
		r = files->lock_fd = runtime_lock_take(files->directory_fd, files->path, error);
	return r < 0 ? r : open_health(files, error);
}

static struct runtime_files *allocate(const char *runtime_dir)
{
	struct runtime_files *files = calloc(1, sizeof(*files));

	if (!files)
		return NULL;
	files->directory_fd = files->health_fd = files->lists_fd = files->lock_fd = -EBADF;
	files->path = strdup(runtime_dir);
	return files->path ? files : runtime_files_free(files);
}

int runtime_files_open(const char *runtime_dir, struct runtime_files **ret, struct error *error)
{
	_cleanup_(runtime_files_freep) struct runtime_files *files = allocate(runtime_dir);
	int r;

	if (!files)
		return error_set(error, -ENOMEM, "out of memory");
	r = open_all(files, error);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(files);
	return 0;
}

int runtime_files_restore(struct runtime_files *files, struct error *error)
{
	_cleanup_(runtime_files_freep) struct runtime_files *fresh = NULL;
	struct runtime_files old;
	int r;

	if (is_name_of(AT_FDCWD, files->path, files->directory_fd) &&
		is_name_of(files->directory_fd, RUNTIME_LOCK_FILE, files->lock_fd) &&
		is_name_of(files->directory_fd, HEALTH_DIR, files->health_fd))
		return 0;
	fresh = allocate(files->path);
	if (!fresh)
		return error_set(error, -ENOMEM, "out of memory");
	/* Closing any descriptor of the locked file unlocks it, so both have the same one. */
	fresh->lock_fd = files->lock_fd;
	r = open_all(fresh, error);
	if (r >= 0) {
		old = *files;
		*files = *fresh;
		*fresh = old;
	}
	if (fresh->lock_fd == files->lock_fd)
		fresh->lock_fd = -EBADF;
	return r < 0 ? r : 1;
}

int runtime_files_write(
	struct runtime_files *files, const char *name, const void *data, size_t size)
{
	return replace_file(files->directory_fd, name, 0600, data, size);
}

void runtime_files_remove(struct runtime_files *files, const char *name)
{
	(void)unlinkat(files->directory_fd, name, 0);
}

int runtime_files_directory(const struct runtime_files *files)
{
	return files->directory_fd;
}

int runtime_files_health_directory(const struct runtime_files *files)
{
	return files->health_fd;
}

int runtime_files_state_path(const char *runtime_dir, const char *name, char **ret)
{
	const char *state = getenv("STATE_DIRECTORY");

	if (state && *state == '/')
		return format_text(ret, "%.*s/%s", (int)strcspn(state, ":"), state, name);
	return format_text(ret, "%s/%s", runtime_dir, name);
}

int runtime_files_lists_directory(struct runtime_files *files)
{
	_cleanup_free_ char *parent = NULL, *path = NULL;
	_cleanup_close_ int parent_fd = -EBADF;
	struct error error;
	int r;

	if (runtime_files_state_path(files->path, "", &parent) < 0 ||
		runtime_files_state_path(files->path, LISTS_DIR, &path) < 0)
		return -ENOMEM;
	if (files->lists_fd >= 0 && is_name_of(AT_FDCWD, path, files->lists_fd))
		return files->lists_fd;
	files->lists_fd = close_fd(files->lists_fd);
	parent[strlen(parent) - 1] = '\0';
	r = runtime_files_make_directory(parent);
	parent_fd = open_directory(AT_FDCWD, parent);
	if (parent_fd < 0)
		return r < 0 ? r : parent_fd;
	r = runtime_files_open_private(parent_fd, LISTS_DIR, path, &error);
	if (r >= 0)
		files->lists_fd = r;
	return r;
}

int runtime_files_open_file(int directory_fd, const char *name)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) && is_ours(&st) ? TAKE_FD(fd) : -EPERM;
}

struct runtime_files *runtime_files_free(struct runtime_files *files)
{
	if (!files)
		return NULL;
	(void)close_fd(files->health_fd);
	(void)close_fd(files->lists_fd);
	(void)close_fd(files->directory_fd);
	(void)close_fd(files->lock_fd);
	free(files->path);
	free(files);
	return NULL;
}
