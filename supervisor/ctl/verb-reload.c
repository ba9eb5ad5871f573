/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reloads the configuration and shows the effects, or with --diff only shows them. The effects are
 * computed here, from the applied configuration and the file; the daemon's answer confirms the
 * change.
 */
#include <sys/stat.h>

#include "configuration/last-accepted.h"
#include "configuration/plan.h"
#include "supervisor/control/ask.h"
#include "supervisor/ctl/show-usage.h"
#include "supervisor/ctl/verb.h"
#include "supervisor/kubelet/write-access.h"
#include "supervisor/removal-warning.h"

const char *command_line_config_file(
	const struct command_line *line, const struct daemon_state *daemon)
{
	const char *used = text_of(daemon->root, "config_file");

	if (line->config_file)
		return line->config_file;
	return *used ? used : DEFAULT_CONFIG_FILE;
}

int command_line_runtime_dir(const struct command_line *line, char **ret, struct error *error)
{
	*ret = runtime_dir_find(line->config_file, line->runtime_dir);
	return *ret ? 0 : error_set(error, -ENOMEM, "out of memory");
}

int print_unanswered(const struct daemon_state *daemon)
{
	if (daemon->unanswered.code == 0)
		return EXIT_SUCCESS;
	(void)fprintf(stderr, "devplugctl: %s\n", daemon->unanswered.message);
	return daemon->running ? EXIT_FAILURE : EXIT_NOT_RUNNING;
}

int require_config_file(
	const struct command_line *line, const struct daemon_state *daemon, struct error *error)
{
	const char *used = text_of(daemon->root, "config_file");
	struct stat in_use, named;

	if (!line->config_file || !daemon->running || !*used || streq(used, line->config_file))
		return 0;
	if (stat(used, &in_use) < 0 || stat(line->config_file, &named) < 0 ||
		(in_use.st_dev == named.st_dev && in_use.st_ino == named.st_ino))
		return 0;
	return error_set(
		error, -EINVAL, "devplugd runs with %s, not with %s", used, line->config_file);
}

int require_root(const struct daemon_state *daemon, const char *verb, struct error *error)
{
	struct stat st;

	/* The owner of the directory is root or the daemon's own user. */
	if (geteuid() == 0 || (stat(daemon->runtime_dir, &st) == 0 && st.st_uid == geteuid()))
		return 0;
	return error_set(error, -EPERM, "\"%s\" needs root", verb);
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

int have_applied(const struct daemon_state *daemon, const char *verb, struct error *error)
{
	json_auto_t *answer = NULL;

	return ask_daemon(daemon->runtime_dir, verb, NULL, RELOAD_TIMEOUT, &answer, error);
}

/* The containers with devices of a resource that is changed or removed. */
static void print_affected(const struct plan_line *line, const struct daemon_state *daemon)
{
	json_t *resource, *device;
	size_t i, k;

	if (!line->name || (*line->text != '~' && *line->text != '-'))
		return;
	json_array_foreach(json_object_get(daemon->root, "resources"), i, resource)
	{
		if (!streq(text_of(resource, "name"), line->name))
			continue;
		json_array_foreach(json_object_get(resource, "devices"), k, device)
		{
			_cleanup_free_ char *holders = usage_name_holders(device);

			if (holders && json_array_size(json_object_get(device, "pods")) > 0 &&
				usage_is_taken(device))
				(void)printf(
					"    %s is in use by %s\n", text_of(device, "id"), holders);
		}
	}
}

static void print_plan(const struct plan *plan, bool known, const struct daemon_state *daemon)
{
	for (size_t i = 0; i < plan->count; i++) {
		(void)puts(plan->lines[i].text);
		print_affected(&plan->lines[i], daemon);
	}
	(void)printf("%s\n",
		plan->n_changes > 0 || !known ? "Reloaded." : "Reloaded; nothing has changed.");
}

int command_reload(const struct command_line *line)
{
	_cleanup_(daemon_state_done) struct daemon_state daemon = { 0 };
	_cleanup_config_ struct config *config = NULL, *in_force = NULL;
	_cleanup_report_ struct report report = { 0 };
	_cleanup_plan_ struct plan plan = { 0 };
	bool known;
	json_auto_t *state = NULL;
	struct error error = { 0 };
	const char *file;
	int r;

	r = daemon_state_read(line->config_file, line->runtime_dir, &daemon, &error);
	if (r >= 0)
		r = require_root(&daemon, "reload", &error);
	if (r >= 0)
		r = require_config_file(line, &daemon, &error);
	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	file = command_line_config_file(line, &daemon);
	if (config_load(file, &report, &config) < 0) {
		print_report(&report, file);
		(void)fprintf(stderr, "%s: not valid, %zu problem%s; nothing was changed\n", file,
			report.count, report.count == 1 ? "" : "s");
		return EXIT_CONFIG;
	}
	if (!daemon.running) {
		(void)fprintf(stderr, "devplugctl: " NOT_RUNNING_FORMAT "\n", daemon.runtime_dir);
		return EXIT_NOT_RUNNING;
	}
	/* This must precede the request, because afterwards the new configuration is the last
	 * accepted one. */
	r = last_accepted_load(daemon.runtime_dir, &in_force, &error);
	if (r >= 0)
		r = plan_make(in_force, config, &plan);
	known = r >= 0;
	if (!known)
		(void)fprintf(stderr, "devplugctl: cannot determine what will change: %s\n",
			error.code < 0 ? error.message : strerror(-r));
	if (in_force && plan_check_kept(in_force, config, file, &report) < 0) {
		print_report(&report, file);
		return EXIT_CONFIG;
	}
	(void)ask_daemon(daemon.runtime_dir, "status", json_pack("{s:b}", "pods", 1), ASK_TIMEOUT,
		&state, &error);
	removed_devices_warn(in_force, config, state, stderr);
	write_access_warn(config, daemon.runtime_dir, stderr);
	r = have_applied(&daemon, "reload", &error);
	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	print_plan(&plan, known, &daemon);
	return fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
