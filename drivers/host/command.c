/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a running program is killed, and how a program that cannot be killed is handled. A
 * program is watched by its pidfd and killed as a group. One that a signal cannot end (stuck in the
 * kernel) is abandoned after a grace period and reaped whenever it ends. Until then, no program of
 * the same subject is started, and while too many hang like that, none is.
 *
 * A process that has left the group, for example with setsid(1), would stay, and accumulate with
 * each run. This process is therefore made a subreaper when it runs its first program, so that such
 * an orphan becomes its child and is killed.
 */
#include "drivers/host/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/text.h"
#include "drivers/host/command-spawn.h"

#define KILL_GRACE    USEC_PER_SEC
#define STUCK_MAX     64
#define LINE_MAX_KEPT 160
/* At the end, the rest in a pipe is read: 1 MiB at most (/proc/sys/fs/pipe-max-size). */
#define READ_SIZE       4096
#define DRAIN_READS_MAX 256
/* The interval at which output of a program that writes without end is read. Its pipe is full in
 * between. */
#define HEAR_INTERVAL (100 * USEC_PER_MSEC)
#define HEAR_MAX      32

/* The output of a program: its last log line, or output for its owner. */
struct command_pipe {
	int fd;
	sd_event_source *source;
	bool read; /* goes to on_data */
};

struct command {
	char *program;
	struct strings subjects;
	struct command *next; /* of `commands` */
	pid_t pid;
	int pidfd;
	struct command_pipe pipes[2];
	size_t n_pipes;
	uint64_t timeout;
	uint64_t killed_at; /* CLOCK_MONOTONIC; 0: it was not */
	bool killed;        /* its time is over */
	bool refused;       /* its output is no longer read */
	bool given_up; /* its end was reported, or has no handler; the command exists until it is
			* reaped */
	sd_event_source *end_source;
	sd_event_source *timer;
	command_reader on_data; /* NULL: all output is kept for the error */
	command_handler on_end;
	void *userdata;
	char line[LINE_MAX_KEPT + 1]; /* last line that is not empty */
	size_t line_length;
	bool line_ended;
};

/* Killed programs that have not ended, in this process. Main thread only. */
static unsigned n_stuck;
/* All running programs of this process. Main thread only. */
static struct command *commands;
/* Whether this process is a subreaper, and whether orphans were killed since the last
 * command_end_orphans(). */
static bool adopting, orphans_killed;

static void command_destroy(void *userdata)
{
	struct command *command = userdata;

	for (struct command **link = &commands; *link; link = &(*link)->next)
		if (*link == command) {
			*link = command->next;
			break;
		}
	if (command->given_up)
		n_stuck--;
	close_fd(command->pidfd);
	for (size_t i = 0; i < command->n_pipes; i++)
		close_fd(command->pipes[i].fd);
	strings_done(&command->subjects);
	free(command->program);
	free(command);
}

static void stop_reading(struct command *command)
{
	for (size_t i = 0; i < command->n_pipes; i++)
		command->pipes[i].source = sd_event_source_disable_unref(command->pipes[i].source);
}

/* Passes the rest of the command from its owner to the loop. */
static void give_up(struct command *command)
{
	command->given_up = true;
	n_stuck++;
	command->on_end = NULL;
	stop_reading(command);
	command->timer = sd_event_source_disable_unref(command->timer);
	(void)sd_event_source_set_destroy_callback(command->end_source, command_destroy);
	(void)sd_event_source_set_floating(command->end_source, true);
	sd_event_source_unref(command->end_source);
}

static void kill_program(struct command *command)
{
	(void)kill(-command->pid, SIGKILL);
	if (command->killed_at == 0)
		command->killed_at = now_usec(CLOCK_MONOTONIC);
}

static void add_to_line(struct command *command, const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (data[i] == '\n') {
			command->line_ended = true;
			continue;
		}
		if (command->line_ended)
			command->line_length = 0;
		command->line_ended = false;
		if (command->line_length < LINE_MAX_KEPT)
			command->line[command->line_length++] = data[i] ? data[i] : ' ';
	}
	command->line[command->line_length] = '\0';
}

static void hear(
	struct command *command, const struct command_pipe *pipe, const char *data, size_t n)
{
	if (!pipe->read)
		add_to_line(command, data, n);
	else if (!command->refused && !command->on_data(data, n, command->userdata)) {
		/* As if its time were over. */
		command->refused = true;
		if (command->timer)
			(void)sd_event_source_set_time_relative(command->timer, 0);
		if (command->timer)
			(void)sd_event_source_set_enabled(command->timer, SD_EVENT_ONESHOT);
	}
}

/* Reads the available output, up to a limit. Returns false at the end. */
static bool read_pipe(struct command *command, const struct command_pipe *pipe)
{
	char buffer[READ_SIZE];

	for (unsigned i = 0; i < DRAIN_READS_MAX; i++) {
		ssize_t n = RETRY_ON_EINTR(read(pipe->fd, buffer, sizeof(buffer)));

		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		hear(command, pipe, buffer, (size_t)n);
	}
	return true;
}

static int on_output(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct command *command = userdata;

	for (size_t i = 0; i < command->n_pipes; i++)
		if (command->pipes[i].fd == fd && !read_pipe(command, &command->pipes[i]))
			return sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

/* IEEE Std 1003.1-2017, XCU 2.8.2: the exit status of a shell whose command was not executed. */
static bool cannot_execute(int status)
{
	return status == 126 || status == 127;
}

static int describe_end(const struct command *command, const siginfo_t *info, struct error *error)
{
	const char *separator = command->line_length > 0 ? ": " : "";

	if (command->refused)
		return error_set(error, -EBADMSG, "%s wrote invalid output", command->program);
	if (command->killed)
		return error_set(error, -ETIMEDOUT,
			"%s did not exit within %g s and was killed%s%s", command->program,
			(double)command->timeout / (double)USEC_PER_SEC, separator, command->line);
	if (info->si_code != CLD_EXITED)
		return error_set(error, -ECANCELED, "%s was killed by signal %d (%s)%s%s",
			command->program, info->si_status, strsignal(info->si_status), separator,
			command->line);
	if (info->si_status != 0)
		return error_set(error, cannot_execute(info->si_status) ? -ENOEXEC : -EIO,
			"%s failed with exit status %d%s%s", command->program, info->si_status,
			separator, command->line);
	return 0;
}

static void finish(struct command *command, int status, const struct error *error)
{
	command_handler on_end = command->on_end;
	void *userdata = command->userdata;

	command->on_end = NULL;
	if (on_end)
		on_end(status, error, userdata);
}

static bool is_running(pid_t pid)
{
	for (const struct command *command = commands; command; command = command->next)
		if (command->pid == pid)
			return true;
	return false;
}

static void adopt_orphans(void)
{
	if (!adopting)
		adopting = prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) >= 0;
}

/* Returns whether it was alive. */
static bool end_orphan(pid_t pid)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG) < 0 || info.si_pid == pid)
		return false;
	return kill(pid, SIGKILL) >= 0;
}

/* Kills and reaps children of this process that are not running programs. One that was killed may
 * be reaped by the next call. The number of a child cannot be used again before it is reaped, which
 * only happens here, so the list of children cannot name another process. */
static void kill_orphans(void)
{
	_cleanup_fclose_ FILE *stream = NULL;
	char path[64];
	int pid;

	if (!adopting)
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	stream = fopen(path, "re");
	while (stream && fscanf(stream, "%d", &pid) == 1)
		if (!is_running(pid) && end_orphan(pid))
			orphans_killed = true;
}

static int on_program_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct command *command = userdata;
	struct error error = { 0 };
	siginfo_t info = { 0 };
	int status;

	/* Kills the group while the zombie still keeps its number from being used again. */
	if (waitid(P_PID, (id_t)command->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
		info.si_pid == 0)
		return 0;
	(void)kill(-command->pid, SIGKILL);
	(void)waitid(P_PID, (id_t)command->pid, &info, WEXITED | WNOHANG);
	command->pid = 0;
	kill_orphans();
	if (command->given_up) {
		/* The loop drops its reference to the source, which frees the command. */
		(void)sd_event_source_set_floating(source, false);
		return 0;
	}
	(void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
	command->timer = sd_event_source_disable_unref(command->timer);
	for (size_t i = 0; i < command->n_pipes; i++)
		(void)read_pipe(command, &command->pipes[i]);
	text_sanitize(command->line);
	stop_reading(command);
	status = describe_end(command, &info, &error);
	finish(command, status, &error);
	return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct command *command = userdata;
	struct error error;

	kill_program(command);
	if (!command->killed) {
		command->killed = true;
		(void)sd_event_source_set_time_relative(source, KILL_GRACE);
		return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	}
	(void)error_set(&error, -ETIMEDOUT,
		"%s did not exit within %g s and cannot be killed, because it hangs in the kernel",
		command->program, (double)command->timeout / (double)USEC_PER_SEC);
	finish(command, -ETIMEDOUT, &error);
	return 0;
}

static int watch_program(sd_event *event, struct command *command)
{
	int r;

	command->pidfd = (int)syscall(SYS_pidfd_open, command->pid, 0);
	if (command->pidfd < 0)
		return -errno;
	r = sd_event_add_io(
		event, &command->end_source, command->pidfd, EPOLLIN, on_program_end, command);
	if (r < 0)
		return r;
	for (size_t i = 0; i < command->n_pipes; i++) {
		struct command_pipe *pipe = &command->pipes[i];

		r = sd_event_add_io(event, &pipe->source, pipe->fd, EPOLLIN, on_output, command);
		if (r < 0)
			return r;
		r = sd_event_source_set_ratelimit(pipe->source, HEAR_INTERVAL, HEAR_MAX);
		if (r < 0)
			return r;
	}
	return sd_event_add_time_relative(
		event, &command->timer, CLOCK_MONOTONIC, command->timeout, 1, on_timeout, command);
}

/* Makes one more pipe; the end that is returned is the program's. */
static int add_pipe(struct command *command, bool is_read)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	command->pipes[command->n_pipes++] = (struct command_pipe){ .fd = fds[0], .read = is_read };
	/* Only our end: the program may expect a blocking one. */
	if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0) {
		(void)close_fd(fds[1]);
		return -errno;
	}
	return fds[1];
}

static int start_program(struct command *command, char *const *argv, int input, struct error *error)
{
	_cleanup_close_ int output = -EBADF, words = -EBADF;
	int r;

	words = add_pipe(command, false);
	if (words >= 0 && command->on_data)
		output = add_pipe(command, true);
	r = words < 0 ? words : command->on_data && output < 0 ? output : 0;
	if (r < 0)
		return error_set(
			error, r, "cannot create a pipe for %s: %s", argv[0], strerror(-r));
	r = command_spawn(argv, input, output >= 0 ? output : words, words, &command->pid);
	if (r < 0)
		return error_set(error, r, "%s cannot be started: %s", argv[0], strerror(-r));
	return 0;
}

int command_subject(struct strings *subjects, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int r;

	va_start(ap, format);
	r = vformat_text(&text, format, ap);
	va_end(ap);
	return r < 0 ? r : strings_add(subjects, text, strlen(text));
}

/* A program that was killed a moment ago is about to end. */
static bool is_hung(const struct strings *subjects)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	for (const struct command *command = commands; command; command = command->next)
		for (size_t i = 0; command->given_up && i < subjects->count; i++)
			if (now - command->killed_at >= KILL_GRACE &&
				strings_contain(&command->subjects, subjects->items[i]))
				return true;
	return false;
}

static int copy_subjects(struct command *command, const struct strings *subjects)
{
	int r = 0;

	for (size_t i = 0; i < subjects->count && r >= 0; i++)
		r = strings_add(&command->subjects, subjects->items[i], strlen(subjects->items[i]));
	return r;
}

int command_start_reading(sd_event *event, char *const *argv, const struct strings *subjects,
	int input, uint64_t timeout, command_reader on_data, command_handler on_end, void *userdata,
	struct command **ret, struct error *error)
{
	_cleanup_(command_freep) struct command *command = NULL;
	int r;

	if (is_hung(subjects))
		return error_set(error, -EBUSY,
			"%s was not started: its earlier run still hangs in the kernel; check the "
			"hardware that it uses",
			argv[0]);
	if (n_stuck >= STUCK_MAX)
		return error_set(error, -EAGAIN,
			"%s was not started: %u killed programs still hang in the kernel; check "
			"the hardware that they use",
			argv[0], n_stuck);
	command = calloc(1, sizeof(*command));
	if (!command)
		return error_set(error, -ENOMEM, "out of memory");
	adopt_orphans();
	command->next = commands;
	commands = command;
	command->pidfd = -EBADF;
	command->timeout = timeout;
	command->on_data = on_data;
	command->on_end = on_end;
	command->userdata = userdata;
	command->program = strdup(argv[0]);
	if (!command->program || copy_subjects(command, subjects) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	r = start_program(command, argv, input, error);
	if (r < 0)
		return r;
	r = watch_program(event, command);
	if (r < 0)
		return error_set(error, r, "%s cannot be watched: %s", argv[0], strerror(-r));
	*ret = TAKE_PTR(command);
	return 0;
}

int command_start(sd_event *event, char *const *argv, const struct strings *subjects,
	uint64_t timeout, command_handler on_end, void *userdata, struct command **ret,
	struct error *error)
{
	return command_start_reading(
		event, argv, subjects, -EBADF, timeout, NULL, on_end, userdata, ret, error);
}

void command_forget_timeout(struct command *command)
{
	if (command->timer && !command->killed)
		(void)sd_event_source_set_enabled(command->timer, SD_EVENT_OFF);
}

void command_set_timeout(struct command *command, uint64_t timeout)
{
	if (!command->timer || command->killed)
		return;
	command->timeout = timeout;
	(void)sd_event_source_set_time_relative(command->timer, timeout);
	(void)sd_event_source_set_enabled(command->timer, SD_EVENT_ONESHOT);
}

struct command *command_free(struct command *command)
{
	if (!command)
		return NULL;
	if (command->pid > 0) {
		siginfo_t info = { 0 };

		kill_program(command);
		(void)waitid(P_PID, (id_t)command->pid, &info, WEXITED | WNOHANG);
		if (info.si_pid == 0 && command->end_source) {
			give_up(command);
			return NULL;
		}
		/* It is not watched yet, so it was started a moment ago and is killed at once. */
		if (info.si_pid == 0)
			(void)waitid(P_PID, (id_t)command->pid, &info, WEXITED);
	}
	command->end_source = sd_event_source_disable_unref(command->end_source);
	stop_reading(command);
	command->timer = sd_event_source_disable_unref(command->timer);
	command_destroy(command);
	return NULL;
}

bool command_end_orphans(void)
{
	bool any;

	kill_orphans();
	any = orphans_killed;
	orphans_killed = false;
	return any;
}
