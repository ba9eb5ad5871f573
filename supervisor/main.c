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

static int run(struct config *config)
{
	_cleanup_(manager_freep) struct manager *manager = NULL;
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct error error = { 0 };
	sigset_t blocked;

	log_setup("devplugd", LOG_TARGET_AUTO, config->log_level);
	raise_file_limit();
	(void)sigaction(SIGPIPE, &ignore, NULL);
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &blocked, NULL);
	if (manager_new(arg.config_file, config, &manager, &error) < 0) {
		log_error("%s", error.message);
		return EXIT_FAILURE;
	}
	return manager_run(manager) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char *argv[])
{
	_cleanup_config_ struct config *config = NULL;
	struct report report = { 0 };
	int r;

	if (open_standard_descriptors() < 0)
		return EXIT_FAILURE;
	r = arguments_parse(argc, argv, &arg);
	if (r <= 0)
		return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;

	r = config_load(arg.config_file, &report, &config);
	if (r < 0) {
		print_report(&report);
		report_done(&report);
		return EXIT_CONFIG;
	}
	report_done(&report);

	if (arg.action == ACTION_CHECK) {
		(void)printf("%s: ok, %zu resource%s\n", arg.config_file, config->n_resources,
			config->n_resources == 1 ? "" : "s");
		return EXIT_SUCCESS;
	}
	if (arg.action == ACTION_DUMP)
		return config_dump(config, stdout) < 0 || fflush(stdout) != 0 ? EXIT_FAILURE
									      : EXIT_SUCCESS;
	return run(TAKE_PTR(config));
}
