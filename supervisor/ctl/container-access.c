/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel what a container's processes can open, from a process that has entered the
 * container's cgroup and root. That process only reads, and ends within a moment. The container is
 * not trusted: its files are not opened but for directories, and what it names is text.
 */
#include "supervisor/ctl/container-access.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define CGROUPS "/sys/fs/cgroup"
/* Below /dev, directories of directories contain no device nodes. */
#define DEPTH_MAX 2
/* In a container that is frozen, the process does not go on. */
#define ANSWER_TIMEOUT_SEC 10

/* --- in the container --- */

struct report {
	int code;   /* 0 or negative errno */
	int number; /* of the node; or what was entered: */
};
#define ENTERED_CGROUP (-1)
#define ENTERED_ROOT   (-2)

static void tell(int fd, const void *data, size_t size)
{
	if (write_all(fd, data, size) < 0)
		_exit(EXIT_FAILURE);
}

static int check_node(const struct container_node *node)
{
	int mask = (node->read ? R_OK : 0) | (node->write ? W_OK : 0);
	struct stat st;

	if (stat(node->path, &st) < 0)
		return -errno;
	if (node->rdev != 0 &&
		(st.st_rdev != node->rdev ||
			!(node->block ? S_ISBLK(st.st_mode) : S_ISCHR(st.st_mode))))
		return -ENXIO;
	return faccessat(AT_FDCWD, node->path, mask, AT_EACCESS) < 0 ? -errno : 0;
}

/* Sends the paths of nodes that cannot be opened, each with its NUL. */
static void find_denied(int fd, const char *directory, int depth)
{
	DIR *stream = opendir(directory);
	const struct dirent *entry;

	for (size_t n = 0; stream && n < CONTAINER_NODES_MAX && (entry = readdir(stream)); n++) {
		char path[PATH_MAX];
		struct stat st;

		if (*entry->d_name == '.' ||
			snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name) >=
				(int)sizeof(path) ||
			lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX && !streq(path, "/dev/pts"))
			find_denied(fd, path, depth + 1);
		else if ((S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) &&
			faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0 && errno == EPERM)
			tell(fd, path, strlen(path) + 1);
	}
	if (stream)
		(void)closedir(stream);
}

/* Does not return if that fails. */
static void enter(int fd, int what, bool done)
{
	const struct report report = { .code = done ? 0 : -errno, .number = what };

	tell(fd, &report, sizeof(report));
	if (!done)
		_exit(EXIT_FAILURE);
}

/* Does not return. `procs`: the file that takes processes into the cgroup. */
static void look(int fd, const char *procs, const char *root, dev_t our_dev,
	const struct container_node *nodes, size_t n_nodes)
{
	int procs_fd = open(procs, O_WRONLY | O_CLOEXEC);
	struct stat st;

	enter(fd, ENTERED_CGROUP, procs_fd >= 0 && write(procs_fd, "0", 1) == 1);
	enter(fd, ENTERED_ROOT, chroot(root) >= 0 && chdir("/") >= 0);
	for (size_t i = 0; i < n_nodes; i++) {
		const struct report report = { .code = check_node(&nodes[i]), .number = (int)i };

		tell(fd, &report, sizeof(report));
	}
	/* The host's own /dev has nodes for everything. */
	if (stat("/dev", &st) >= 0 && st.st_dev != our_dev)
		find_denied(fd, "/dev", 1);
	_exit(EXIT_SUCCESS);
}

/* --- which cgroup --- */

static const char *unified_mount(void)
{
	struct statfs fs;

	return statfs(CGROUPS, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC ? CGROUPS
									     : CGROUPS "/unified";
}

/* Makes the path of the cgroup that decides about devices, from a line of /proc/PID/cgroup
 * (cgroups(7)): version 1 has a hierarchy for devices, version 2 one for everything. */
static int read_line(char *line, char **ret_path)
{
	char *controllers = strchr(line, ':'),
	     *path = controllers ? strchr(controllers + 1, ':') : NULL;
	bool v1;

	if (!path)
		return 0;
	*path++ = '\0';
	controllers++;
	path[strcspn(path, "\n")] = '\0';
	v1 = streq(controllers, "devices");
	if (!v1 && (*controllers || *ret_path))
		return 0;
	free(*ret_path);
	*ret_path = NULL;
	if (format_text(ret_path, "%s%s/cgroup.procs", v1 ? CGROUPS "/devices" : unified_mount(),
		    path) < 0)
		return -ENOMEM;
	return v1;
}

/* Returns 0, -ESRCH or -ENOMEM. */
static int find_cgroup(pid_t pid, char **ret)
{
	_cleanup_free_ char *line = NULL, *path = NULL;
	_cleanup_fclose_ FILE *stream = NULL;
	char name[64];
	size_t size = 0;
	int r = 0;

	(void)snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	stream = fopen(name, "re");
	while (stream && r == 0 && getline(&line, &size, stream) >= 0)
		r = read_line(line, &path);
	if (r < 0)
		return r;
	if (!path)
		return -ESRCH;
	*ret = TAKE_PTR(path);
	return 0;
}

/* --- the answer --- */

static int no_answer(struct error *error)
{
	return error_set(error, -EIO, "the process that inspects a container %s",
		errno == EAGAIN ? "did not answer; the container may be frozen" : "has failed");
}

/* Reads that the process has entered the container, or why not. */
static int take_entrance(
	FILE *stream, pid_t pid, const char *procs, const char *root, struct error *error)
{
	const int steps[] = { ENTERED_CGROUP, ENTERED_ROOT };
	struct report report;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		if (fread(&report, sizeof(report), 1, stream) != 1 || report.number != steps[i])
			return no_answer(error);
		if (report.code == 0)
			continue;
		if (kill(pid, 0) < 0 && errno == ESRCH)
			return error_set(error, -ESRCH, "the container has ended");
		return error_set(error, report.code, "cannot enter a container by %s: %s",
			steps[i] == ENTERED_CGROUP ? procs : root, strerror(-report.code));
	}
	return 0;
}

static int take_answer(FILE *stream, struct container_node *nodes, size_t n_nodes,
	denied_node_handler on_denied, void *userdata, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	struct report report;
	size_t size = 0;

	for (size_t i = 0; i < n_nodes; i++) {
		if (fread(&report, sizeof(report), 1, stream) != 1 || report.number != (int)i)
			return no_answer(error);
		nodes[i].result = report.code;
	}
	while (getdelim(&path, &size, '\0', stream) > 0)
		on_denied(path, userdata);
	return 0;
}

/* A pair of sockets, on the first of which a read ends after the time limit. */
static int make_channel(int ret_fds[static 2])
{
	const struct timeval limit = { .tv_sec = ANSWER_TIMEOUT_SEC };

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_fds) < 0)
		return -errno;
	return setsockopt(ret_fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0 ? -errno
											  : 0;
}

int container_access(pid_t pid, struct container_node *nodes, size_t n_nodes,
	denied_node_handler on_denied, void *userdata, struct error *error)
{
	_cleanup_free_ char *procs = NULL;
	_cleanup_fclose_ FILE *stream = NULL;
	struct stat our_dev = { 0 };
	int fds[2], r, status;
	char root[64];
	pid_t child;

	r = find_cgroup(pid, &procs);
	if (r < 0)
		return error_set(
			error, r, r == -ESRCH ? "the container has ended" : "out of memory");
	(void)snprintf(root, sizeof(root), "/proc/%d/root", (int)pid);
	(void)stat("/dev", &our_dev);
	r = make_channel(fds);
	if (r < 0)
		return error_set(error, r, "cannot create sockets: %s", strerror(-r));
	child = fork();
	if (child == 0)
		look(fds[1], procs, root, our_dev.st_dev, nodes, n_nodes);
	(void)close_fd(fds[1]);
	stream = fdopen(fds[0], "re");
	if (child < 0 || !stream) {
		r = error_set(error, -errno, "cannot start a process: %s", strerror(errno));
		if (!stream)
			(void)close_fd(fds[0]);
	} else {
		r = take_entrance(stream, pid, procs, root, error);
		if (r >= 0)
			r = take_answer(stream, nodes, n_nodes, on_denied, userdata, error);
	}
	if (child > 0) {
		(void)kill(child, SIGKILL);
		(void)RETRY_ON_EINTR(waitpid(child, &status, 0));
	}
	return r;
}
