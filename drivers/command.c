/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's life: started by posix_spawn (other threads may hold any lock), watched by its pidfd,
 * killed as a group. A program that a signal cannot end (stuck in the kernel) is given up after a
 * grace period and reaped whenever it ends; while too many hang like that, no more are started.
 */
#include "drivers/command.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/text.h"

#define KILL_GRACE      USEC_PER_SEC
#define STUCK_MAX       64
#define LINE_MAX_KEPT   160
#define DRAIN_READS_MAX 64

struct command {
	char *program;
	pid_t pid;
	int pidfd;
	int output;
	uint64_t timeout;
	bool killed;   /* its time is over */
	bool given_up; /* told already, or nobody wants to know; lives on to be reaped */
	sd_event_source *end_source;
	sd_event_source *output_source;
	sd_event_source *timer;
	command_handler on_end;
	void *userdata;
	char line[LINE_MAX_KEPT + 1]; /* last line that is not empty */
	size_t line_length;
	bool line_ended;
};

/* Killed programs that have not ended, in this process. Main thread only. */
static unsigned n_stuck;

static void command_destroy(void *userdata)
{
	struct command *command = userdata;

	if (command->given_up)
		n_stuck--;
	close_fd(command->pidfd);
	close_fd(command->output);
	free(command->program);
	free(command);
}

/* Lets the loop keep what is left of it. Takes the command away from its owner. */
static void give_up(struct command *command)
{
	command->given_up = true;
	n_stuck++;
	command->on_end = NULL;
	command->output_source = sd_event_source_disable_unref(command->output_source);
	command->timer = sd_event_source_disable_unref(command->timer);
	(void)sd_event_source_set_destroy_callback(command->end_source, command_destroy);
	(void)sd_event_source_set_floating(command->end_source, true);
	sd_event_source_unref(command->end_source);
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

/* Reads what is there, but not for ever. Returns false at the end. */
static bool read_output(struct command *command)
{
	char buffer[4096];

	for (unsigned i = 0; i < DRAIN_READS_MAX; i++) {
		ssize_t n = RETRY_ON_EINTR(read(command->output, buffer, sizeof(buffer)));

		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		add_to_line(command, buffer, (size_t)n);
	}
	return true;
}

static int on_output(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	if (!read_output(userdata))
		return sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

static int describe_end(const struct command *command, const siginfo_t *info, struct error *error)
{
	const char *separator = command->line_length > 0 ? ": " : "";

	if (command->killed)
		return error_set(error, -ETIMEDOUT, "%s did not end within %g s and was killed%s%s",
			command->program, (double)command->timeout / (double)USEC_PER_SEC,
			separator, command->line);
	if (info->si_code != CLD_EXITED)
		return error_set(error, -EIO, "%s was ended by signal %d (%s)%s%s",
			command->program, info->si_status, strsignal(info->si_status), separator,
			command->line);
	if (info->si_status != 0)
		return error_set(error, -EIO, "%s failed with exit status %d%s%s", command->program,
			info->si_status, separator, command->line);
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

static int on_program_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct command *command = userdata;
	struct error error = { 0 };
	siginfo_t info = { 0 };
	int status;

	/* The group goes while the zombie still keeps its number from being used again. */
	if (waitid(P_PID, (id_t)command->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
		info.si_pid == 0)
		return 0;
	(void)kill(-command->pid, SIGKILL);
	(void)waitid(P_PID, (id_t)command->pid, &info, WEXITED | WNOHANG);
	command->pid = 0;
	if (command->given_up) {
		/* The loop lets go of the source, and with it goes the command. */
		(void)sd_event_source_set_floating(source, false);
		return 0;
	}
	(void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
	command->timer = sd_event_source_disable_unref(command->timer);
	(void)read_output(command);
	text_sanitize(command->line);
	command->output_source = sd_event_source_disable_unref(command->output_source);
	status = describe_end(command, &info, &error);
	finish(command, status, &error);
	return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct command *command = userdata;
	struct error error;

	(void)kill(-command->pid, SIGKILL);
	if (!command->killed) {
		command->killed = true;
		(void)sd_event_source_set_time_relative(source, KILL_GRACE);
		return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	}
	(void)error_set(&error, -ETIMEDOUT,
		"%s did not end within %g s and cannot be killed, it is stuck in the kernel",
		command->program, (double)command->timeout / (double)USEC_PER_SEC);
	finish(command, -ETIMEDOUT, &error);
	return 0;
}

static int make_attributes(posix_spawnattr_t *attributes)
{
	sigset_t all, none;
	int r;

	(void)sigfillset(&all);
	(void)sigemptyset(&none);
	r = posix_spawnattr_setsigdefault(attributes, &all);
	if (r == 0)
		r = posix_spawnattr_setsigmask(attributes, &none);
	if (r == 0)
		r = posix_spawnattr_setflags(attributes,
			POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	return -r;
}

static int make_actions(posix_spawn_file_actions_t *actions, int output)
{
	int r;

	r = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(actions, output, STDERR_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(
			actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	/* All are born close-on-exec here; libraries are not trusted to do the same. */
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
	return -r;
}

static int spawn(char *const *argv, int output, pid_t *ret_pid)
{
	static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	static char language[] = "LANG=C.UTF-8";
	char *const environment[] = { path, language, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int r;

	r = -posix_spawnattr_init(&attributes);
	if (r < 0)
		return r;
	r = -posix_spawn_file_actions_init(&actions);
	if (r < 0)
		goto finish_attributes;
	r = make_attributes(&attributes);
	if (r >= 0)
		r = make_actions(&actions, output);
	if (r >= 0)
		r = -posix_spawn(ret_pid, argv[0], &actions, &attributes, argv, environment);
	(void)posix_spawn_file_actions_destroy(&actions);
finish_attributes:
	(void)posix_spawnattr_destroy(&attributes);
	return r;
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
	r = sd_event_add_io(
		event, &command->output_source, command->output, EPOLLIN, on_output, command);
	if (r < 0)
		return r;
	return sd_event_add_time_relative(
		event, &command->timer, CLOCK_MONOTONIC, command->timeout, 1, on_timeout, command);
}

int command_start(sd_event *event, char *const *argv, uint64_t timeout, command_handler on_end,
	void *userdata, struct command **ret, struct error *error)
{
	_cleanup_(command_freep) struct command *command = NULL;
	_cleanup_close_ int output = -EBADF;
	int fds[2], r;

	if (n_stuck >= STUCK_MAX)
		return error_set(error, -EAGAIN,
			"%s was not started: %u programs that were killed still hang in the "
			"kernel, look at the hardware they use",
			argv[0], n_stuck);
	command = calloc(1, sizeof(*command));
	if (!command)
		return error_set(error, -ENOMEM, "out of memory");
	command->pidfd = command->output = -EBADF;
	command->timeout = timeout;
	command->on_end = on_end;
	command->userdata = userdata;
	command->program = strdup(argv[0]);
	if (!command->program)
		return error_set(error, -ENOMEM, "out of memory");
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set(error, -errno, "no pipe for %s: %s", argv[0], strerror(errno));
	command->output = fds[0];
	output = fds[1];
	/* Only our end: the program may expect a blocking one. */
	if (fcntl(command->output, F_SETFL, O_NONBLOCK) < 0)
		return error_set(error, -errno, "no pipe for %s: %s", argv[0], strerror(errno));

	r = spawn(argv, output, &command->pid);
	if (r < 0)
		return error_set(error, r, "%s cannot be started: %s", argv[0], strerror(-r));
	r = watch_program(event, command);
	if (r < 0)
		return error_set(error, r, "%s cannot be watched: %s", argv[0], strerror(-r));
	*ret = TAKE_PTR(command);
	return 0;
}

struct command *command_free(struct command *command)
{
	if (!command)
		return NULL;
	if (command->pid > 0) {
		siginfo_t info = { 0 };

		(void)kill(-command->pid, SIGKILL);
		(void)waitid(P_PID, (id_t)command->pid, &info, WEXITED | WNOHANG);
		if (info.si_pid == 0 && command->end_source) {
			give_up(command);
			return NULL;
		}
		/* Not watched, so it was started a moment ago and ends at once. */
		if (info.si_pid == 0)
			(void)waitid(P_PID, (id_t)command->pid, &info, WEXITED);
	}
	command->end_source = sd_event_source_disable_unref(command->end_source);
	command->output_source = sd_event_source_disable_unref(command->output_source);
	command->timer = sd_event_source_disable_unref(command->timer);
	command_destroy(command);
	return NULL;
}
