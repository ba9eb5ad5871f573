/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devplugd-node-users: finds a process of the host that has one of some device nodes open, so that
 * no device is cleaned under it. It runs as root, because only root may read which files another
 * user's process has open; so it does nothing else: it reads one question, reads /proc, writes one
 * answer and ends. A process is asked for without opening its files.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "common/control-node-users.h"
#include "common/log.h"
#include "common/sealed.h"

/* How many parents of a process are read. */
#define PARENTS_MAX 16

struct node {
	bool block;
	dev_t number;
	const char *path;
};

struct search {
	struct node nodes[NODE_USERS_MAX];
	size_t n_nodes;
	pid_t supervisor;
};

/* --- the question --- */

static int read_node(char *line, struct node *ret)
{
	unsigned major, minor;
	char type;
	int length = 0;

	if (sscanf(line, "%c %u:%u %n", &type, &major, &minor, &length) < 3 || length == 0 ||
		(type != 'c' && type != 'b'))
		return -EBADMSG;
	*ret = (struct node){ type == 'b', makedev(major, minor), line + length };
	return 0;
}

static int read_question(char *text, struct search *search)
{
	char *rest = text, *line;
	int r = 0;

	while (r >= 0 && (line = strsep(&rest, "\n")) && *line)
		r = search->n_nodes < NODE_USERS_MAX
			? read_node(line, &search->nodes[search->n_nodes++])
			: -E2BIG;
	return r;
}

/* --- processes --- */

/* The parent of a process, or 0. */
static pid_t parent_of(pid_t pid)
{
	char path[64], text[512];
	const char *end;
	ssize_t n;
	int fd, parent = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	text[n > 0 ? n : 0] = '\0';
	/* The name before it may contain anything. */
	end = strrchr(text, ')');
	if (!end || sscanf(end, ") %*c %d", &parent) != 1)
		return 0;
	return parent;
}

/* devplugd's own processes let go of a device when its resource does (devplugctl release). */
static bool is_ours(const struct search *search, pid_t pid)
{
	for (int i = 0; i < PARENTS_MAX && pid > 1; i++) {
		if (pid == search->supervisor)
			return true;
		pid = parent_of(pid);
	}
	return false;
}

static void read_name(int process_fd, char *ret, size_t size)
{
	int fd = openat(process_fd, "comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, ret, size - 1);

	(void)close_fd(fd);
	ret[n > 0 ? n : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

/* The node that an open file is, or NULL. A file system that does not answer is not asked. */
static const struct node *find_node(const struct search *search, int fds_fd, const char *name)
{
	struct statx st;

	if (statx(fds_fd, name, AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0 ||
		(!S_ISCHR(st.stx_mode) && !S_ISBLK(st.stx_mode)))
		return NULL;
	for (size_t i = 0; i < search->n_nodes; i++)
		if (search->nodes[i].block == (bool)S_ISBLK(st.stx_mode) &&
			search->nodes[i].number == makedev(st.stx_rdev_major, st.stx_rdev_minor))
			return &search->nodes[i];
	return NULL;
}

/* Whether a process has ended since it was listed. */
static bool has_ended(int error)
{
	return error == -ENOENT || error == -ESRCH;
}

/* Finds a node that the process has open, or NULL. Returns 0, or negative errno if it is not known
 * which files it has open. */
static int search_process(const struct search *search, int process_fd, const struct node **ret)
{
	int fd = openat(process_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = -errno;
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	*ret = NULL;
	if (!stream) {
		r = fd < 0 ? r : -ENOMEM;
		(void)close_fd(fd);
		return has_ended(r) ? 0 : r;
	}
	while (!*ret && (entry = readdir(stream)))
		if (isdigit((unsigned char)entry->d_name[0]))
			*ret = find_node(search, fd, entry->d_name);
	(void)closedir(stream);
	return 0;
}

/* Fills the answer if the process has a node open, or if that is not known. */
static void look_at(
	const struct search *search, int proc_fd, const char *pid, struct control_message *message)
{
	_cleanup_close_ int fd = openat(proc_fd, pid, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct node *node = NULL;
	int r = fd < 0 ? -errno : search_process(search, fd, &node);
	char name[64] = "";

	r = has_ended(r) ? 0 : r;
	if ((r == 0 && !node) || is_ours(search, atoi(pid)))
		return;
	if (fd >= 0)
		read_name(fd, name, sizeof(name));
	if (r < 0) {
		message->type = NODE_USERS_FAILED;
		(void)snprintf(message->text, sizeof(message->text),
			"devplugd may not see which files process %s (%s) has open: %s", pid, name,
			strerror(-r));
	} else {
		message->type = NODE_USERS_ANSWER;
		(void)snprintf(message->text, sizeof(message->text), "process %s (%s) has %s open",
			pid, name, node->path);
	}
}

/* Writes which process has a node open, or "", or why that is not known. Returns 0 or negative
 * errno. */
static int search_all(const struct search *search, struct control_message *message)
{
	const struct dirent *entry;
	DIR *stream = opendir("/proc");

	if (!stream)
		return -errno;
	while ((!*message->text || message->type == NODE_USERS_FAILED) && (entry = readdir(stream)))
		if (isdigit((unsigned char)entry->d_name[0]))
			look_at(search, dirfd(stream), entry->d_name, message);
	(void)closedir(stream);
	return 0;
}

/* --- --- */

static bool has_capability(unsigned capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &header, data) >= 0 &&
		data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

/* Whether a security module hides the open files of the kubelet, and so of the whole host. It may
 * hide those of a few other processes everywhere. */
static bool is_confined(pid_t kubelet)
{
	char path[64], target;

	(void)snprintf(path, sizeof(path), "/proc/%d/root", (int)kubelet);
	return kubelet > 0 && readlink(path, &target, 1) < 0 && (errno == EACCES || errno == EPERM);
}

/* What keeps this process from reading the open files of other users' processes; NULL: nothing. The
 * directory of these files belongs to the process. */
static const char *find_lack(pid_t kubelet)
{
	if (!has_capability(CAP_SYS_PTRACE))
		return "CAP_SYS_PTRACE; install the drop-in clean.conf";
	if (!has_capability(CAP_DAC_READ_SEARCH) && !has_capability(CAP_DAC_OVERRIDE))
		return "CAP_DAC_READ_SEARCH; add it to the capabilities of the container";
	if (is_confined(kubelet))
		return "the permission of a security module; set appArmorProfile: { type: Unconfined } in the container";
	return NULL;
}

static int answer(int fd, pid_t kubelet)
{
	struct control_message message = NODE_USERS_MESSAGE_INIT(NODE_USERS_ANSWER);
	struct search search = { .supervisor = getppid() };
	_cleanup_free_ char *text = NULL;
	const char *lack = find_lack(kubelet);
	size_t size;
	int r;

	r = sealed_read(fd, NODE_USERS_BYTES_MAX, &text, &size);
	if (r >= 0)
		r = read_question(text, &search);
	if (r >= 0 && lack) {
		message.type = NODE_USERS_FAILED;
		(void)snprintf(message.text, sizeof(message.text),
			"devplugd may not see which processes have the device open: it lacks %s (docs/repair.md)",
			lack);
	} else if (r >= 0)
		r = search_all(&search, &message);
	return r < 0 ? r : control_send(CONTROL_FD, &message);
}

int main(void)
{
	_cleanup_control_ struct control_message message = NODE_USERS_MESSAGE_INIT(0);
	struct pollfd pollfd = { .fd = CONTROL_FD, .events = POLLIN };
	int r;

	log_setup("devplugd-node-users", LOG_TARGET_PARENT, LOG_INFO);
	r = RETRY_ON_EINTR(poll(&pollfd, 1, -1)) < 0
		? -errno
		: control_receive(CONTROL_FD, &control_node_users, &message);
	if (r == -ECONNRESET)
		return EXIT_SUCCESS;
	if (r >= 0)
		r = answer(message.fds[0], (pid_t)message.peer);
	if (r < 0)
		log_error("cannot find the processes that have a device open: %s", strerror(-r));
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
