/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes and reopens a resource's devices. Both commands are one request to the daemon.
 */
#include "supervisor/ctl/verb.h"
#include "supervisor/daemon.h"

static int change(const struct request *request, bool end)
{
	_cleanup_free_ char *runtime_dir = NULL;
	json_auto_t *answer = NULL;
	struct error error = { 0 };
	int r;

	r = request_runtime_dir(request, &runtime_dir, &error);
	if (r >= 0)
		r = daemon_ask(runtime_dir, "release",
			json_pack("{s:s, s:b}", "resource", request->subject, "end", end),
			DAEMON_ANSWER_TIMEOUT, &answer, &error);
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
