/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the state files in runtime_dir, and decides which daemon may: the one that holds the lock.
 * daemon-loop.c decides when. Files are written under a temporary name and renamed, with modes that
 * do not depend on the umask. Content from a child is not read here and has a size limit. The lock
 * is the process's own, so that a child which was just forked does not hold it.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/replace-file.h"
#include "supervisor/files/state.h"

#define COPY_CHUNK 65536

/* Files are named relative to runtime_dir. The directories in it are held open like itself, so that
 * no name on the way to a file can be replaced by a link. */
static const struct {
	const char *name;
	mode_t mode;
} directories[] = {
	{ STATE_DEVICES_DIR, 0755 }, /* which devplugctl reads */
	{ STATE_HEALTH_DIR, 0700 },
};

struct state {
	int directory_fd, lock_fd;
	int below[ARRAY_SIZE(directories)];
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

/* Whether the name still is what is open. */
static bool is_there(int at, const char *name, int fd)
{
	struct stat named, open;

	return fstatat(at, name, &named, AT_SYMLINK_NOFOLLOW) >= 0 && fstat(fd, &open) >= 0 &&
		named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

/* Any process that can open the file can take the lock, so it is ours alone; a file that others
 * could open before is not used. */
static int open_lock(const struct state *state)
{
	struct stat st;
	int fd, r = 0;

	if (fstatat(state->directory_fd, STATE_LOCK_FILE, &st, AT_SYMLINK_NOFOLLOW) >= 0 &&
		(!S_ISREG(st.st_mode) || st.st_mode & 077))
		r = state_remove_any(state->directory_fd, STATE_LOCK_FILE);
	if (r < 0)
		return r;
	fd = openat(state->directory_fd, STATE_LOCK_FILE,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	return fd < 0 ? -errno : fd;
}

static int take_lock(struct state *state, const char *runtime_dir, struct error *error)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (is_there(state->directory_fd, STATE_LOCK_FILE, state->lock_fd))
		return 0;
	state->lock_fd = open_lock(state);
	if (state->lock_fd < 0)
		return error_set(error, state->lock_fd, "cannot open %s/%s: %s", runtime_dir,
			STATE_LOCK_FILE, strerror(-state->lock_fd));
	if (fcntl(state->lock_fd, F_SETLK, &lock) == 0)
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return error_set(error, -EBUSY,
			"another devplugd already uses %s; stop it, or set another `runtime_dir` for this one",
			runtime_dir);
	return error_set(error, -errno, "cannot lock %s/%s: %s", runtime_dir, STATE_LOCK_FILE,
		strerror(errno));
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

/* Returns the descriptor of a directory in runtime_dir, in the place of anything else with that
 * name. */
static int open_below(const struct state *state, const char *name, mode_t mode)
{
	int fd = open_directory(state->directory_fd, name);

	if (fd >= 0)
		return fd;
	(void)unlinkat(state->directory_fd, name, 0);
	if (mkdirat(state->directory_fd, name, mode) < 0)
		return -errno;
	return open_directory(state->directory_fd, name);
}

static int open_all_below(struct state *state, const char *runtime_dir, struct error *error)
{
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		_cleanup_free_ char *path = NULL;
		int r;

		if (asprintf(&path, "%s/%s", runtime_dir, directories[i].name) < 0) {
			path = NULL;
			return error_set(error, -ENOMEM, "out of memory");
		}
		state->below[i] = open_below(state, directories[i].name, directories[i].mode);
		if (state->below[i] < 0)
			return error_set(error, state->below[i], "cannot create %s: %s", path,
				strerror(-state->below[i]));
		r = check_owner(state->below[i], path, error);
		if (r < 0)
			return r;
		(void)fchmod(state->below[i], directories[i].mode);
	}
	return 0;
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
	if (r >= 0)
		r = take_lock(state, state->path, error);
	return r < 0 ? r : open_all_below(state, state->path, error);
}

static struct state *allocate(const char *runtime_dir)
{
	struct state *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	state->directory_fd = state->lock_fd = -EBADF;
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		state->below[i] = -EBADF;
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
	state_clear(state);
	*ret = TAKE_PTR(state);
	return 0;
}

static bool is_complete(const struct state *state)
{
	if (!is_there(AT_FDCWD, state->path, state->directory_fd) ||
		!is_there(state->directory_fd, STATE_LOCK_FILE, state->lock_fd))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		if (!is_there(state->directory_fd, directories[i].name, state->below[i]))
			return false;
	return true;
}

int state_restore(struct state *state, struct error *error)
{
	_cleanup_(state_freep) struct state *fresh = NULL;
	struct state old;
	int r;

	if (is_complete(state))
		return 0;
	fresh = allocate(state->path);
	if (!fresh)
		return error_set(error, -ENOMEM, "out of memory");
	/* Closing any descriptor of the locked file unlocks it, so both have the same one. */
	fresh->lock_fd = state->lock_fd;
	r = open_all(fresh, error);
	if (r < 0) {
		if (fresh->lock_fd == state->lock_fd)
			fresh->lock_fd = -EBADF;
		return r;
	}
	old = *state;
	*state = *fresh;
	*fresh = old;
	if (fresh->lock_fd == state->lock_fd)
		fresh->lock_fd = -EBADF;
	return 1;
}

/* The directory that the file is in, and what it is called there. */
static int find_directory(const struct state *state, const char *name, const char **ret_name)
{
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		const char *rest = startswith(name, directories[i].name);

		if (rest && *rest == '/') {
			*ret_name = rest + 1;
			return state->below[i];
		}
	}
	*ret_name = name;
	return state->directory_fd;
}

static int write_file(
	struct state *state, const char *name, mode_t mode, const void *data, size_t size)
{
	int directory_fd = find_directory(state, name, &name);

	return replace_file(directory_fd, name, mode, data, size);
}

int state_write(struct state *state, const char *name, const void *data, size_t size)
{
	return write_file(state, name, 0644, data, size);
}

int state_write_private(struct state *state, const char *name, const void *data, size_t size)
{
	return write_file(state, name, 0600, data, size);
}

/* Whether so much may be added without filling the file system, which others use, too. */
static bool has_room(int fd, uint64_t size)
{
	struct statvfs st;
	uint64_t reserve;

	if (fstatvfs(fd, &st) < 0 || st.f_blocks == 0)
		return true;
	reserve = MIN_OF((uint64_t)STATE_RESERVE, (uint64_t)st.f_blocks * st.f_frsize / 4);
	return (uint64_t)st.f_bavail * st.f_frsize >= reserve + size;
}

static int copy_bounded(int from, int to, size_t limit)
{
	char chunk[COPY_CHUNK];
	struct stat st;
	size_t size = 0;

	if (fstat(from, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > limit)
		return -EFBIG;
	if (!has_room(to, (uint64_t)st.st_size))
		return -ENOSPC;
	for (;;) {
		ssize_t n = RETRY_ON_EINTR(pread(from, chunk, sizeof(chunk), (off_t)size));
		int r;

		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		size += (size_t)n;
		if (size > limit)
			return -EFBIG;
		r = write_all(to, chunk, (size_t)n);
		if (r < 0)
			return r;
	}
}

int state_copy(struct state *state, const char *name, int fd, size_t limit)
{
	int directory_fd = find_directory(state, name, &name);
	_cleanup_close_ int to = replace_file_begin(directory_fd, name, 0644);

	if (to < 0)
		return to;
	return replace_file_end(directory_fd, name, copy_bounded(fd, to, limit));
}

void state_remove(struct state *state, const char *name)
{
	int directory_fd = find_directory(state, name, &name);

	(void)unlinkat(directory_fd, name, 0);
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

/* Removes the files of one directory whose path, relative to runtime_dir, is not among `kept`. */
static void clear_directory(
	struct state *state, const char *directory, char (*kept)[STATE_NAME_MAX], size_t n_kept)
{
	int fd = openat(
		state->directory_fd, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!stream) {
		(void)close_fd(fd);
		return;
	}
	while ((entry = readdir(stream))) {
		char path[sizeof(entry->d_name) + STATE_NAME_MAX];
		bool is_kept = entry->d_name[0] == '.';

		(void)snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		for (size_t i = 0; i < n_kept && !is_kept; i++)
			is_kept = streq(kept[i], path);
		if (!is_kept)
			(void)unlinkat(fd, entry->d_name, 0);
	}
	(void)closedir(stream);
}

void state_clear(struct state *state)
{
	state_remove(state, STATE_FILE);
	clear_directory(state, STATE_DEVICES_DIR, NULL, 0);
}

void state_keep_only(struct state *state, const char *const *resources, size_t n)
{
	static const struct {
		const char *directory;
		void (*name)(const char *resource, char ret[static STATE_NAME_MAX]);
	} kinds[] = {
		{ STATE_DEVICES_DIR, state_devices_name },
		{ STATE_HEALTH_DIR, state_health_name },
	};
	_cleanup_free_ char(*kept)[STATE_NAME_MAX] = calloc(MAX_OF(n, (size_t)1), STATE_NAME_MAX);

	for (size_t kind = 0; kept && kind < ARRAY_SIZE(kinds); kind++) {
		for (size_t i = 0; i < n; i++)
			kinds[kind].name(resources[i], kept[i]);
		clear_directory(state, kinds[kind].directory, kept, n);
	}
}

int state_directory(const struct state *state)
{
	return state->directory_fd;
}

int state_open_file(const struct state *state, const char *name)
{
	int directory_fd = find_directory(state, name, &name);
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
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		(void)close_fd(state->below[i]);
	(void)close_fd(state->directory_fd);
	(void)close_fd(state->lock_fd);
	free(state->path);
	free(state);
	return NULL;
}
