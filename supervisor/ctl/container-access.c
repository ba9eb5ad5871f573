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
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define CGROUPS "/sys/fs/cgroup"
/* Below /dev, directories of directories contain no device nodes. */
#define DEPTH_MAX 2
/* Nodes that runtimes put into each container without a rule, or that others share. */
static const char *const usual[] = { "/dev/console", "/dev/full", "/dev/null", "/dev/ptmx",
	"/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero", "/dev/fuse", "/dev/core" };

/* --- in the container --- */

struct report {
	int code; /* of the node with this number, or of entering the container if it is -1 */
	int number;
};

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

static bool is_usual(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (streq(usual[i], path))
			return true;
	return false;
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
		else if ((S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) && !is_usual(path) &&
			faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0 && errno == EPERM)
			tell(fd, path, strlen(path) + 1);
	}
	if (stream)
		(void)closedir(stream);
}

/* Does not return. `procs`: the file that takes processes into the cgroup. */
static void look(int fd, const char *procs, const char *root, dev_t our_dev,
	const struct container_node *nodes, size_t n_nodes)
{
	_cleanup_close_ int procs_fd = open(procs, O_WRONLY | O_CLOEXEC);
	struct report report = { .number = -1 };
	struct stat st;

	if (procs_fd < 0 || write_all(procs_fd, "0", 1) < 0 || chroot(root) < 0 || chdir("/") < 0)
		report.code = -errno;
	tell(fd, &report, sizeof(report));
	if (report.code < 0)
		_exit(EXIT_FAILURE);
	for (size_t i = 0; i < n_nodes; i++) {
		report = (struct report){ .code = check_node(&nodes[i]), .number = (int)i };
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

static int take_answer(FILE *stream, struct container_node *nodes, size_t n_nodes,
	denied_node_handler on_denied, void *userdata, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	struct report report;
	size_t size = 0;

	if (fread(&report, sizeof(report), 1, stream) != 1)
		return error_set(error, -EIO, "the process that inspects the container failed");
	if (report.code == -ENOENT || report.code == -ESRCH)
		return error_set(error, -ESRCH, "the container has ended");
	if (report.code < 0)
		return error_set(error, report.code, "cannot enter the container: %s",
			strerror(-report.code));
	for (size_t i = 0; i < n_nodes; i++) {
		if (fread(&report, sizeof(report), 1, stream) != 1 || report.number != (int)i)
			return error_set(
				error, -EIO, "the process that inspects the container failed");
		nodes[i].result = report.code;
	}
	while (getdelim(&path, &size, '\0', stream) > 0)
		on_denied(path, userdata);
	return 0;
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
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set(error, -errno, "cannot create a pipe: %s", strerror(errno));
	child = fork();
	if (child == 0)
		look(fds[1], procs, root, our_dev.st_dev, nodes, n_nodes);
	(void)close_fd(fds[1]);
	stream = fdopen(fds[0], "re");
	if (child < 0 || !stream) {
		r = error_set(error, -errno, "cannot start a process: %s", strerror(errno));
		if (!stream)
			(void)close_fd(fds[0]);
	} else
		r = take_answer(stream, nodes, n_nodes, on_denied, userdata, error);
	if (child > 0) {
		(void)kill(child, SIGKILL);
		(void)RETRY_ON_EINTR(waitpid(child, &status, 0));
	}
	return r;
}
