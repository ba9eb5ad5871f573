/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies a new configuration in three steps: load and check it; allocate everything that it needs;
 * apply it. After the second step a reload cannot fail as a whole. What happens to one resource is
 * decided in resource-update.c; plan.c lists the keys that differ, for the log and --diff.
 */
#include <malloc.h>
#include <systemd/sd-daemon.h>

#include "common/log.h"
#include "common/message-id.h"
#include "configuration/plan.h"
#include "supervisor/applied.h"
#include "supervisor/books/booked.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/config-watch.h"
#include "supervisor/files/published-files.h"
#include "supervisor/helpers/dra.h"
#include "supervisor/helpers/metrics.h"
#include "supervisor/keep-configuration.h"
#include "supervisor/log-report.h"
#include "supervisor/ownership/arbiter.h"
#include "supervisor/process/child-user.h"
#include "supervisor/reload.h"
#include "supervisor/restore-watch.h"
#include "supervisor/sessions/plugin-directory.h"

/* The change of one resource; the old and the new list together determine how many there are. */
struct change {
	struct child *child;
	int event; /* enum resource_event, _RESOURCE_EVENT_MAX: none */
	bool added;
	bool renew; /* the session is reopened: the kubelet's directory or the kind of registration
		       changes */
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
			.child = manager_find_child(manager, wanted->declaration.name),
			.event = _RESOURCE_EVENT_MAX,
		};
		if (!change->child) {
			int r = child_new(manager->child_host, wanted, &change->child);

			if (r < 0)
				return r;
			change->added = true;
			change->event = RESOURCE_START;
		}
		changes->count++;
	}
	for (size_t i = 0; i < manager->n_children; i++)
		if (!config_find(config, manager->children[i]->resource->name))
			changes->items[changes->count++] = (struct change){
				.child = manager->children[i],
				.event = manager->children[i]->leaving ? _RESOURCE_EVENT_MAX
								       : RESOURCE_STOP,
			};
	return 0;
}

/* Passes the new configuration to a resource that stays, and determines the event to apply it. */
static void update_child(struct change *change, const struct resource_config *wanted)
{
	struct resource *resource = change->child->resource;
	enum registration_way before = child_registration(change->child);

	change->event = resource_update(resource, wanted);
	change->renew = child_registration(change->child) != before;
	claimant_set_overlap(
		change->child->claimant, resource_applied(resource)->declaration.overlap);
	/* The resource was being removed, but the file contains it again. */
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
			config_find(manager->config, change->child->resource->name);

		children[i] = change->child;
		if (wanted && !change->added)
			update_child(change, wanted);
		change->added = false;
		change->child->leaving = !wanted;
		/* Its files are removed. */
		if (!wanted)
			proposal_end_process(change->child->proposal);
		claimant_set_rank(children[i]->claimant, i);
	}
	free(manager->children);
	manager->children = children;
	manager->n_children = changes->count;
}

static void notify_children(const struct manager *manager, const struct changes *changes)
{
	for (size_t i = 0; i < changes->count; i++) {
		const struct change *change = &changes->items[i];
		struct resource *resource = change->child->resource;

		if (change->event != _RESOURCE_EVENT_MAX || change->renew)
			change->child->changed_in = manager->generation;
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
		[REGISTRATION_DRA] = false,
	};

	for (size_t i = 0; i < changes->count; i++)
		changes->items[i].renew |= moved[child_registration(changes->items[i].child)];
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
	manager->accepted_at = now_usec(CLOCK_REALTIME);
	log_set_max_level(config->log_level);
	log_plan(manager, &plan);
	update_children(manager, &changes, TAKE_PTR(children));
	mark_moved(&changes, &old->kubelet, &config->kubelet);
	if (!streq(config->kubelet.device_plugin_dir, old->kubelet.device_plugin_dir) ||
		!streq(config->kubelet.plugins_registry_dir, old->kubelet.plugins_registry_dir)) {
		manager->write_access = (struct write_access){ 0 };
		(void)plugin_directory_watch(manager);
	}
	write_access_log(config);
	applied_configure(manager);
	restore_watch_configure(manager->restore_watch);
	if (!streq(config->cdi_dir, old->cdi_dir) ||
		!streq(config->device_info_dir, old->device_info_dir))
		for (size_t i = 0; i < manager->n_children; i++)
			proposal_publish_again(manager->children[i]->proposal);
	if (!streq(config->features_dir, old->features_dir) ||
		config->cluster.labels != old->cluster.labels)
		for (size_t i = 0; i < manager->n_children; i++)
			child_write_labels_again(manager->children[i]);
	arbiter_decide(manager->arbiter);
	metrics_configure(manager->metrics);
	dra_configure(manager->dra);
	booked_changed(manager->booked);
	notify_children(manager, &changes);
	keep_configuration(manager);
	return 0;
}

/* A process that works must not be stopped for one that cannot be started. */
static int check_users(
	const struct manager *manager, const struct config *config, struct report *report)
{
	int r = 0;

	for (size_t i = 0; i < config->n_resources; i++) {
		const struct declaration *wanted = &config->resources[i].declaration;
		const struct child *child = manager_find_child(manager, wanted->name);
		struct identity identity;
		struct error error = { 0 };

		if (child && wanted->user && !streq(wanted->user, child->resource->user ?: "") &&
			child_user_find(wanted->user, wanted->name, &identity, &error) < 0)
			r = report_add(report, &wanted->origin, "user", "%s", error.message);
	}
	return r;
}

static int load_files(struct manager *manager, struct report *report)
{
	struct config *config = NULL;
	int r;

	r = config_load(manager->config_file, report, &config);
	if (r >= 0)
		r = plan_check_kept(manager->config, config, manager->config_file, report);
	if (r >= 0)
		r = check_users(manager, config, report);
	if (r >= 0)
		r = take_over(manager, config);
	if (r < 0)
		(void)config_free(config);
	return r;
}

static int load_cordons(struct manager *manager, struct report *report)
{
	struct config *config = NULL;
	int r;

	r = config_load_cordons(manager->config, manager->config_file, report, &config);
	if (r >= 0)
		r = take_over(manager, config);
	if (r < 0)
		(void)config_free(config);
	return r;
}

/* Reports the result: `what` was loaded and applied, or failed with `r`. */
static void finish(struct manager *manager, const char *what, struct report *report, int r)
{
	const struct log_fields fields = {
		.config_file = manager->config_file,
		.generation = manager->generation,
		.message_id = r < 0 ? MESSAGE_ID_CONFIG_REJECTED : MESSAGE_ID_CONFIG_ACCEPTED,
	};

	if (r < 0) {
		log_report(report, manager->config_file);
		log_full(LOG_ERR, &fields, "%s rejected: %s; generation %llu stays applied", what,
			report->count > 0 ? "the messages before this one name each problem"
					  : strerror(-r),
			(unsigned long long)manager->generation);
	} else {
		log_full(LOG_NOTICE, &fields, "%s accepted as generation %llu", what,
			(unsigned long long)manager->generation);
	}
	manager_changed(manager);
	(void)malloc_trim(0);
}

void reload_run(struct manager *manager)
{
	_cleanup_report_ struct report report = { 0 };
	int r;

	(void)sd_notifyf(false, "RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=reloading",
		(unsigned long long)now_usec(CLOCK_MONOTONIC));
	r = load_files(manager, &report);
	manager->reload_failed = r < 0;
	manager->reloads++;
	if (r >= 0)
		manager->on_last_accepted = false;
	finish(manager, manager->config_file, &report, r);
	(void)sd_notify(false, "READY=1");
}

/* Whether its process serves, or could, and has opened and scanned what it was sent last. */
static bool has_opened(const struct child *child)
{
	const struct resource *resource = child->resource;

	return (resource->state == RESOURCE_WAITING || resource->state == RESOURCE_REGISTERING ||
		       resource->state == RESOURCE_SERVING) &&
		!child->leaving && !claimant_is_waiting(child->claimant) && child->reported &&
		!resource->sent;
}

static bool has_given_up(const struct resource *resource)
{
	return resource->state == RESOURCE_FAILED || resource->state == RESOURCE_BACKOFF;
}

/* Whether the resource has done, or given up for now, what a reload demands of it. */
static bool is_settled(const struct child *child)
{
	const struct resource *resource = child->resource;

	switch (resource->state) {
	case RESOURCE_WAITING:
	case RESOURCE_REGISTERING:
	case RESOURCE_SERVING:
		return resource->refused ||
			(has_opened(child) &&
				streq(resource->accepted->text, resource->wanted->text));
	default:
		return has_given_up(resource);
	}
}

/* The first resource that has not taken over a generation since `since`, or NULL. */
static const struct child *find_unsettled(const struct manager *manager, uint64_t since)
{
	for (size_t i = 0; i < manager->n_children; i++)
		if (manager->children[i]->changed_in >= since && !is_settled(manager->children[i]))
			return manager->children[i];
	return NULL;
}

static int begin_reload(struct request *request, struct error *error)
{
	struct manager *manager = request->manager;

	if (manager->stopping)
		return error_set(error, -ESHUTDOWN, "devplugd is stopping");
	config_watch_seen(manager->config_watch);
	reload_run(manager);
	if (manager->reload_failed)
		return error_set(error, -EINVAL,
			"devplugd refused the configuration, and generation %llu stays applied; see its log",
			(unsigned long long)manager->generation);
	request->memory = manager->generation;
	return REQUEST_LATER;
}

static int begin_cordons(struct request *request, struct error *error)
{
	_cleanup_report_ struct report report = { 0 };
	struct manager *manager = request->manager;
	int r;

	if (manager->stopping)
		return error_set(error, -ESHUTDOWN, "devplugd is stopping");
	config_watch_seen_cordons(manager->config_watch);
	r = load_cordons(manager, &report);
	finish(manager, "the list of cordons", &report, r);
	if (r < 0)
		return error_set(
			error, r, "%s", report.count > 0 ? report.entries[0].text : strerror(-r));
	request->memory = manager->generation;
	return REQUEST_LATER;
}

/* Answers when the resources that generation `request->memory` changes have settled. */
static int await_generation(struct request *request, json_t **ret_answer, struct error *error)
{
	struct manager *manager = request->manager;
	const struct child *child;

	child = find_unsettled(manager, request->memory);
	if (child && request->expired)
		return error_set(error, -ETIMEDOUT,
			"the configuration is applied, but %s is still %s; see \"devplugctl explain %s\"",
			child->resource->name, resource_state_name(child->resource),
			child->resource->name);
	if (child)
		return REQUEST_LATER;
	*ret_answer = json_pack("{s:I}", "generation", (json_int_t)manager->generation);
	return *ret_answer ? 0 : error_set(error, -ENOMEM, "out of memory");
}

int reload_request(struct request *request, json_t **ret_answer, struct error *error)
{
	return request->first ? begin_reload(request, error)
			      : await_generation(request, ret_answer, error);
}

int cordons_request(struct request *request, json_t **ret_answer, struct error *error)
{
	return request->first ? begin_cordons(request, error)
			      : await_generation(request, ret_answer, error);
}

/* --- rescans --- */

static bool is_named(const struct child *child, const char *name)
{
	return !name || streq(child->resource->name, name);
}

/* Makes the processes open their configuration again. Each child whose process does so stores the
 * number of the request. */
static int begin_rescans(struct request *request, const char *name, struct error *error)
{
	struct manager *manager = request->manager;

	if (manager->stopping)
		return error_set(error, -ESHUTDOWN, "devplugd is stopping");
	if (name && !manager_find_child(manager, name))
		return error_set(error, -ENOENT,
			"devplugd has no resource \"%s\"; see \"devplugctl status\"", name);
	request->memory = ++manager->rescans;
	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];

		if (is_named(child, name) && resource_reopen(child->resource))
			child->rescan = request->memory;
	}
	manager_changed(manager);
	return REQUEST_LATER;
}

/* A resource that the request made scan and that has neither done it nor given up, or NULL. */
static const struct child *find_scanning(const struct request *request, const char *name)
{
	const struct manager *manager = request->manager;

	for (size_t i = 0; i < manager->n_children; i++) {
		const struct child *child = manager->children[i];

		if (is_named(child, name) && child->rescan >= request->memory &&
			!has_opened(child) && !has_given_up(child->resource))
			return child;
	}
	return NULL;
}

static int answer_rescan(
	const struct request *request, const char *name, json_t **ret_answer, struct error *error)
{
	const struct manager *manager = request->manager;
	json_auto_t *scanned = json_array(), *not_scanned = json_array();

	for (size_t i = 0; i < manager->n_children; i++) {
		const struct child *child = manager->children[i];
		bool done = child->rescan >= request->memory && has_opened(child);

		if (is_named(child, name))
			(void)json_array_append_new(
				done ? scanned : not_scanned, json_string(child->resource->name));
	}
	if (name && json_array_size(scanned) == 0)
		return error_set(error, -EAGAIN,
			"%s has no process that could scan now; see \"devplugctl explain %s\"",
			name, name);
	*ret_answer = json_pack("{s:O, s:O}", "resources", scanned, "not_scanned", not_scanned);
	return *ret_answer ? 0 : error_set(error, -ENOMEM, "out of memory");
}

int rescan_request(struct request *request, json_t **ret_answer, struct error *error)
{
	const struct child *child;
	const char *name;
	int r;

	r = request_string(request, "resource", &name, error);
	if (r >= 0 && request->first)
		r = begin_rescans(request, name, error);
	if (r < 0)
		return r;
	child = find_scanning(request, name);
	if (child && request->expired)
		return error_set(
			error, -ETIMEDOUT, "%s has not scanned yet", child->resource->name);
	if (child)
		return REQUEST_LATER;
	return answer_rescan(request, name, ret_answer, error);
}
