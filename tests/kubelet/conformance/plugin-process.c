/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork and exec from a process with gRPC's threads: between the two only calls that are safe there.
 */
#include "plugin-process.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define HOOK_POLL       USEC_PER_MSEC
#define ENVIRONMENT_DIR "DEVPLUG_KUBELET_PLUGIN_DIR"
#define ENVIRONMENT_PID "DEVPLUG_KUBELET_PLUGIN_PID"

_Noreturn static void run_shell(char *command, pid_t parent)
{
	char shell[] = "/bin/sh", option[] = "-c";
	char *arguments[] = { shell, option, command, NULL };
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)setsid();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Standard output is the report's. */
	if (getppid() == parent && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
		(void)execv(shell, arguments);
	_exit(127);
}

static int start_shell(char *command, pid_t *ret, struct error *error)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		return error_set(error, -errno, "cannot start a process: %s", strerror(errno));
	if (pid == 0)
		run_shell(command, parent);
	*ret = pid;
	return 0;
}

int plugin_process_start(const char *command, const char *plugin_dir, struct plugin_process *ret,
	struct error *error)
{
	_cleanup_free_ char *line = NULL;
	pid_t pid = 0;
	int r;

	/* The process is the plugin's own; the command may begin with settings: "DEBUG=1 plugin".
	 */
	if (asprintf(&line, "exec env %s", command) < 0) {
		line = NULL;
		return error_set(error, -ENOMEM, "out of memory");
	}
	if (setenv(ENVIRONMENT_DIR, plugin_dir, 1) < 0)
		return error_set(error, -errno, "cannot set the environment: %s", strerror(errno));
	r = start_shell(line, &pid, error);
	if (r >= 0)
		*ret = (struct plugin_process){ .pid = pid };
	return r;
}

bool plugin_process_is_running(struct plugin_process *process)
{
	if (process->pid == 0)
		return false;
	if (RETRY_ON_EINTR(waitpid(process->pid, &process->status, WNOHANG)) == 0)
		return true;
	/* What it has started ends with it. */
	(void)kill(-process->pid, SIGKILL);
	process->pid = 0;
	process->ended = true;
	return false;
}

void plugin_process_signal(const struct plugin_process *process, int number)
{
	if (process->pid > 0)
		(void)kill(process->pid, number);
}

void plugin_process_kill(struct plugin_process *process)
{
	if (process->pid == 0)
		return;
	(void)kill(-process->pid, SIGKILL);
	(void)kill(process->pid, SIGKILL);
	(void)RETRY_ON_EINTR(waitpid(process->pid, &process->status, 0));
	process->pid = 0;
}

/* Waits for the end of a shell, which comes by force when the limit is over. */
static int await_end(pid_t pid, uint64_t limit, int *ret_status)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + limit;

	for (;;) {
		pid_t ended = RETRY_ON_EINTR(waitpid(pid, ret_status, WNOHANG));

		if (ended != 0)
			return ended < 0 ? -errno : 0;
		if (now_usec(CLOCK_MONOTONIC) >= end) {
			(void)kill(-pid, SIGKILL);
			(void)RETRY_ON_EINTR(waitpid(pid, ret_status, 0));
			return -ETIMEDOUT;
		}
		(void)usleep(HOOK_POLL);
	}
}

int plugin_process_hook(const struct plugin_process *process, const char *command,
	const char *plugin_dir, uint64_t limit, struct error *error)
{
	_cleanup_free_ char *line = strdup(command);
	char number[24];
	pid_t pid = 0;
	int status, r;

	(void)snprintf(number, sizeof(number), "%d", (int)process->pid);
	if (!line || setenv(ENVIRONMENT_DIR, plugin_dir, 1) < 0 ||
		setenv(ENVIRONMENT_PID, number, 1) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	r = start_shell(line, &pid, error);
	if (r < 0)
		return r;
	r = await_end(pid, limit, &status);
	if (r == -ETIMEDOUT)
		return error_set(error, r, "\"%s\" did not end within %llu ms", command,
			(unsigned long long)(limit / USEC_PER_MSEC));
	if (r < 0)
		return error_set(error, r, "cannot wait for \"%s\": %s", command, strerror(-r));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return error_set(error, -EIO, "\"%s\" failed: %s %d", command,
			WIFEXITED(status) ? "exit status" : "signal",
			WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	return 0;
}

static size_t count_descriptors(pid_t pid)
{
	char path[64];
	size_t n = 0;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n - MIN_OF(n, (size_t)2);
}

static FILE *open_proc(pid_t pid, const char *name)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return fopen(path, "re");
}

static void add_usage(pid_t pid, struct process_usage *usage)
{
	unsigned long pages = 0, user = 0, system = 0;
	_cleanup_fclose_ FILE *memory = open_proc(pid, "statm"), *times = open_proc(pid, "stat");
	char line[1024];
	const char *rest;

	if (memory && fscanf(memory, "%*u %lu", &pages) == 1)
		usage->memory += pages * (size_t)sysconf(_SC_PAGESIZE);
	/* The name in parentheses may hold anything. */
	rest = times && fgets(line, sizeof(line), times) ? strrchr(line, ')') : NULL;
	if (rest &&
		sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			&system) == 2)
		usage->cpu += (user + system) * USEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	usage->descriptors += count_descriptors(pid);
}

static void add_family(pid_t pid, struct process_usage *usage)
{
	char name[64];
	FILE *children;
	int child;

	add_usage(pid, usage);
	(void)snprintf(name, sizeof(name), "task/%d/children", (int)pid);
	children = open_proc(pid, name);
	if (!children)
		return;
	while (fscanf(children, "%d", &child) == 1)
		add_family(child, usage);
	(void)fclose(children);
}

int plugin_process_usage(const struct plugin_process *process, struct process_usage *ret)
{
	struct process_usage usage = {};

	if (process->pid == 0)
		return -ESRCH;
	add_family(process->pid, &usage);
	*ret = usage;
	return 0;
}
