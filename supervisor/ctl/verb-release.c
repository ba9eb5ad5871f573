/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes and reopens a resource's devices. Both commands are one request to the daemon.
 */
#include "supervisor/control/ask.h"
#include "supervisor/ctl/daemon-state.h"
#include "supervisor/ctl/verb.h"

/* A device that was reset must be one of the resource. */
static int check_device(const struct command_line *line, struct error *error)
{
	_cleanup_(daemon_state_done) struct daemon_state daemon = { 0 };
	const json_t *devices;
	const char *near;
	int r;

	r = daemon_state_read(line->config_file, line->runtime_dir, &daemon, error);
	if (r >= 0)
		r = daemon_state_select(&daemon, line->subject, error);
	if (r < 0)
		return r;
	devices = json_object_get(
		json_array_get(json_object_get(daemon.root, "resources"), 0), "devices");
	for (size_t i = 0; i < json_array_size(devices); i++)
		if (streq(text_of(json_array_get(devices, i), "id"), line->reason))
			return 0;
	near = daemon_state_suggest(devices, "id", line->reason);
	return error_set(error, -ENOENT, "%s has no device \"%s\"%s%s%s", line->subject,
		line->reason, near ? ", did you mean \"" : "; see \"devplugctl devices\"",
		near ?: "", near ? "\"?" : "");
}

static int change(const struct command_line *line, bool end)
{
	_cleanup_free_ char *runtime_dir = NULL;
	json_auto_t *answer = NULL;
	struct error error = { 0 };
	int r;

	r = command_line_runtime_dir(line, &runtime_dir, &error);
	if (r >= 0 && line->force && !line->reason)
		r = error_set(&error, -EINVAL, "--force needs a device");
	if (r >= 0 && line->reason)
		r = check_device(line, &error);
	if (r >= 0)
		r = ask_daemon(runtime_dir, "release",
			json_pack("{s:s, s:b, s:s*, s:o*}", "resource", line->subject, "end", end,
				"reset", line->reason, "untested",
				line->force ? json_true() : NULL),
			ASK_TIMEOUT, &answer, &error);
	if (r < 0) {
		request_explain(line, line->subject, &error);
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return r == -ESRCH ? EXIT_NOT_RUNNING : EXIT_FAILURE;
	}
	(void)printf("%s is %s\n", line->subject, end ? "resumed" : "released");
	return fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int command_release(const struct command_line *line)
{
	return change(line, false);
}

int command_resume(const struct command_line *line)
{
	return change(line, true);
}
