/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the host's files, in a container below the directory that `host_root` names. With a root,
 * the kernel resolves the path (openat2 with RESOLVE_IN_ROOT), because the tree may change at the
 * same time. Under systemd's RestrictSUIDSGID=, openat2() fails with ENOSYS. Links are then
 * followed one by one; if one of the names becomes a link meanwhile, the path is not opened.
 */
#include "drivers/host/sysroot.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

static void (*on_path)(const char *path);

void sysroot_observe(void (*observer)(const char *path))
{
	on_path = observer;
}

static void observe(const char *path)
{
	if (on_path)
		on_path(path);
}

static bool is_own(const char *root)
{
	return !*root || streq(root, "/");
}

/* --- without openat2() --- */

/* A path whose links are followed one after the other. The root is as after chroot(). */
struct walk {
	int root_fd;
	bool beneath;    /* it must not leave the root, nor the file system of the root */
	bool keeps_last; /* a link at its end is not followed */
	dev_t device;    /* the file system of the root */
	unsigned n_links;
	char done[PATH_MAX]; /* without links, each name after a slash */
	char rest[PATH_MAX];
};

static void step_back(struct walk *walk)
{
	*strrchr(walk->done, '/') = '\0';
}

static int follow(struct walk *walk, const char *rest)
{
	char target[PATH_MAX], joined[PATH_MAX];
	ssize_t length = readlinkat(walk->root_fd, walk->done + 1, target, sizeof(target) - 1);

	if (length < 0)
		return -errno;
	target[length] = '\0';
	if (*target == '/' && walk->beneath)
		return -EXDEV;
	if (++walk->n_links > SYSROOT_LINKS_MAX)
		return -ELOOP;
	if (snprintf(joined, sizeof(joined), "%s%s", target, rest) >= (int)sizeof(joined))
		return -ENAMETOOLONG;
	step_back(walk);
	if (*target == '/')
		walk->done[0] = '\0';
	(void)strcpy(walk->rest, joined);
	return 1;
}

/* Adds a name. What is mounted there is not asked for anything. */
static int enter(struct walk *walk, const char *name, int length, const char *rest)
{
	size_t done = strlen(walk->done), space = sizeof(walk->done) - done;
	bool last = !rest[strspn(rest, "/")];
	struct statx stx;

	if (snprintf(walk->done + done, space, "/%.*s", length, name) >= (int)space)
		return -ENAMETOOLONG;
	if (statx(walk->root_fd, walk->done + 1,
		    AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_TYPE,
		    &stx) < 0)
		return -errno;
	if (walk->beneath && makedev(stx.stx_dev_major, stx.stx_dev_minor) != walk->device)
		return -EXDEV;
	return S_ISLNK(stx.stx_mode) && !(last && walk->keeps_last) ? follow(walk, rest) : 0;
}

/* Takes the first name of the rest. Returns 0 if there is none. */
static int step(struct walk *walk)
{
	const char *name = walk->rest + strspn(walk->rest, "/"), *rest = name + strcspn(name, "/");
	int length = (int)(rest - name), r = 0;

	if (length == 0)
		return 0;
	if (length == 2 && startswith(name, "..")) {
		if (!*walk->done && walk->beneath)
			return -EXDEV;
		if (*walk->done)
			step_back(walk);
	} else if (length > 1 || *name != '.')
		r = enter(walk, name, length, rest);
	if (r == 0)
		(void)memmove(walk->rest, rest, strlen(rest) + 1);
	return r < 0 ? r : 1;
}

static int walk_path(struct walk *walk, const char *path)
{
	int r;

	if (strlen(path) >= sizeof(walk->rest))
		return -ENAMETOOLONG;
	(void)strcpy(walk->rest, path);
	do
		r = step(walk);
	while (r > 0);
	return r;
}

static int open_by_steps(int root_fd, const char *path, int flags)
{
	struct walk walk = { .root_fd = root_fd, .keeps_last = flags & O_NOFOLLOW };
	_cleanup_close_ int fd = -EBADF;
	char *rest = walk.done + 1, *name;
	int r = walk_path(&walk, path);

	if (r < 0)
		return r;
	if (!*walk.done)
		(void)strcpy(walk.done, "/.");
	while ((name = strsep(&rest, "/"))) {
		int next = RETRY_ON_EINTR(openat(fd < 0 ? root_fd : fd, name,
			O_NOFOLLOW | O_CLOEXEC | (rest ? O_PATH | O_DIRECTORY : flags)));

		if (next < 0)
			return -errno;
		(void)close_fd(fd);
		fd = next;
	}
	return TAKE_FD(fd);
}

/* --- files --- */

int sysroot_open(const char *root, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	_cleanup_close_ int root_fd = -EBADF;
	long fd;

	observe(path);
	if (is_own(root))
		fd = RETRY_ON_EINTR(open(path, flags | O_CLOEXEC));
	else {
		root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (root_fd < 0)
			return -errno;
		do
			fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
		while (fd < 0 && (errno == EINTR || errno == EAGAIN));
		if (fd < 0 && errno == ENOSYS)
			return open_by_steps(root_fd, path, flags);
	}
	return fd < 0 ? -errno : (int)fd;
}

int sysroot_stat(const char *root, const char *path, struct stat *ret)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	observe(path);
	if (is_own(root))
		return stat(path, ret) < 0 ? -errno : 0;
	fd = sysroot_open(root, path, O_PATH);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	*ret = st;
	return 0;
}

static int descriptor_path(int fd, char **ret)
{
	char link[64], path[PATH_MAX];
	ssize_t length;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return -errno;
	path[length] = '\0';
	*ret = strdup(path);
	return *ret ? 0 : -ENOMEM;
}

/* The path of a descriptor as seen from the root. */
static int path_inside(const char *root, int fd, char **ret)
{
	_cleanup_free_ char *full = NULL, *real_root = NULL;
	const char *inside;
	char *path;
	int r;

	r = descriptor_path(fd, &full);
	if (r < 0)
		return r;
	if (!is_own(root)) {
		real_root = realpath(root, NULL);
		if (!real_root)
			return -errno;
	}
	inside = startswith(full, real_root ?: "");
	if (!inside || (*inside && *inside != '/'))
		return -EXDEV;
	path = strdup(*inside ? inside : "/");
	if (!path)
		return -ENOMEM;
	*ret = path;
	return 0;
}

int sysroot_resolve(const char *root, const char *path, char **ret)
{
	_cleanup_close_ int fd = -EBADF;
	char *resolved;

	observe(path);
	if (is_own(root)) {
		resolved = realpath(path, NULL);
		if (!resolved)
			return -errno;
		*ret = resolved;
		return 0;
	}
	fd = sysroot_open(root, path, O_PATH);
	return fd < 0 ? fd : path_inside(root, fd, ret);
}

/* Returns the length of the target, or -1 if there is no link. */
static ssize_t read_link(const char *root, const char *path, char *target, size_t size)
{
	_cleanup_close_ int fd = sysroot_open(root, path, O_PATH | O_NOFOLLOW);

	return fd < 0 ? -1 : readlinkat(fd, "", target, size);
}

int sysroot_follow_link(const char *root, const char *path, char **ret)
{
	_cleanup_free_ char *way = strdup(path);
	char target[PATH_MAX];

	if (!way)
		return -ENOMEM;
	for (char *end = way; *end;) {
		char *name = end + strspn(end, "/"), *rest = name + strcspn(name, "/");
		char last = *rest;
		ssize_t length;

		*rest = '\0';
		length = *name ? read_link(root, way, target, sizeof(target)) : -1;
		*rest = last;
		if (length > 0) {
			*(*target == '/' ? way : name) = '\0';
			return format_text(ret, "%s%.*s%s", way, (int)length, target, rest);
		}
		end = rest;
	}
	*ret = NULL;
	return 0;
}

/* Not with openat2(), which is not always available. */
int sysroot_resolve_node(const char *root, const char *path, char **ret)
{
	_cleanup_close_ int directory_fd = sysroot_open(root, "/dev", O_PATH | O_DIRECTORY);
	const char *below = startswith(path, "/dev/");
	_cleanup_free_ char *directory = NULL;
	struct walk walk = { .root_fd = directory_fd, .beneath = true };
	struct stat st;
	int r;

	observe(path);
	if (directory_fd < 0 || !below)
		return directory_fd < 0 ? directory_fd : -EXDEV;
	if (fstat(directory_fd, &st) < 0)
		return -errno;
	walk.device = st.st_dev;
	r = walk_path(&walk, below);
	if (r >= 0)
		r = path_inside(root, directory_fd, &directory);
	return r < 0 ? r : format_text(ret, "%s%s", directory, walk.done);
}

int sysroot_opendir(const char *root, const char *path, DIR **ret)
{
	_cleanup_close_ int fd = -EBADF;
	DIR *directory;

	fd = sysroot_open(root, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	directory = fdopendir(fd);
	if (!directory)
		return -errno;
	(void)TAKE_FD(fd);
	*ret = directory;
	return 0;
}

/* The type is checked before open(), because opening some devices has effects. */
static int open_regular(const char *root, const char *path)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;
	int r;

	r = sysroot_stat(root, path, &st);
	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	fd = sysroot_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -EINVAL;
}

int sysroot_fopen(const char *root, const char *path, FILE **ret)
{
	int fd = open_regular(root, path);
	FILE *stream = fd < 0 ? NULL : fdopen(fd, "re");

	if (fd < 0)
		return fd;
	if (!stream) {
		(void)close(fd);
		return -ENOMEM;
	}
	*ret = stream;
	return 0;
}

ssize_t sysroot_read(const char *root, const char *path, char *buffer, size_t size)
{
	_cleanup_close_ int fd = open_regular(root, path);
	size_t length = 0;

	if (fd < 0)
		return fd;
	while (length < size - 1) {
		ssize_t n = RETRY_ON_EINTR(read(fd, buffer + length, size - 1 - length));

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		length += (size_t)n;
	}
	buffer[length] = '\0';
	return (ssize_t)length;
}

bool sysroot_is_absent(int error)
{
	return error == -ENOENT || error == -ENOTDIR || error == -ELOOP || error == -ENAMETOOLONG;
}

/* The last mount at a directory hides those before. */
static bool is_private(const char *directory)
{
	_cleanup_fclose_ FILE *mounts = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	bool private = false;
	size_t size = 0;

	while (mounts && getline(&line, &size, mounts) >= 0) {
		char *root = line, *point;

		/* After the id, the parent and the device. */
		for (unsigned i = 0; i < 3 && root; i++)
			root = strchr(root + 1, ' ');
		point = root ? strchr(root + 1, ' ') : NULL;
		if (!point)
			continue;
		*point++ = '\0';
		point[strcspn(point, " ")] = '\0';
		if (streq(point, directory))
		private = strstr(root, "/systemd-private-") != NULL;
	}
	return private;
}

bool sysroot_hides(const char *root, const char *path)
{
	static const char *const directories[] = { "/tmp", "/var/tmp" };

	for (size_t i = 0; i < ARRAY_SIZE(directories) && *root == '\0'; i++) {
		size_t length = strlen(directories[i]);

		if (startswith(path, directories[i]) && path[length] == '/')
			return is_private(directories[i]);
	}
	return false;
}

bool sysroot_is_shortage(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}
