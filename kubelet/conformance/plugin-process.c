/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and ends the plugin. The tool has gRPC's threads, so only async-signal-safe calls are made
 * between fork and exec. The tool's own environment is never changed, because those threads read
 * it.
 */
#include "kubelet/conformance/plugin-process.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SHELL           "/bin/sh"
#define HOOK_POLL       USEC_PER_MSEC
#define AGE             (1100 * USEC_PER_MSEC)
#define ENVIRONMENT_DIR "DEVPLUG_KUBELET_PLUGIN_DIR"
#define ENVIRONMENT_PID "DEVPLUG_KUBELET_PLUGIN_PID"

static bool is_replaced(const char *variable)
{
	return startswith(variable, ENVIRONMENT_DIR "=") ||
		startswith(variable, ENVIRONMENT_PID "=");
}

/* The tool's environment with the plugin's folder and process id (0: none). Only the array
 * and its first two strings are to be freed, which environment_free() does. */
static char **environment_new(const char *plugin_dir, pid_t plugin)
{
	size_t n = 0, used = 0;
	char **list;

	while (environ[n])
		n++;
	list = calloc(n + 3, sizeof(*list));
	if (!list)
		return NULL;
	if (asprintf(&list[0], ENVIRONMENT_DIR "=%s", plugin_dir) < 0 ||
		asprintf(&list[1], ENVIRONMENT_PID "=%d", (int)plugin) < 0) {
		free(list[0]);
		free(list);
		return NULL;
	}
	used = 2;
	for (size_t i = 0; i < n; i++)
		if (!is_replaced(environ[i]))
			list[used++] = environ[i];
	return list;
}

static void environment_free(char **list)
{
	free(list[0]);
	free(list[1]);
	free(list);
}

_Noreturn static void run_shell(char *command, char **environment, pid_t parent)
{
	char shell[] = SHELL, option[] = "-c";
	char *arguments[] = { shell, option, command, NULL };
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)setsid();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Standard output is used for the report. */
	if (getppid() == parent && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
		(void)execve(shell, arguments, environment);
	_exit(127);
}

static int start_shell(
	char *command, const char *plugin_dir, pid_t plugin, pid_t *ret, struct error *error)
{
	char **environment = environment_new(plugin_dir, plugin);
	pid_t parent = getpid(), pid;

	if (!environment)
		return error_set(error, -ENOMEM, "out of memory");
	pid = fork();
	if (pid == 0)
		run_shell(command, environment, parent);
	environment_free(environment);
	if (pid < 0)
		return error_set(error, -errno, "cannot start a process: %s", strerror(errno));
	*ret = pid;
	return 0;
}

/* A path with arguments that mean nothing to a shell. */
static bool is_plain(const char *command)
{
	size_t word = strcspn(command, " ");

	return memchr(command, '/', word) && !memchr(command, '=', word) &&
		!strpbrk(command, "\n\"'\\`$;&|<>(){}[]*?~#!");
}

int plugin_process_start(const char *command, const char *plugin_dir, struct plugin_process *ret,
	struct error *error)
{
	_cleanup_free_ char *line = NULL;
	pid_t pid = 0;
	int r;

	/* The tool's own child ends with the tool, even if the tool is killed. */
	if (asprintf(&line, "%s%s", is_plain(command) ? "exec " : "", command) < 0) {
		line = NULL;
		return error_set(error, -ENOMEM, "out of memory");
	}
	/* The tool also waits for the processes that the shell leaves. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return error_set(error, -errno, "cannot prepare the plugin: %s", strerror(errno));
	r = start_shell(line, plugin_dir, 0, &pid, error);
	if (r >= 0)
		*ret = (struct plugin_process){
			.command = command, .pid = pid, .started = now_usec(CLOCK_MONOTONIC)
		};
	return r;
}

/* Ends the rest of the session and waits, so that the next plugin finds nothing in use. */
static void end_session(pid_t pid)
{
	(void)kill(-pid, SIGKILL);
	while (RETRY_ON_EINTR(waitpid(-pid, NULL, 0)) > 0)
		;
}

bool plugin_process_is_running(struct plugin_process *process)
{
	if (process->pid == 0)
		return false;
	if (RETRY_ON_EINTR(waitpid(process->pid, &process->status, WNOHANG)) == 0)
		return true;
	end_session(process->pid);
	process->pid = 0;
	process->ended = true;
	return false;
}

static FILE *open_proc(pid_t pid, const char *name)
{
	char path[320];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return fopen(path, "re");
}

static FILE *open_children(pid_t pid)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "task/%d/children", (int)pid);
	return open_proc(pid, name);
}

/* Whether the shell still runs the command as a child, and was not replaced by it. */
static bool is_shell(const struct plugin_process *process)
{
	_cleanup_fclose_ FILE *file = open_proc(process->pid, "cmdline");
	_cleanup_free_ char *wanted = NULL, *got = NULL;
	int size = asprintf(&wanted, SHELL "%c-c%c%s", '\0', '\0', process->command);
	size_t n;

	if (size < 0) {
		wanted = NULL;
		return false;
	}
	got = calloc(1, (size_t)size + 2);
	n = file && got ? fread(got, 1, (size_t)size + 2, file) : 0;
	return n == (size_t)size + 1 && memcmp(got, wanted, n) == 0;
}

/* Shells differ in whether they become the last command or wait for it. */
static pid_t find_plugin(const struct plugin_process *process)
{
	_cleanup_fclose_ FILE *children = is_shell(process) ? open_children(process->pid) : NULL;
	int child, other;

	return children && fscanf(children, "%d %d", &child, &other) == 1 ? child : process->pid;
}

void plugin_process_signal(const struct plugin_process *process, int number)
{
	if (process->pid > 0)
		(void)kill(find_plugin(process), number);
}

void plugin_process_let_age(const struct plugin_process *process)
{
	uint64_t age = now_usec(CLOCK_MONOTONIC) - process->started;

	if (process->pid > 0 && age < AGE)
		(void)usleep((useconds_t)(AGE - age));
}

void plugin_process_kill(struct plugin_process *process)
{
	if (process->pid == 0)
		return;
	(void)kill(-process->pid, SIGKILL);
	(void)kill(process->pid, SIGKILL);
	(void)RETRY_ON_EINTR(waitpid(process->pid, &process->status, 0));
	end_session(process->pid);
	process->pid = 0;
}

/* Waits for the end of a shell, and kills it after the limit. */
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
	pid_t pid = 0;
	int status, r;

	if (!line)
		return error_set(error, -ENOMEM, "out of memory");
	r = start_shell(line, plugin_dir, process->pid > 0 ? find_plugin(process) : 0, &pid, error);
	if (r < 0)
		return r;
	r = await_end(pid, limit, &status);
	if (r == -ETIMEDOUT)
		return error_set(error, r, "\"%s\" did not exit within %llu ms", command,
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

static void add_waits(pid_t pid, struct process_usage *usage)
{
	unsigned long long waited;
	struct dirent *entry;
	char path[64];
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		_cleanup_fclose_ FILE *file = NULL;
		char name[sizeof("task//schedstat") + sizeof(entry->d_name)];

		(void)snprintf(name, sizeof(name), "task/%s/schedstat", entry->d_name);
		file = entry->d_name[0] == '.' ? NULL : open_proc(pid, name);
		if (file && fscanf(file, "%*u %llu", &waited) == 1)
			usage->waited += waited / 1000;
	}
	(void)closedir(dir);
}

static void add_usage(pid_t pid, struct process_usage *usage)
{
	unsigned long pages = 0, user = 0, system = 0;
	_cleanup_fclose_ FILE *memory = open_proc(pid, "statm"), *times = open_proc(pid, "stat");
	char line[1024];
	const char *rest;

	if (memory && fscanf(memory, "%*u %lu", &pages) == 1)
		usage->memory += pages * (size_t)sysconf(_SC_PAGESIZE);
	/* The name in parentheses may contain any character. */
	rest = times && fgets(line, sizeof(line), times) ? strrchr(line, ')') : NULL;
	if (rest &&
		sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			&system) == 2)
		usage->cpu += (user + system) * USEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	usage->descriptors += count_descriptors(pid);
	add_waits(pid, usage);
}

static void add_family(pid_t pid, struct process_usage *usage)
{
	FILE *children;
	int child;

	add_usage(pid, usage);
	children = open_children(pid);
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
