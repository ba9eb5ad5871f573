/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reload that answers. The signal goes to a process that holds the state's lock now, by pidfd, so
 * never to a stranger who has the number; the answer is read from the state file.
 */
#include <signal.h>
#include <sys/pidfd.h>

#include "config/last-accepted.h"
#include "config/plan.h"
#include "ctl/command.h"

#define LOOK_INTERVAL (50 * USEC_PER_MSEC)

const char *request_config_file(const struct request *request, const struct snapshot *snapshot)
{
	const char *used = snapshot_string(snapshot->root, "config_file");

	if (request->config_file)
		return request->config_file;
	return *used ? used : DEFAULT_CONFIG_FILE;
}

void print_report(const struct report *report, const char *file)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct report_entry *entry = &report->entries[i];

		(void)fputs(entry->origin.file ?: file, stderr);
		if (entry->origin.line > 0)
			(void)fprintf(stderr, ":%u", entry->origin.line);
		(void)fprintf(stderr, ": %s\n", entry->text);
	}
}

static int signal_daemon(
	const struct request *request, const struct snapshot *snapshot, struct error *error)
{
	_cleanup_(snapshot_done) struct snapshot again = { 0 };
	pid_t pid = (pid_t)snapshot_integer(snapshot->root, "pid");
	_cleanup_close_ int fd = -EBADF;
	int r;

	fd = pid > 0 ? pidfd_open(pid, 0) : -1;
	if (fd < 0)
		return error_set(error, -ESRCH, "devplugd is not running");
	r = snapshot_read(request->config_file, snapshot->runtime_dir, &again, error);
	if (r < 0)
		return r;
	if (!again.running || snapshot_integer(again.root, "pid") != pid)
		return error_set(error, -ESRCH, "devplugd has just been stopped");
	if (pidfd_send_signal(fd, SIGHUP, NULL, 0) < 0)
		return error_set(error, -errno, "cannot signal devplugd (%d): %s", (int)pid,
			strerror(errno));
	return 0;
}

/* Returns 1 if there is an answer, 0 if not yet, or negative errno. */
static int look(const struct request *request, const struct snapshot *snapshot, struct error *error)
{
	_cleanup_(snapshot_done) struct snapshot now = { 0 };
	int r;

	r = snapshot_read(request->config_file, snapshot->runtime_dir, &now, error);
	if (r < 0)
		return r;
	if (!now.running ||
		snapshot_integer(now.root, "pid") != snapshot_integer(snapshot->root, "pid"))
		return error_set(
			error, -ESRCH, "devplugd has ended instead of reloading; see its log");
	if (snapshot_integer(now.root, "reloads") == snapshot_integer(snapshot->root, "reloads"))
		return 0;
	if (json_is_true(json_object_get(now.root, "reload_failed")))
		return error_set(error, -EINVAL,
			"devplugd refused the configuration and goes on with generation %lld; see "
			"its log",
			(long long)snapshot_integer(now.root, "generation"));
	return 1;
}

int reload_daemon(
	const struct request *request, const struct snapshot *snapshot, struct error *error)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + RELOAD_TIMEOUT;
	int r;

	r = signal_daemon(request, snapshot, error);
	if (r < 0)
		return r;
	do {
		const struct timespec pause = { .tv_nsec = LOOK_INTERVAL * 1000 };

		(void)nanosleep(&pause, NULL);
		r = look(request, snapshot, error);
		if (r != 0)
			return r < 0 ? r : 0;
	} while (now_usec(CLOCK_MONOTONIC) < end);
	return error_set(error, -ETIMEDOUT,
		"devplugd did not reload within %llu s; see its log and \"devplugctl status\"",
		(unsigned long long)(RELOAD_TIMEOUT / USEC_PER_SEC));
}

static void print_plan(const struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		(void)puts(plan->lines[i].text);
	(void)printf("%s\n", plan->n_changes > 0 ? "Reloaded." : "Reloaded; nothing has changed.");
}

int command_reload(const struct request *request)
{
	_cleanup_(snapshot_done) struct snapshot snapshot = { 0 };
	_cleanup_config_ struct config *config = NULL, *in_force = NULL;
	_cleanup_report_ struct report report = { 0 };
	_cleanup_plan_ struct plan plan = { 0 };
	struct error error = { 0 };
	const char *file;
	int r;

	r = snapshot_read(request->config_file, request->runtime_dir, &snapshot, &error);
	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	file = request_config_file(request, &snapshot);
	if (config_load(file, &report, &config) < 0) {
		print_report(&report, file);
		(void)fprintf(stderr, "%s: not valid, %zu problem%s; nothing was changed\n", file,
			report.count, report.count == 1 ? "" : "s");
		return EXIT_CONFIG;
	}
	if (!snapshot.running) {
		(void)fputs("devplugctl: devplugd is not running\n", stderr);
		return EXIT_NOT_RUNNING;
	}
	/* Before the signal: afterwards the new one is the last accepted. */
	r = last_accepted_load(snapshot.runtime_dir, &in_force, &error);
	if (r >= 0)
		r = plan_make(in_force, config, &plan);
	if (r < 0)
		(void)fprintf(stderr, "devplugctl: what will change cannot be told: %s\n",
			error.code < 0 ? error.message : strerror(-r));
	r = reload_daemon(request, &snapshot, &error);
	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	print_plan(&plan);
	return fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
