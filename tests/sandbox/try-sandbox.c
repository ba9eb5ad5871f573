/* SPDX-License-Identifier: Apache-2.0 */
/*
 * try-sandbox DIRECTORY [PID]: tries what a child of devplugd must not be able to do, including
 * reading the plugin directory and signalling the process. Prints one name for each success, or "-"
 * for none, so that an empty answer is noticed. Exit status 1: something succeeded.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *arg_directory;
static pid_t arg_pid;

static bool can_list(void)
{
	return opendir(arg_directory);
}

static bool can_stat(void)
{
	char path[4096];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/kubelet.sock", arg_directory);
	return stat(path, &st) == 0;
}

static bool can_connect(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(
		address.sun_path, sizeof(address.sun_path), "%s/kubelet.sock", arg_directory);
	return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static bool can_create(void)
{
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/intruder", arg_directory);
	return open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0;
}

static bool can_unshare(void)
{
	return unshare(CLONE_NEWUSER) == 0;
}

static bool can_clone(void)
{
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	return pid > 0;
}

/* None of the calls below may get as far as reading its arguments. */
static bool is_known(long number)
{
	return syscall(number, -1, -1, -1, -1, -1) >= 0 || errno != EPERM;
}

static bool can_clone3(void)
{
	return syscall(SYS_clone3, NULL, 0) >= 0 || errno != ENOSYS;
}

static bool can_bpf(void)
{
	return is_known(SYS_bpf);
}

static bool can_perf(void)
{
	return is_known(SYS_perf_event_open);
}

static bool can_userfaultfd(void)
{
	return is_known(SYS_userfaultfd);
}

static bool can_io_uring(void)
{
	return is_known(SYS_io_uring_setup);
}

static bool can_keyctl(void)
{
	return is_known(SYS_keyctl);
}

static bool can_mount(void)
{
	return is_known(SYS_mount);
}

/* Whether the call is within reach; older kernels lack it. */
static bool is_reachable(long number)
{
	return syscall(number, -1, NULL, -1, NULL, -1) >= 0 || (errno != EPERM && errno != ENOSYS);
}

static bool can_statmount(void)
{
	return is_reachable(457);
}

static bool can_listmount(void)
{
	return is_reachable(458);
}

static bool can_open_tree_attr(void)
{
	return is_reachable(467);
}

/* Each is denied before the kernel sees that the descriptor is not a terminal. */
static bool can_type(void)
{
	char key = 'x';
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	return ioctl(fd, TIOCSTI, &key) == 0 || errno != EPERM;
}

static bool can_select(void)
{
	char code = 3; /* paste */
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	return ioctl(fd, TIOCLINUX, &code) == 0 || errno != EPERM;
}

/* Calls that must not reach the process with this number. */
static bool can_trace(void)
{
	return arg_pid > 0 && ptrace(PTRACE_SEIZE, arg_pid, NULL, NULL) == 0;
}

static bool can_read_memory(void)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)arg_pid);
	return arg_pid > 0 && open(path, O_RDONLY | O_CLOEXEC) >= 0;
}

static bool can_signal(void)
{
	return arg_pid > 0 && kill(arg_pid, 0) == 0;
}

static bool has_capability(void)
{
	char line[256];
	bool some = false;
	FILE *stream = fopen("/proc/self/status", "re");

	if (!stream)
		return true;
	while (fgets(line, sizeof(line), stream))
		if (strncmp(line, "Cap", 3) == 0 && strtoull(line + 7, NULL, 16) != 0 &&
			strncmp(line, "CapBnd", 6) != 0)
			some = true;
	(void)fclose(stream);
	return some;
}

static const struct {
	const char *name;
	bool (*possible)(void);
} attempts[] = {
	{ "list", can_list },
	{ "stat", can_stat },
	{ "connect", can_connect },
	{ "create", can_create },
	{ "unshare", can_unshare },
	{ "clone", can_clone },
	{ "clone3", can_clone3 },
	{ "bpf", can_bpf },
	{ "perf", can_perf },
	{ "userfaultfd", can_userfaultfd },
	{ "io_uring", can_io_uring },
	{ "keyctl", can_keyctl },
	{ "mount", can_mount },
	{ "statmount", can_statmount },
	{ "listmount", can_listmount },
	{ "open-tree-attr", can_open_tree_attr },
	{ "type", can_type },
	{ "select", can_select },
	{ "trace", can_trace },
	{ "read-memory", can_read_memory },
	{ "signal", can_signal },
	{ "capability", has_capability },
};

/* In a process of its own: what one attempt changes is not the next one's matter. */
static bool succeeds(bool (*possible)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(possible());
	(void)waitpid(pid, &status, 0);
	return status != 0;
}

int main(int argc, char *argv[])
{
	int possible = 0;

	if (argc < 2)
		return 2;
	arg_directory = argv[1];
	arg_pid = argc > 2 ? atoi(argv[2]) : 0;
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++)
		if (succeeds(attempts[i].possible))
			possible += printf("%s ", attempts[i].name);
	(void)puts(possible > 0 ? "" : "-");
	return possible > 0;
}
