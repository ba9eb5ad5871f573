/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a resource close its devices (devplugctl release), so that a driver can be unloaded. The
 * process of the resource does it and does not answer: a program that it kills keeps the files
 * open.
 */
#include "supervisor/release.h"

#include "common/control-child.h"
#include "drivers/model/driver.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"

int release_request(struct request *request, json_t **ret_answer, struct error *error)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_RELEASE);
	const json_t *end = json_object_get(request->arguments, "end");
	const char *name, *reset;
	const struct declaration *declaration;
	const struct child *child;
	int r;

	r = request_string(request, "resource", &name, error);
	if (r >= 0)
		r = request_string(request, "reset", &reset, error);
	if (r < 0)
		return r;
	if (reset && (!json_is_true(end) || strlen(reset) > DEVICE_ID_MAX))
		return error_set(error, -EINVAL, "\"reset\" must be a device, and needs \"end\"");
	if (end && !json_is_boolean(end))
		return error_set(error, -EINVAL, "\"end\" must be true or false");
	child = name ? manager_find_child(request->manager, name) : NULL;
	declaration = child ? child_declaration(child) : NULL;
	if (!declaration)
		return error_set(error, -ENOENT, "there is no resource \"%s\"", name ?: "");
	if (!declaration->driver->release)
		return error_set(error, -EOPNOTSUPP,
			"%s has nothing to release: driver \"%s\" keeps no device open", name,
			declaration->driver->name);
	if (child->process.control_fd < 0)
		return error_set(
			error, -ESRCH, "%s has nothing to release: its process does not run", name);
	message.phase = json_is_true(end) ? CHILD_RELEASE_END : CHILD_RELEASE_BEGIN;
	(void)snprintf(message.text, sizeof(message.text), "%s", reset ?: "");
	r = control_send(child->process.control_fd, &message);
	if (r < 0)
		return error_set(
			error, r, "cannot send to the process of %s: %s", name, strerror(-r));
	*ret_answer = json_object();
	return *ret_answer ? 0 : error_set(error, -ENOMEM, "out of memory");
}
