/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes and reopens a resource's devices. Both commands are one request to the daemon.
 */
#include "supervisor/control/ask.h"
#include "supervisor/ctl/daemon-state.h"
#include "supervisor/ctl/verb.h"

/* A device that was reset must be one of the resource. */
static int check_device(const struct request *request, struct error *error)
{
	_cleanup_(snapshot_done) struct snapshot snapshot = { 0 };
	const json_t *devices;
	const char *near;
	int r;

	r = snapshot_read(request->config_file, request->runtime_dir, &snapshot, error);
	if (r >= 0)
		r = snapshot_select(&snapshot, request->subject, error);
	if (r < 0)
		return r;
	devices = json_object_get(
		json_array_get(json_object_get(snapshot.root, "resources"), 0), "devices");
	for (size_t i = 0; i < json_array_size(devices); i++)
		if (streq(text_of(json_array_get(devices, i), "id"), request->reason))
			return 0;
	near = snapshot_suggest(devices, "id", request->reason);
	return error_set(error, -ENOENT, "%s has no device \"%s\"%s%s%s", request->subject,
		request->reason, near ? ", did you mean \"" : "; see \"devplugctl devices\"",
		near ?: "", near ? "\"?" : "");
}

static int change(const struct request *request, bool end)
{
	_cleanup_free_ char *runtime_dir = NULL;
	json_auto_t *answer = NULL;
	struct error error = { 0 };
	int r;

	r = request_runtime_dir(request, &runtime_dir, &error);
	if (r >= 0 && request->reason)
		r = check_device(request, &error);
	if (r >= 0)
		r = ask_daemon(runtime_dir, "release",
			json_pack("{s:s, s:b, s:s*}", "resource", request->subject, "end", end,
				"reset", request->reason),
			ASK_TIMEOUT, &answer, &error);
	if (r < 0) {
		request_explain(request, request->subject, &error);
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return r == -ESRCH ? EXIT_NOT_RUNNING : EXIT_FAILURE;
	}
	(void)printf("%s is %s\n", request->subject, end ? "resumed" : "released");
	return fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int command_release(const struct request *request)
{
	return change(request, false);
}

int command_resume(const struct request *request)
{
	return change(request, true);
}
