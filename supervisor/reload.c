/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In three steps, each complete before the next: load and check; allocate all that the new
 * generation needs; apply, which cannot fail as a whole any more. Resources are matched by name.
 */
#include <systemd/sd-daemon.h>

#include "child-claims.h"
#include "child-publish.h"
#include "common/log.h"
#include "common/message-id.h"
#include "config/plan.h"
#include "log-report.h"
#include "manager.h"
#include "reload.h"

/* What becomes of one resource; there are as many as the old and the new list have together. */
struct change {
	struct child *child;
	int event; /* enum resource_event, _RESOURCE_EVENT_MAX: none */
	bool added;
	bool renew; /* the kubelet is to be met elsewhere or in another way */
};

struct changes {
	struct change *items;
	size_t count;
};

static void changes_done(struct changes *changes)
{
	for (size_t i = 0; i < changes->count; i++)
		if (changes->items[i].added)
			(void)child_free(changes->items[i].child);
	free(changes->items);
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

static int make_changes(
	struct manager *manager, const struct config *config, struct changes *changes)
{
	changes->items =
		calloc(config->n_resources + manager->n_children + 1, sizeof(struct change));
	if (!changes->items)
		return -ENOMEM;
	for (size_t i = 0; i < config->n_resources; i++) {
		const struct resource_config *wanted = &config->resources[i];
		struct change *change = &changes->items[changes->count];

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
		changes->count++;
	}
	for (size_t i = 0; i < manager->n_children; i++)
		if (!find_config(config, manager->children[i]->resource->name))
			changes->items[changes->count++] = (struct change){
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
	change->renew = change->child->registration != wanted->registration;
	change->child->registration = wanted->registration;
	change->child->overlap = wanted->declaration.overlap;
	/* It was about to go, and is wanted again. */
	if (change->child->leaving)
		change->event = RESOURCE_START;
}

/* Puts the new list of children in place of the old one. */
static void update_children(
	struct manager *manager, struct changes *changes, struct child **children)
{
	for (size_t i = 0; i < changes->count; i++) {
		struct change *change = &changes->items[i];
		const struct resource_config *wanted =
			find_config(manager->config, change->child->resource->name);

		children[i] = change->child;
		if (wanted && !change->added)
			update_child(change, wanted);
		change->added = false;
		change->child->leaving = !wanted;
	}
	free(manager->children);
	manager->children = children;
	manager->n_children = changes->count;
}

static void tell_children(const struct changes *changes)
{
	for (size_t i = 0; i < changes->count; i++) {
		const struct change *change = &changes->items[i];
		struct resource *resource = change->child->resource;

		if (change->event != _RESOURCE_EVENT_MAX)
			resource_handle(resource, (enum resource_event)change->event, NULL);
		if (change->renew && !change->child->leaving)
			resource_handle(resource, RESOURCE_RENEW, NULL);
	}
}

/* A different directory means a different kubelet for every session there. */
static void mark_moved(
	struct changes *changes, const struct kubelet_config *from, const struct kubelet_config *to)
{
	const bool moved[] = {
		[REGISTRATION_SOCKET] = !streq(from->device_plugin_dir, to->device_plugin_dir),
		[REGISTRATION_WATCHER] =
			!streq(from->plugins_registry_dir, to->plugins_registry_dir),
	};

	for (size_t i = 0; i < changes->count; i++)
		changes->items[i].renew |= moved[changes->items[i].child->registration];
}

static void log_plan(const struct manager *manager, const struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		const struct log_fields fields = {
			.resource = plan->lines[i].name,
			.named = true,
			.message_id = MESSAGE_ID_CONFIG_PLAN,
			.generation = manager->generation,
		};

		log_full(LOG_NOTICE, &fields, "%s", plan->lines[i].text);
	}
}

/* Takes the configuration on success. */
static int take_over(struct manager *manager, struct config *config)
{
	_cleanup_(changes_done) struct changes changes = { 0 };
	_cleanup_plan_ struct plan plan = { 0 };
	_cleanup_free_ struct child **children = NULL;
	_cleanup_config_ struct config *old = NULL;
	int r;

	r = plan_make(manager->config, config, &plan);
	if (r >= 0)
		r = make_changes(manager, config, &changes);
	if (r < 0)
		return r;
	children = calloc(changes.count + 1, sizeof(struct child *));
	if (!children)
		return -ENOMEM;

	old = manager->config;
	manager->config = config;
	manager->generation++;
	log_set_max_level(config->log_level);
	log_plan(manager, &plan);
	update_children(manager, &changes, TAKE_PTR(children));
	mark_moved(&changes, &old->kubelet, &config->kubelet);
	if (!streq(config->kubelet.device_plugin_dir, old->kubelet.device_plugin_dir) ||
		!streq(config->kubelet.plugins_registry_dir, old->kubelet.plugins_registry_dir))
		(void)manager_watch_kubelet(manager);
	published_configure(manager->published, config);
	if (!streq(config->cdi_dir, old->cdi_dir) ||
		!streq(config->device_info_dir, old->device_info_dir))
		for (size_t i = 0; i < manager->n_children; i++)
			child_publish_again(manager->children[i]);
	manager_decide_owners(manager);
	pod_resources_look(manager->pods);
	tell_children(&changes);
	manager_keep_configuration(manager);
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
	manager->reloads++;
	if (r >= 0)
		manager->on_last_accepted = false;
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
	manager_rest_soon(manager);
	(void)sd_notify(false, "READY=1");
}
