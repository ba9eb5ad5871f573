/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a resource close its devices (devplugctl release), so that a driver can be unloaded. Ends
 * that, or has a device tested or cleaned again (devplugctl resume). The process of the resource
 * does it and does not answer: a program that it kills keeps the files open.
 */
#include "supervisor/release.h"

#include "common/control-child.h"
#include "drivers/model/driver.h"
#include "supervisor/books/cleaning.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"

/* Reads which device, NULL: none, and what is to be done. */
static int read_phase(const struct request *request, const char **ret_reset,
	enum child_release_phase *ret_phase, struct error *error)
{
	const json_t *end = json_object_get(request->arguments, "end");
	const json_t *untested = json_object_get(request->arguments, "untested");
	const char *reset;
	int r = request_string(request, "reset", &reset, error);

	if (r < 0)
		return r;
	if (reset && (!json_is_true(end) || strlen(reset) > DEVICE_ID_MAX))
		return error_set(error, -EINVAL, "\"reset\" must be a device, and needs \"end\"");
	if (end && !json_is_boolean(end))
		return error_set(error, -EINVAL, "\"end\" must be true or false");
	if (untested && (!json_is_boolean(untested) || !reset))
		return error_set(
			error, -EINVAL, "\"untested\" must be true or false, and needs \"reset\"");
	*ret_reset = reset;
	*ret_phase = json_is_true(untested) ? CHILD_RELEASE_UNTESTED
		: json_is_true(end)         ? CHILD_RELEASE_END
					    : CHILD_RELEASE_BEGIN;
	return 0;
}

/* Whether the resource has what is to be released, or resumed. */
static int check_resource(const char *name, const struct declaration *declaration,
	enum child_release_phase phase, const char *reset, struct error *error)
{
	bool tested = phase != CHILD_RELEASE_BEGIN &&
		(declaration_tests(declaration) || declaration_cleans(declaration));

	if (phase == CHILD_RELEASE_UNTESTED && !tested)
		return error_set(error, -EOPNOTSUPP,
			"%s tests no device: no health probe has `on_recovery`, and it has no `release`",
			name);
	if (declaration->driver->release || (tested && reset))
		return 0;
	if (tested)
		return error_set(error, -EINVAL,
			"name the device of %s that is to be tested or cleaned again", name);
	return error_set(error, -EOPNOTSUPP,
		"%s has nothing to release: driver \"%s\" keeps no device open", name,
		declaration->driver->name);
}

int release_request(struct request *request, json_t **ret_answer, struct error *error)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_RELEASE);
	const char *name, *reset = NULL;
	enum child_release_phase phase = CHILD_RELEASE_BEGIN;
	const struct declaration *declaration;
	const struct child *child;
	int r;

	r = request_string(request, "resource", &name, error);
	if (r >= 0)
		r = read_phase(request, &reset, &phase, error);
	if (r < 0)
		return r;
	child = name ? manager_find_child(request->manager, name) : NULL;
	declaration = child ? child_declaration(child) : NULL;
	if (!declaration)
		return error_set(error, -ENOENT, "there is no resource \"%s\"", name ?: "");
	r = check_resource(name, declaration, phase, reset, error);
	if (r < 0)
		return r;
	if (child->process.control_fd < 0)
		return error_set(error, -EAGAIN,
			"%s has nothing to release: its process does not run", name);
	if (reset)
		(void)cleaning_resume(
			request->manager->cleaning, name, reset, phase == CHILD_RELEASE_UNTESTED);
	message.phase = phase;
	(void)snprintf(message.text, sizeof(message.text), "%s", reset ?: "");
	r = control_send(child->process.control_fd, &message);
	if (r < 0)
		return error_set(
			error, r, "cannot send to the process of %s: %s", name, strerror(-r));
	*ret_answer = json_object();
	return *ret_answer ? 0 : error_set(error, -ENOMEM, "out of memory");
}
