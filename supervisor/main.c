/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of devplugd. A configuration is checked completely before anything is started;
 * its problems go to stderr as FILE:LINE: TEXT, which editors and people both understand.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "arguments.h"
#include "common/log.h"
#include "config/last-accepted.h"
#include "config/plan.h"
#include "log-report.h"
#include "manager.h"

#define EXIT_USAGE  2
#define EXIT_CONFIG 78 /* EX_CONFIG of sysexits.h: systemd must not try again */

static struct arguments arg = { .config_file = DEFAULT_CONFIG_FILE };

static void print_report(const struct report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct report_entry *entry = &report->entries[i];

		(void)fputs(entry->origin.file ?: arg.config_file, stderr);
		if (entry->origin.line > 0)
			(void)fprintf(stderr, ":%u", entry->origin.line);
		(void)fprintf(stderr, ": %s\n", entry->text);
	}
	(void)fprintf(stderr, "%s: not valid, %zu problem%s%s\n", arg.config_file, report->count,
		report->count == 1 ? "" : "s",
		arg.action == ACTION_RUN ? "; nothing was started" : "");
}

/* The numbers of stdin, stdout and stderr must not be given to files of ours. */
static int open_standard_descriptors(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
	} while (fd <= STDERR_FILENO);
	(void)close_fd(fd);
	return 0;
}

/* Each child needs a few descriptors here, and the usual limit is for programs that use select().
 */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void set_up_log(const struct config *config)
{
	log_setup("devplugd", LOG_TARGET_AUTO, config->log_level);
}

static int run(struct config *config, bool last_accepted)
{
	_cleanup_(manager_freep) struct manager *manager = NULL;
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct error error = { 0 };
	sigset_t blocked;

	set_up_log(config);
	raise_file_limit();
	(void)sigaction(SIGPIPE, &ignore, NULL);
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &blocked, NULL);
	if (manager_new(arg.config_file, config, last_accepted, &manager, &error) < 0) {
		log_error("%s", error.message);
		return EXIT_FAILURE;
	}
	if (arg.watch && manager_watch_configuration(manager) < 0) {
		log_error("cannot watch the configuration: out of memory");
		return EXIT_FAILURE;
	}
	return manager_run(manager) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* What a reload would log, or all of it where nothing is in force. */
static int print_diff(const struct config *config)
{
	_cleanup_config_ struct config *in_force = NULL;
	_cleanup_plan_ struct plan plan = { 0 };
	struct error error = { 0 };
	int r;

	r = last_accepted_load(config->runtime_dir, &in_force, &error);
	if (r == -ENOENT || r == -ESTALE) {
		(void)fprintf(stderr, "devplugd: nothing is in force: %s\n", error.message);
	} else if (r < 0) {
		(void)fprintf(
			stderr, "devplugd: what is in force is not known: %s\n", error.message);
		return EXIT_FAILURE;
	}
	if (plan_make(in_force, config, &plan) < 0) {
		(void)fputs("devplugd: out of memory\n", stderr);
		return EXIT_FAILURE;
	}
	for (size_t i = 0; i < plan.count; i++)
		(void)puts(plan.lines[i].text);
	return fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* A file that is not valid ends a start, but not a restart, see config/last-accepted.h. */
static int start_without_file(const struct report *report)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *runtime_dir = NULL;
	struct error error = { 0 };
	int r;

	if (config_find_runtime_dir(arg.config_file, &runtime_dir) < 0)
		return EXIT_FAILURE;
	r = last_accepted_load(runtime_dir, &config, &error);
	if (r < 0) {
		print_report(report);
		if (r != -ENOENT)
			(void)fprintf(stderr,
				"%s: the last accepted configuration is not used: %s\n",
				arg.config_file, error.message);
		return EXIT_CONFIG;
	}
	set_up_log(config);
	log_report(report, arg.config_file);
	return run(TAKE_PTR(config), true);
}

int main(int argc, char *argv[])
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	int r;

	if (open_standard_descriptors() < 0)
		return EXIT_FAILURE;
	r = arguments_parse(argc, argv, &arg);
	if (r <= 0)
		return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;

	r = config_load(arg.config_file, &report, &config);
	if (r < 0) {
		if (arg.action == ACTION_RUN)
			return start_without_file(&report);
		print_report(&report);
		return EXIT_CONFIG;
	}

	if (arg.action == ACTION_CHECK) {
		(void)printf("%s: ok, %zu resource%s\n", arg.config_file, config->n_resources,
			config->n_resources == 1 ? "" : "s");
		return EXIT_SUCCESS;
	}
	if (arg.action == ACTION_DIFF)
		return print_diff(config);
	if (arg.action == ACTION_DUMP)
		return config_dump(config, stdout) < 0 || fflush(stdout) != 0 ? EXIT_FAILURE
									      : EXIT_SUCCESS;
	return run(TAKE_PTR(config), false);
}
