/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a changed configuration does to a resource: nothing, a new configuration for the
 * live process, or a new process. It also makes, describes and frees a resource, which keeps copies
 * of what it needs, so that configurations can be replaced.
 */
#include "supervisor/children/resource.h"

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

static bool same(const char *a, const char *b)
{
	return a && b ? streq(a, b) : a == b;
}

bool resource_needs_process(const struct resource *resource, const struct resource_config *config)
{
	return resource->child &&
		(!same(resource->user, config->declaration.user) ||
			(resource->confined && declaration_runs_programs(&config->declaration)));
}

const struct resource_config *resource_applied(const struct resource *resource)
{
	return resource->accepted ?: resource->wanted;
}

static void take(const struct resource_config **slot, const struct resource_config *config)
{
	(void)resource_config_ref(config);
	(void)resource_config_unref(*slot);
	*slot = config;
}

void resource_accept(struct resource *resource, const struct resource_config *config)
{
	_cleanup_resource_config_ const struct resource_config *before =
		resource_config_ref(resource_applied(resource));
	bool changed = !resource->accepted || !streq(before->text, config->text);

	take(&resource->accepted, config);
	if (changed)
		resource->operations->applied(before, resource->userdata);
}

void resource_publishes(struct resource *resource)
{
	if (resource->state == RESOURCE_STARTING && resource->sent)
		resource_accept(resource, resource->sent);
}

enum resource_event resource_update(struct resource *resource, const struct resource_config *config)
{
	bool text_changed = !streq(resource->wanted->text, config->text);

	take(&resource->wanted, config);
	/* An equal text of a newer configuration, which may register it in another way. */
	if (resource->accepted && streq(resource->accepted->text, config->text))
		take(&resource->accepted, config);
	if (resource->sent && streq(resource->sent->text, config->text))
		take(&resource->sent, config);
	memset(resource->refusals_logged, 0, sizeof(resource->refusals_logged));

	if (resource_needs_process(resource, config)) {
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
	if (!resource->name)
		return -ENOMEM;
	take(&resource->wanted, config);
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
	free(resource->user);
	(void)resource_config_unref(resource->wanted);
	(void)resource_config_unref(resource->sent);
	(void)resource_config_unref(resource->accepted);
	failure_done(resource->failures);
	free(resource);
	return NULL;
}
