/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confirms that the failed devices of a resource are broken, so that their pods are evicted
 * although devplugd held that.
 */
#include "supervisor/control/ask.h"
#include "supervisor/ctl/verb.h"

static int evict(const struct command_line *line, struct error *error)
{
	_cleanup_free_ char *runtime_dir = NULL;
	json_auto_t *answer = NULL;
	const json_t *device;
	size_t i;
	int r;

	r = command_line_runtime_dir(line, &runtime_dir, error);
	if (r < 0)
		return r;
	r = ask_daemon(runtime_dir, line->verb, json_pack("{s:s}", "resource", line->subject),
		ASK_TIMEOUT, &answer, error);
	if (r < 0) {
		request_explain(line, line->subject, error);
		return r;
	}
	json_array_foreach(json_object_get(answer, "devices"), i, device)(void)
		printf("the eviction of the pods of %s of %s is confirmed\n",
			json_string_value(device) ?: "", line->subject);
	return 0;
}

int command_evict(const struct command_line *line)
{
	struct error error = { 0 };
	int r = evict(line, &error);

	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return r == -ESRCH ? EXIT_NOT_RUNNING : EXIT_FAILURE;
	}
	return fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
