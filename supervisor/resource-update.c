/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a changed configuration does to a resource: nothing, a new configuration for the
 * live process, or a new process. It also makes, describes and frees a resource, which keeps copies
 * of what it needs, so that configurations can be replaced.
 */
#include "supervisor/resource.h"

static const char *const state_names[_RESOURCE_STATE_MAX] = {
	[RESOURCE_STOPPED] = "stopping",
	[RESOURCE_STARTING] = "waiting",
	[RESOURCE_WAITING] = "waiting",
	[RESOURCE_REGISTERING] = "registering",
	[RESOURCE_SERVING] = "serving",
	[RESOURCE_ENDING] = "registering",
	[RESOURCE_FAILED] = "failed",
	[RESOURCE_BACKOFF] = "backoff",
	[RESOURCE_DYING] = "backoff",
	[RESOURCE_RESTARTING] = "stopping",
	[RESOURCE_STOPPING] = "stopping",
};

static int replace(char **slot, const char *value)
{
	char *copy = value ? strdup(value) : NULL;

	if (value && !copy)
		return -ENOMEM;
	free(*slot);
	*slot = copy;
	return 0;
}

static bool same(const char *a, const char *b)
{
	return a && b ? streq(a, b) : a == b;
}

int resource_update(struct resource *resource, const struct resource_config *config)
{
	const struct declaration *declaration = &config->declaration;
	bool text_changed = !same(resource->wanted, config->text);
	bool user_changed = !same(resource->user, declaration->user);
	_cleanup_free_ char *driver = strdup(declaration->driver_name);
	_cleanup_free_ char *text = strdup(config->text);

	if (!driver || !text || replace(&resource->user, declaration->user) < 0)
		return -ENOMEM;
	free(resource->driver);
	resource->driver = TAKE_PTR(driver);
	free(resource->wanted);
	resource->wanted = TAKE_PTR(text);
	memset(resource->refusals_logged, 0, sizeof(resource->refusals_logged));

	resource->runs_programs = declaration_runs_programs(declaration);
	if (user_changed || (resource->runs_programs && resource->confined)) {
		resource->refused = false;
		return RESOURCE_RESTART;
	}
	if (text_changed || resource->refused || resource->state == RESOURCE_FAILED) {
		resource->refused = false;
		return RESOURCE_CONFIGURE;
	}
	return _RESOURCE_EVENT_MAX;
}

int resource_new(const struct resource_config *config, const struct resource_operations *operations,
	void *userdata, struct resource **ret)
{
	_cleanup_(resource_freep) struct resource *resource = calloc(1, sizeof(*resource));

	if (!resource)
		return -ENOMEM;
	resource->operations = operations;
	resource->userdata = userdata;
	resource->since = now_usec(CLOCK_REALTIME);
	resource->name = strdup(config->declaration.name);
	if (!resource->name || resource_update(resource, config) < 0)
		return -ENOMEM;
	*ret = TAKE_PTR(resource);
	return 0;
}

const char *resource_state_name(const struct resource *resource)
{
	return state_names[resource->state];
}

void resource_explain(struct resource *resource, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(resource->reason, sizeof(resource->reason), format, ap);
	va_end(ap);
	resource->operations->changed(resource->userdata);
}

struct resource *resource_free(struct resource *resource)
{
	if (!resource)
		return NULL;
	free(resource->name);
	free(resource->driver);
	free(resource->user);
	free(resource->wanted);
	free(resource->sent);
	free(resource->accepted);
	failure_done(resource->failures);
	free(resource);
	return NULL;
}
