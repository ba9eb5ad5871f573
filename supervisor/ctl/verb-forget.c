/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drops a device that is listed only because the kubelet's data assign it to a pod: the remedy
 * where these data are permanently wrong.
 */
#include "supervisor/control/ask.h"
#include "supervisor/ctl/verb.h"

/* Splits "vendor.example/gpu/DEVICE"; DEVICE may contain more slashes. */
static int split(const char *subject, char **ret_resource, const char **ret_device)
{
	const char *slash = strchr(subject, '/');

	slash = slash ? strchr(slash + 1, '/') : NULL;
	if (!slash || !slash[1])
		return -EINVAL;
	*ret_resource = strndup(subject, (size_t)(slash - subject));
	*ret_device = slash + 1;
	return *ret_resource ? 0 : -ENOMEM;
}

static int forget(const struct command_line *line, struct error *error)
{
	_cleanup_free_ char *runtime_dir = NULL, *resource = NULL;
	json_auto_t *answer = NULL;
	const json_t *ids, *id;
	const char *device;
	size_t i;
	int r;

	r = split(line->subject, &resource, &device);
	if (r < 0)
		return error_set(error, r, "\"%s\" is not RESOURCE/DEVICE", line->subject);
	r = command_line_runtime_dir(line, &runtime_dir, error);
	if (r < 0)
		return r;
	r = ask_daemon(runtime_dir, line->verb,
		json_pack("{s:s, s:s}", "resource", resource, "device", device), ASK_TIMEOUT,
		&answer, error);
	if (r < 0) {
		request_explain(line, resource, error);
		return r;
	}
	ids = json_object_get(answer, "forgotten");
	json_array_foreach(ids, i, id)(void) printf("%s of %s counts as not assigned to a pod\n",
		json_string_value(id) ?: "", resource);
	return 0;
}

int command_forget(const struct command_line *line)
{
	struct error error = { 0 };
	int r = forget(line, &error);

	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return r == -ESRCH ? EXIT_NOT_RUNNING : EXIT_FAILURE;
	}
	return fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
