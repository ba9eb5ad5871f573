/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which files devplugd uses in runtime_dir: its own, which no other user could have written
 * or can write. Files are written under a temporary name and renamed, with modes that do not depend
 * on the umask. The directories are held open, so that no name on the way to a file can be replaced
 * by a link.
 */
#include "supervisor/files/state.h"

#include "common/replace-file.h"
#include "supervisor/files/runtime-lock.h"

#define HEALTH_DIR "health"

struct state {
	int directory_fd, health_fd, lock_fd;
	char *path;
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

int state_remove_any(int at, const char *name)
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
static int check_owner(int fd, const char *path, struct error *error)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(error, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!is_ours(&st))
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

static int open_health(struct state *state, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (asprintf(&path, "%s/" HEALTH_DIR, state->path) < 0) {
		path = NULL;
		return error_set(error, -ENOMEM, "out of memory");
	}
	state->health_fd = open_directory(state->directory_fd, HEALTH_DIR);
	if (state->health_fd < 0) {
		/* In the place of anything else with that name. */
		(void)unlinkat(state->directory_fd, HEALTH_DIR, 0);
		r = mkdirat(state->directory_fd, HEALTH_DIR, 0700);
		state->health_fd = r < 0 ? -errno : open_directory(state->directory_fd, HEALTH_DIR);
	}
	if (state->health_fd < 0)
		return error_set(error, state->health_fd, "cannot create %s: %s", path,
			strerror(-state->health_fd));
	r = check_owner(state->health_fd, path, error);
	if (r >= 0)
		(void)fchmod(state->health_fd, 0700);
	return r;
}

static int open_all(struct state *state, struct error *error)
{
	int r;

	r = state_make_directory(state->path);
	state->directory_fd = open_directory(AT_FDCWD, state->path);
	if (state->directory_fd < 0) {
		r = r < 0 ? r : state->directory_fd;
		return error_set(
			error, r, "cannot open the directory %s: %s", state->path, strerror(-r));
	}
	r = check_owner(state->directory_fd, state->path, error);
	if (r >= 0 && !is_name_of(state->directory_fd, RUNTIME_LOCK_FILE, state->lock_fd))
		r = state->lock_fd = runtime_lock_take(state->directory_fd, state->path, error);
	return r < 0 ? r : open_health(state, error);
}

static struct state *allocate(const char *runtime_dir)
{
	struct state *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	state->directory_fd = state->health_fd = state->lock_fd = -EBADF;
	state->path = strdup(runtime_dir);
	return state->path ? state : state_free(state);
}

int state_open(const char *runtime_dir, struct state **ret, struct error *error)
{
	_cleanup_(state_freep) struct state *state = allocate(runtime_dir);
	int r;

	if (!state)
		return error_set(error, -ENOMEM, "out of memory");
	r = open_all(state, error);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(state);
	return 0;
}

int state_restore(struct state *state, struct error *error)
{
	_cleanup_(state_freep) struct state *fresh = NULL;
	struct state old;
	int r;

	if (is_name_of(AT_FDCWD, state->path, state->directory_fd) &&
		is_name_of(state->directory_fd, RUNTIME_LOCK_FILE, state->lock_fd) &&
		is_name_of(state->directory_fd, HEALTH_DIR, state->health_fd))
		return 0;
	fresh = allocate(state->path);
	if (!fresh)
		return error_set(error, -ENOMEM, "out of memory");
	/* Closing any descriptor of the locked file unlocks it, so both have the same one. */
	fresh->lock_fd = state->lock_fd;
	r = open_all(fresh, error);
	if (r >= 0) {
		old = *state;
		*state = *fresh;
		*fresh = old;
	}
	if (fresh->lock_fd == state->lock_fd)
		fresh->lock_fd = -EBADF;
	return r < 0 ? r : 1;
}

int state_write(struct state *state, const char *name, const void *data, size_t size)
{
	return replace_file(state->directory_fd, name, 0600, data, size);
}

void state_remove(struct state *state, const char *name)
{
	(void)unlinkat(state->directory_fd, name, 0);
}

int state_directory(const struct state *state)
{
	return state->directory_fd;
}

int state_health_directory(const struct state *state)
{
	return state->health_fd;
}

int state_open_file(int directory_fd, const char *name)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) && is_ours(&st) ? TAKE_FD(fd) : -EPERM;
}

struct state *state_free(struct state *state)
{
	if (!state)
		return NULL;
	(void)close_fd(state->health_fd);
	(void)close_fd(state->directory_fd);
	(void)close_fd(state->lock_fd);
	free(state->path);
	free(state);
	return NULL;
}
