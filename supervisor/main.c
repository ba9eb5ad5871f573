/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which mode of devplugd runs. A configuration is checked completely before anything is
 * started; its problems go to stderr as FILE:LINE: TEXT, a form that editors understand.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "common/log.h"
#include "configuration/last-accepted.h"
#include "configuration/plan.h"
#include "configuration/warnings.h"
#include "supervisor/arguments.h"
#include "supervisor/control/ask.h"
#include "supervisor/daemon-loop.h"
#include "supervisor/files/runtime-lock.h"
#include "supervisor/helpers/dra-identity-check.h"
#include "supervisor/kubelet/write-access.h"
#include "supervisor/log-report.h"
#include "supervisor/removal-warning.h"

#define EXIT_USAGE  2
#define EXIT_CONFIG 78 /* EX_CONFIG of sysexits.h: systemd must not try again */

static struct arguments arg = { .config_file = DEFAULT_CONFIG_FILE };

/* Makes the path absolute, so that it is the same file for clients and for later reloads. Returns 0
 * or negative errno. */
static int find_config_file(void)
{
	_cleanup_free_ char *here = *arg.config_file == '/' ? NULL : realpath(".", NULL);
	static char *path;
	int r;

	if (*arg.config_file == '/')
		return 0;
	r = here ? format_text(&path, "%s/%s", streq(here, "/") ? "" : here, arg.config_file)
		 : -errno;
	if (r >= 0)
		arg.config_file = path;
	return r;
}

static void print_entries(const struct report *report, const char *kind)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct report_entry *entry = &report->entries[i];

		(void)fputs(entry->origin.file ?: arg.config_file, stderr);
		if (entry->origin.line > 0)
			(void)fprintf(stderr, ":%u", entry->origin.line);
		(void)fprintf(stderr, ": %s%s\n", kind, entry->text);
	}
}

static void print_report(const struct report *report)
{
	print_entries(report, "");
	(void)fprintf(stderr, "%s: not valid, %zu problem%s%s\n", arg.config_file, report->count,
		report->count == 1 ? "" : "s",
		arg.action == ACTION_RUN ? "; nothing was started" : "");
}

/* The numbers of stdin, stdout and stderr must not be used for our own files. */
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

/* The event loop takes them, also those that come before there is one. They stay blocked to the
 * end: neither a reload nor a second request to stop may kill the process. */
static void block_signals(void)
{
	static const int numbers[] = { SIGCHLD, SIGHUP, SIGINT, SIGTERM };
	sigset_t blocked;

	(void)sigemptyset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		(void)sigaddset(&blocked, numbers[i]);
	(void)sigprocmask(SIG_BLOCK, &blocked, NULL);
}

static int run(struct config *config, bool last_accepted)
{
	_cleanup_(daemon_loop_freep) struct manager *manager = NULL;
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct error error = { 0 };

	set_up_log(config);
	raise_file_limit();
	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (daemon_loop_new(arg.config_file, config, last_accepted, &manager, &error) < 0) {
		log_error("%s", error.message);
		return EXIT_FAILURE;
	}
	if (arg.watch && daemon_loop_watch_configuration(manager) < 0) {
		log_error("cannot watch the configuration: out of memory");
		return EXIT_FAILURE;
	}
	return daemon_loop_run(manager) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The configuration of the daemon that a reload is for. Its runtime_dir may be another one than the
 * file's: the service's own, or the default for the default file. Errors of last_accepted_load().
 */
static int load_in_force(const struct config *config, struct config **ret, struct error *error)
{
	const char *directories[] = {
		config->runtime_dir,
		getenv("RUNTIME_DIRECTORY"),
		streq(arg.config_file, DEFAULT_CONFIG_FILE) ? DEFAULT_RUNTIME_DIR : NULL,
	};
	struct error other = { 0 };
	int r;

	r = last_accepted_load(directories[0], ret, error);
	for (size_t i = 1; i < ARRAY_SIZE(directories) && r == -ENOENT; i++)
		if (directories[i] && last_accepted_load(directories[i], ret, &other) >= 0)
			r = 0;
	return r;
}

/* Warnings, what a child would refuse on this host, and with the service's directory (in its
 * ExecReload=) what a reload would refuse. */
static int check(const struct config *config)
{
	_cleanup_config_ struct config *in_force = NULL;
	_cleanup_report_ struct report report = { 0 };
	struct error error = { 0 };
	uint64_t ids;

	(void)load_in_force(config, &in_force, &error);
	if ((getenv("RUNTIME_DIRECTORY") && in_force &&
		    plan_check_kept(in_force, config, arg.config_file, &report) < 0) ||
		offered_devices_check(config, &report, &ids) < 0) {
		print_report(&report);
		return EXIT_CONFIG;
	}
	(void)printf("%s: ok, %zu resource%s\n", arg.config_file, config->n_resources,
		config->n_resources == 1 ? "" : "s");
	if (config_warnings(config, &report) >= 0)
		print_entries(&report, "warning: ");
	offered_ids_warn(ids, stderr);
	write_access_warn(config, (in_force ?: config)->runtime_dir, stderr);
	dra_identity_check_files(config, stderr);
	return EXIT_SUCCESS;
}

/* Prints what a reload would log, or the whole configuration if none is applied. */
static int print_diff(const struct config *config)
{
	_cleanup_config_ struct config *in_force = NULL;
	_cleanup_plan_ struct plan plan = { 0 };
	json_auto_t *state = NULL;
	struct error error = { 0 };
	int r;

	r = load_in_force(config, &in_force, &error);
	if (r == -ENOENT || r == -ESTALE) {
		(void)fprintf(stderr, "devplugd: no configuration is applied: %s\n", error.message);
	} else if (r < 0) {
		(void)fprintf(stderr, "devplugd: cannot determine the applied configuration: %s\n",
			error.message);
		return EXIT_FAILURE;
	}
	if (plan_make(in_force, config, &plan) < 0) {
		(void)fputs("devplugd: out of memory\n", stderr);
		return EXIT_FAILURE;
	}
	for (size_t i = 0; i < plan.count; i++)
		(void)puts(plan.lines[i].text);
	/* Without an answer, pods are named by their UIDs. */
	(void)ask_daemon(config->runtime_dir, "status", json_pack("{s:b}", "pods", 1), ASK_TIMEOUT,
		&state, &error);
	removed_devices_warn(in_force, config, state, stderr);
	return fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Devices may have been cordoned while no daemon ran. */
static int update_cordons(struct config **config)
{
	_cleanup_report_ struct report report = { 0 };
	struct config *changed;
	int r;

	r = config_load_cordons(*config, arg.config_file, &report, &changed);
	if (r < 0) {
		log_report(&report, arg.config_file);
		return r;
	}
	(void)config_free(*config);
	*config = changed;
	return 0;
}

/* A file that is not valid ends a start, but not a restart, see configuration/last-accepted.h. */
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
	(void)update_cordons(&config);
	return run(TAKE_PTR(config), true);
}

/* Whether to start: the lock of the directory is free. A signal to stop ends the wait. Signals are
 * blocked, also those that would wake up a process that waits for a lock, so this asks again and
 * again. */
static bool await_lock(const char *runtime_dir)
{
	const struct timespec pause = { .tv_nsec = 20L * 1000 * 1000 };
	sigset_t stop;

	(void)sigemptyset(&stop);
	(void)sigaddset(&stop, SIGINT);
	(void)sigaddset(&stop, SIGTERM);
	while (runtime_lock_is_taken(runtime_dir))
		if (sigtimedwait(&stop, NULL, &pause) >= 0)
			return false;
	return true;
}

/* The file is checked first, so that a new version that refuses it fails while the other devplugd
 * still serves. Returns whether to start; if not, the exit status is set. */
static bool stand_by(int *ret_status)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *runtime_dir = NULL;

	if (config_find_runtime_dir(arg.config_file, &runtime_dir) < 0 ||
		!runtime_lock_is_taken(runtime_dir))
		return true;
	if (config_load(arg.config_file, &report, &config) < 0) {
		print_report(&report);
		*ret_status = EXIT_CONFIG;
		return false;
	}
	set_up_log(config);
	log_notice("another devplugd uses %s; this one starts when it has ended", runtime_dir);
	*ret_status = EXIT_SUCCESS;
	return await_lock(runtime_dir);
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
	if (arg.action == ACTION_RUN) {
		r = find_config_file();
		if (r < 0) {
			(void)fprintf(
				stderr, "cannot find %s: %s\n", arg.config_file, strerror(-r));
			return EXIT_FAILURE;
		}
		block_signals();
		if (arg.standby && !stand_by(&r))
			return r;
	}

	r = config_load(arg.config_file, &report, &config);
	if (r < 0) {
		if (arg.action == ACTION_RUN)
			return start_without_file(&report);
		print_report(&report);
		return EXIT_CONFIG;
	}

	if (arg.action == ACTION_CHECK)
		return check(config);
	if (arg.action == ACTION_DIFF)
		return print_diff(config);
	if (arg.action == ACTION_DUMP)
		return config_dump(config, stdout) < 0 || fflush(stdout) != 0 ? EXIT_FAILURE
									      : EXIT_SUCCESS;
	return run(TAKE_PTR(config), false);
}
