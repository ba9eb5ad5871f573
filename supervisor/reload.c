/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In three steps, each complete before the next: load and check; allocate all that the new
 * generation needs; apply, which cannot fail as a whole any more. Resources are matched by name.
 */
#include <systemd/sd-daemon.h>

#include "common/log.h"
#include "common/message-id.h"
#include "manager.h"
#include "reload.h"

/* What becomes of one resource; the plan is as long as the old and the new list together. */
struct change {
	struct child *child;
	int event; /* enum resource_event, _RESOURCE_EVENT_MAX: none */
	bool added;
};

struct plan {
	struct change *changes;
	size_t count;
};

static void plan_done(struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		if (plan->changes[i].added)
			(void)child_free(plan->changes[i].child);
	free(plan->changes);
}

static void log_report(const struct report *report, const char *file)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct origin *origin = &report->entries[i].origin;
		const struct log_fields fields = {
			.message_id = MESSAGE_ID_CONFIG_REJECTED,
			.config_file = origin->file ?: file,
			.config_line = origin->line,
		};

		log_full(LOG_ERR, &fields, "%s:%u: %s", fields.config_file, origin->line,
			report->entries[i].text);
	}
}

static struct child *find_child(const struct manager *manager, const char *name)
{
	for (size_t i = 0; i < manager->n_children; i++)
		if (streq(manager->children[i]->resource->name, name))
			return manager->children[i];
	return NULL;
}

static const struct resource_config *find_config(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_resources; i++)
		if (streq(config->resources[i].declaration.name, name))
			return &config->resources[i];
	return NULL;
}

static int make_plan(struct manager *manager, const struct config *config, struct plan *plan)
{
	plan->changes =
		calloc(config->n_resources + manager->n_children + 1, sizeof(struct change));
	if (!plan->changes)
		return -ENOMEM;
	for (size_t i = 0; i < config->n_resources; i++) {
		const struct resource_config *wanted = &config->resources[i];
		struct change *change = &plan->changes[plan->count];

		*change = (struct change){
			.child = find_child(manager, wanted->declaration.name),
			.event = _RESOURCE_EVENT_MAX,
		};
		if (!change->child) {
			int r = child_new(manager, wanted, &change->child);

			if (r < 0)
				return r;
			change->added = true;
			change->event = RESOURCE_START;
		}
		plan->count++;
	}
	for (size_t i = 0; i < manager->n_children; i++)
		if (!find_config(config, manager->children[i]->resource->name))
			plan->changes[plan->count++] = (struct change){
				.child = manager->children[i],
				.event = manager->children[i]->leaving ? _RESOURCE_EVENT_MAX
								       : RESOURCE_STOP,
			};
	return 0;
}

/* Copies the new text into a resource that stays and learns what that takes. */
static void update_child(struct change *change, const struct resource_config *wanted)
{
	const struct log_fields fields = { .resource = change->child->resource->name };
	int r;

	r = resource_update(change->child->resource, wanted);
	if (r < 0)
		log_full(LOG_ERR, &fields, "out of memory; the resource keeps its configuration");
	else
		change->event = r;
	/* It was about to go, and is wanted again. */
	if (change->child->leaving)
		change->event = RESOURCE_START;
}

static int apply(struct manager *manager, struct plan *plan)
{
	_cleanup_free_ struct child **children = calloc(plan->count + 1, sizeof(struct child *));
	static const struct {
		const char *word;
		int event;
	} words[] = {
		{ "added", RESOURCE_START },
		{ "removed", RESOURCE_STOP },
		{ "changed", RESOURCE_CONFIGURE },
		{ "to be restarted (another user)", RESOURCE_RESTART },
	};

	if (!children)
		return -ENOMEM;
	for (size_t i = 0; i < plan->count; i++) {
		struct change *change = &plan->changes[i];
		const struct resource_config *wanted =
			find_config(manager->config, change->child->resource->name);

		children[i] = change->child;
		if (wanted && !change->added)
			update_child(change, wanted);
		change->added = false;
		change->child->leaving = !wanted;
	}
	free(manager->children);
	manager->children = TAKE_PTR(children);
	manager->n_children = plan->count;

	for (size_t i = 0; i < plan->count; i++) {
		const struct change *change = &plan->changes[i];
		const struct log_fields fields = {
			.resource = change->child->resource->name,
			.generation = manager->generation,
		};

		for (size_t k = 0; k < ARRAY_SIZE(words); k++)
			if (words[k].event == change->event)
				log_full(LOG_NOTICE, &fields, "%s", words[k].word);
		if (change->event != _RESOURCE_EVENT_MAX)
			resource_handle(
				change->child->resource, (enum resource_event)change->event, NULL);
	}
	return 0;
}

/* A different plugin directory means a different kubelet for every session. */
static void move_to_directory(struct manager *manager)
{
	if (manager_watch_kubelet(manager) < 0)
		return;
	for (size_t i = 0; i < manager->n_children; i++)
		resource_handle(manager->children[i]->resource, RESOURCE_RENEW, NULL);
}

static int take_over(struct manager *manager, struct config *config)
{
	_cleanup_(plan_done) struct plan plan = { 0 };
	_cleanup_config_ struct config *old = NULL;
	int r;

	r = make_plan(manager, config, &plan);
	if (r < 0)
		return r;
	if (!streq(config->runtime_dir, manager->config->runtime_dir))
		log_warning("`runtime_dir` is now %s; that takes effect when devplugd is restarted",
			config->runtime_dir);
	old = manager->config;
	manager->config = config;
	r = apply(manager, &plan);
	if (r < 0) {
		manager->config = TAKE_PTR(old);
		return r;
	}
	manager->generation++;
	log_set_max_level(config->log_level);
	if (!streq(config->kubelet.device_plugin_dir, old->kubelet.device_plugin_dir))
		move_to_directory(manager);
	return 0;
}

void manager_reload(struct manager *manager)
{
	struct report report = { 0 };
	struct config *config = NULL;
	struct log_fields fields = { .config_file = manager->config_file };
	int r;

	(void)sd_notifyf(false, "RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=reloading",
		(unsigned long long)now_usec(CLOCK_MONOTONIC));
	r = config_load(manager->config_file, &report, &config);
	if (r >= 0) {
		r = take_over(manager, config);
		if (r < 0)
			(void)config_free(config);
	}
	fields.generation = manager->generation;
	fields.message_id = r < 0 ? MESSAGE_ID_CONFIG_REJECTED : MESSAGE_ID_CONFIG_ACCEPTED;
	manager->reload_failed = r < 0;
	if (r < 0) {
		log_report(&report, manager->config_file);
		log_full(LOG_ERR, &fields, "%s rejected (%s); generation %llu stays in force",
			manager->config_file, report.count > 0 ? "see above" : strerror(-r),
			(unsigned long long)manager->generation);
	} else {
		log_full(LOG_NOTICE, &fields, "%s accepted as generation %llu",
			manager->config_file, (unsigned long long)manager->generation);
	}
	report_done(&report);
	manager_changed(manager);
	(void)sd_notify(false, "READY=1");
}
