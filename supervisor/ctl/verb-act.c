/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports the common failures of verbs that change something, and runs "devplugctl rescan".
 */
#include "supervisor/control/ask.h"
#include "supervisor/ctl/verb.h"

#define ACT_TIMEOUT 35 /* seconds; the daemon gives up after 30 */

void request_explain(const struct command_line *line, const char *resource, struct error *error)
{
	_cleanup_(daemon_state_done) struct daemon_state daemon = { 0 };
	struct error other = { 0 };

	if (error->code == -EACCES || error->code == -EPERM)
		(void)error_set(error, error->code, "\"%s\" needs root", line->verb);
	if (error->code == -ENOENT && resource &&
		daemon_state_read(line->config_file, line->runtime_dir, &daemon, &other) >= 0)
		(void)daemon_state_select(&daemon, resource, error);
}

int command_rescan(const struct command_line *line)
{
	_cleanup_free_ char *runtime_dir = NULL;
	json_t *arguments = json_object(), *name;
	json_auto_t *answer = NULL;
	const json_t *not_scanned;
	struct error error = { 0 };
	size_t i;
	int r;

	if (line->subject)
		(void)json_object_set_new(arguments, "resource", json_string(line->subject));

	r = command_line_runtime_dir(line, &runtime_dir, &error);
	if (r >= 0)
		r = ask_daemon(runtime_dir, line->verb, arguments, ACT_TIMEOUT, &answer, &error);
	else
		json_decref(arguments);
	if (r < 0)
		request_explain(line, line->subject, &error);
	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return r == -ESRCH ? EXIT_NOT_RUNNING : EXIT_FAILURE;
	}
	json_array_foreach(json_object_get(answer, "resources"), i, name)(void)
		printf("%s has been scanned\n", json_string_value(name) ?: "");
	not_scanned = json_object_get(answer, "not_scanned");
	json_array_foreach(not_scanned, i, name)(void) fprintf(stderr,
		"devplugctl: %s has no process that could scan now; see \"devplugctl explain %s\"\n",
		json_string_value(name) ?: "", json_string_value(name) ?: "");
	return fflush(stdout) != 0 || json_array_size(not_scanned) > 0 ? EXIT_FAILURE
								       : EXIT_SUCCESS;
}
