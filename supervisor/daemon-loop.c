/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the daemon: starts and connects all parts, serves until a signal, and decides when state is
 * written. It knows all parts, and no part knows it. No failure after the start ends it: an action
 * that fails is repeated later or logged. Children are freed only when their resource has stopped,
 * from the flush and never from one of their own callbacks.
 */
#include "supervisor/daemon-loop.h"

#include <malloc.h>
#include <signal.h>
#include <systemd/sd-daemon.h>

#include "common/control-kubelet-client.h"
#include "common/log.h"
#include "common/message-id.h"
#include "supervisor/applied.h"
#include "supervisor/books/booked.h"
#include "supervisor/books/cleaning.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/plugin-metadata.h"
#include "supervisor/books/pod-assignments.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/books/renew-checkpoint.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/children/registrations.h"
#include "supervisor/config-watch.h"
#include "supervisor/control/events.h"
#include "supervisor/control/request-server.h"
#include "supervisor/eviction/eviction.h"
#include "supervisor/files/published-files.h"
#include "supervisor/files/runtime-files.h"
#include "supervisor/helpers/dra.h"
#include "supervisor/helpers/metrics.h"
#include "supervisor/keep-configuration.h"
#include "supervisor/kubelet/kubelet-watch.h"
#include "supervisor/kubelet/write-access.h"
#include "supervisor/ownership/arbiter.h"
#include "supervisor/process/child-user.h"
#include "supervisor/process/orphans.h"
#include "supervisor/process/spawn-template.h"
#include "supervisor/reload.h"
#include "supervisor/restore-watch.h"
#include "supervisor/sessions/kept-sockets.h"
#include "supervisor/sessions/offer-check.h"
#include "supervisor/sessions/plugin-directory.h"
#include "supervisor/sessions/session-check.h"
#include "supervisor/start-wait.h"
#include "supervisor/status.h"

/* A child has RESOURCE_END_TIMEOUT before it is killed. */
#define STOP_DEADLINE (RESOURCE_END_TIMEOUT + 3 * USEC_PER_SEC)

static bool all_stopped(const struct manager *manager)
{
	for (size_t i = 0; i < manager->n_children; i++)
		if (manager->children[i]->resource->state != RESOURCE_STOPPED)
			return false;
	return auxiliaries_stopped(manager);
}

static bool anybody_waits(const struct manager *manager)
{
	for (size_t i = 0; i < manager->n_children; i++)
		if (manager->children[i]->resource->state == RESOURCE_WAITING)
			return true;
	return false;
}

static void free_left(struct manager *manager)
{
	size_t kept = 0;

	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];

		if (child->leaving && child->resource->state == RESOURCE_STOPPED) {
			child_forget_saved(child);
			(void)child_free(child);
		} else
			manager->children[kept++] = child;
	}
	if (kept == manager->n_children)
		return;
	manager->n_children = kept;
	evictions_drop_removed(manager->evictions);
	booked_resources_changed(manager->booked);
}

static void plan(sd_event_source *timer, uint64_t at)
{
	(void)sd_event_source_set_time(timer, at);
	(void)sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

/* A resource that could not apply its configuration has no devices. */
static void drop_claims_of_failed(struct manager *manager)
{
	for (size_t i = 0; i < manager->n_children; i++)
		if (manager->children[i]->resource->state == RESOURCE_FAILED)
			claimant_drop_claims(manager->children[i]->claimant);
}

/* Writes files that could not be written earlier, for example because the disk was full. Returns
 * whether all are written. */
static bool write_left(struct manager *manager)
{
	bool list = published_save_list(manager->published);
	bool claims = dra_claims_write_left(manager->dra_claims);
	bool evictions = evictions_write_left(manager->evictions);

	if (manager->keep_failed)
		keep_configuration(manager);
	return list && claims && evictions && !manager->keep_failed;
}

static void flush(struct manager *manager)
{
	uint64_t again = plugin_metadata_write(manager->plugin_metadata, false);
	char summary[256];

	drop_claims_of_failed(manager);
	kubelet_watch_set_waiting(manager->watch, anybody_waits(manager));
	offer_check_plan(manager->offer_check);
	dra_send_changes(manager->dra);
	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];
		uint64_t save = child_save(child);
		uint64_t send = dra_send_devices(manager->dra, child);

		again = MIN_OF(again, MIN_OF(save, send));
	}
	status_summary(manager, summary, sizeof(summary));
	(void)sd_notifyf(false, "STATUS=%s", summary);
	manager->last_flush = now_usec(CLOCK_MONOTONIC);
	manager->n_flushes++;
	if (!write_left(manager))
		again = MIN_OF(again, manager->last_flush + SAVED_HEALTH_RETRY);
	if (again != USEC_INFINITY)
		plan(manager->flush, again);
}

static int on_flush(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *manager = userdata;

	free_left(manager);
	if (!manager->stopping)
		flush(manager);
	else if (all_stopped(manager))
		return sd_event_exit(manager->event, 0);
	request_server_changed(manager->requests);
	return 0;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *manager = userdata;

	log_warning("some children could not be stopped; leaving them to the kernel");
	return sd_event_exit(manager->event, 0);
}

static void stop(struct manager *manager)
{
	if (manager->stopping)
		return;
	manager->stopping = true;
	log_notice("stopping");
	(void)sd_notify(false, "STOPPING=1\nSTATUS=stopping");
	kubelet_watch_stop(manager->watch);
	session_check_stop(manager->session_check);
	arbiter_stop(manager->arbiter);
	for (size_t i = 0; i < manager->n_children; i++)
		resource_handle(manager->children[i]->resource, RESOURCE_STOP, NULL);
	auxiliaries_stop(manager);
	spawn_template_dismiss(manager->program.template);
	/* The kernel takes 20 ms to close an inotify instance, so this is done while the children
	 * end. */
	restore_watch_stop(manager->restore_watch);
	config_watch_stop(manager->config_watch);
	booked_stop(manager->booked);
	plan(manager->deadline, now_usec(CLOCK_MONOTONIC) + STOP_DEADLINE);
	manager_changed(manager);
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	stop(userdata);
	return 0;
}

static int on_end(sd_event_source *source, void *userdata)
{
	stop(userdata);
	return 0;
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct manager *manager = userdata;

	if (!manager->stopping) {
		config_watch_seen(manager->config_watch);
		reload_run(manager);
	}
	return 0;
}

static void on_configuration_changed(void *userdata)
{
	(void)on_reload(NULL, NULL, userdata);
}

int daemon_loop_watch_configuration(struct manager *manager)
{
	return config_watch_new(manager->event, manager->config_file, on_configuration_changed,
		manager, &manager->config_watch);
}

static int add_sources(struct manager *manager)
{
	static const struct {
		int signal;
		sd_event_signal_handler_t handler;
	} signals[] = {
		{ SIGTERM, on_stop },
		{ SIGINT, on_stop },
		{ SIGHUP, on_reload },
	};
	const struct {
		sd_event_source **source;
		uint64_t accuracy;
		sd_event_time_handler_t handler;
	} timers[] = {
		{ &manager->flush, USEC_PER_MSEC, on_flush },
		{ &manager->deadline, 100 * USEC_PER_MSEC, on_deadline },
	};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		r = sd_event_add_signal(
			manager->event, NULL, signals[i].signal, signals[i].handler, manager);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(timers); i++) {
		r = sd_event_add_time(manager->event, timers[i].source, CLOCK_MONOTONIC,
			USEC_INFINITY, timers[i].accuracy, timers[i].handler, manager);
		if (r < 0)
			return r;
	}
	r = sd_event_add_defer(manager->event, &manager->end, on_end, manager);
	if (r >= 0)
		r = sd_event_source_set_enabled(manager->end, SD_EVENT_OFF);
	if (r < 0)
		return r;
	r = sd_event_set_watchdog(manager->event, true);
	if (r < 0)
		log_warning("cannot serve the watchdog of systemd: %s", strerror(-r));
	return 0;
}

/* --- what children need --- */

static int on_open_session(enum registration_way way, const char *resource, struct session *ret,
	void *userdata, struct error *error)
{
	struct manager *manager = userdata;

	return way == REGISTRATION_DRA
		? dra_open_session(manager->dra, resource, ret, error)
		: plugin_directory_open_session(manager, way, resource, ret, error);
}

static void on_registration_result(const char *why, void *userdata)
{
	child_registered(userdata, why);
}

static int on_begin_registration(struct child *child, struct registration **ret, void *userdata)
{
	const struct manager *manager = userdata;
	const struct declaration *declaration = &resource_applied(child->resource)->declaration;
	const struct registration_options options = {
		.type = CLIENT_DEVICE_PLUGIN,
		.name = child->resource->name,
		.pre_start_required = declaration_pre_starts(declaration),
		.on_result = on_registration_result,
		.userdata = child,
	};

	return registration_begin(manager->kubelet_client, &child->session, &options, ret);
}

static void on_end_registration(struct registration *registration, void *userdata)
{
	(void)registration_free(registration);
}

static void on_end_session(void *userdata)
{
	const struct manager *manager = userdata;

	dra_end_session(manager->dra);
}

static void on_edits(const struct child *child, struct control_message *message, void *userdata)
{
	const struct manager *manager = userdata;

	if (message) {
		dra_take_edits(manager->dra, child, message);
		return;
	}
	dra_child_gone(manager->dra, child);
	evictions_child_gone(manager->evictions, child);
}

static int on_failures(struct child *child, int fd, void *userdata)
{
	const struct manager *manager = userdata;

	return evictions_take(manager->evictions, child, fd);
}

static int on_attributes(struct child *child, int fd, void *userdata)
{
	struct manager *manager = userdata;
	int r = plugin_metadata_update(manager->plugin_metadata, child, fd);

	manager_changed(manager);
	return r;
}

static void name_user(
	const struct child *child, const char *id, char ret[static USER_NAME_MAX], void *userdata)
{
	const struct manager *manager = userdata;

	booked_name_user(manager->booked, child->resource->name, id, ret, USER_NAME_MAX);
}

static bool on_cleaning(struct child *child, const struct control_message *message, void *userdata)
{
	struct manager *manager = userdata;

	if (message) {
		/* Files may have to be written. */
		manager_changed(manager);
		return cleaning_take(manager->cleaning, child, message);
	}
	if (manager->cleaning)
		cleaning_child_gone(manager->cleaning, child);
	return true;
}

static void on_session_check(void *userdata)
{
	const struct manager *manager = userdata;

	dra_check_session(manager->dra);
}

static int on_send_booked(struct child *child, void *userdata)
{
	const struct manager *manager = userdata;
	int r = booked_send(manager->booked, child);

	return r < 0 ? r : cleaning_send(manager->cleaning, child);
}

static void on_applied(struct child *child, const struct resource_config *before, void *userdata)
{
	const struct manager *manager = userdata;

	applied_changed(userdata, child, before);
	evictions_configure(manager->evictions, child);
}

static void on_child_changed(void *userdata)
{
	manager_changed(userdata);
}

static void on_devices(struct child *child, void *userdata)
{
	struct manager *manager = userdata;

	(void)dra_send_devices(manager->dra, child);
	cleaning_changed(manager->cleaning, child);
	if (child->counts_changed && renewal_matters(child))
		booked_checkpoint_changed(manager->booked);
	assignments_outdated(manager->assignments);
	manager_changed(manager);
	restore_watch_check(manager->restore_watch);
}

static void on_gone(void *userdata)
{
	const struct manager *manager = userdata;

	booked_changed(manager->booked);
}

static int make_child_host(struct manager *manager)
{
	manager->child_host = malloc(sizeof(struct child_host));
	if (!manager->child_host)
		return -ENOMEM;
	*manager->child_host = (struct child_host){
		.event = manager->event,
		.files = manager->files,
		.arbiter = manager->arbiter,
		.published = manager->published,
		.program = manager->program,
		.generation = &manager->generation,
		.open_session = on_open_session,
		.begin_registration = on_begin_registration,
		.end_registration = on_end_registration,
		.end_session = on_end_session,
		.send_booked = on_send_booked,
		.on_applied = on_applied,
		.on_changed = on_child_changed,
		.on_devices = on_devices,
		.on_edits = on_edits,
		.on_cleaning = on_cleaning,
		.on_failures = on_failures,
		.on_attributes = on_attributes,
		.name_user = name_user,
		.on_gone = on_gone,
		.userdata = manager,
	};
	return 0;
}

static int add_children(struct manager *manager)
{
	const struct config *config = manager->config;

	manager->children = calloc(MAX_OF(config->n_resources, 1U), sizeof(struct child *));
	if (!manager->children)
		return -ENOMEM;
	for (size_t i = 0; i < config->n_resources; i++) {
		int r = child_new(
			manager->child_host, &config->resources[i], &manager->children[i]);

		if (r < 0)
			return r;
		claimant_set_rank(manager->children[i]->claimant, i);
		manager->n_children++;
	}
	return 0;
}

static int open_files(struct manager *manager, struct error *error)
{
	const char *directory = manager->config->runtime_dir;
	struct error cause = { 0 };
	int r = runtime_files_open(directory, &manager->files, &cause);

	if (r == -EROFS)
		return error_set(
			error, r, "%s: " WRITE_ACCESS_REMEDY, cause.message, directory, directory);
	return r < 0 ? error_set(error, r, "%s", cause.message) : 0;
}

int daemon_loop_new(const char *config_file, struct config *config, bool last_accepted,
	struct manager **ret, struct error *error)
{
	_cleanup_(daemon_loop_freep) struct manager *manager = NULL;
	_cleanup_config_ struct config *owned = config;
	int r;

	manager = calloc(1, sizeof(*manager));
	if (!manager)
		return error_set(error, -ENOMEM, "out of memory");
	manager->program.executable_fd = -EBADF;
	manager->config_file = config_file;
	manager->config = TAKE_PTR(owned);
	manager->on_last_accepted = last_accepted;
	manager->generation = 1;
	session_instance(manager->instance);

	r = open_files(manager, error);
	if (r < 0)
		return r;
	r = published_new(manager->config->runtime_dir, &manager->published);
	if (r < 0)
		return error_set(error, r, "out of memory");
	r = plugin_metadata_new(manager, &manager->plugin_metadata);
	if (r < 0)
		return error_set(error, r, "out of memory");
	r = spawn_open_executable(NULL, &manager->executable, error);
	if (r < 0)
		return r;
	manager->program.executable_fd = r;
	manager->program.executable = manager->executable;
	r = sd_event_default(&manager->event);
	if (r >= 0)
		r = orphans_reap(manager->event);
	if (r >= 0)
		r = spawn_template_new(manager->event, &manager->program);
	if (r >= 0)
		r = arbiter_new(manager->event, &manager->arbiter);
	if (r >= 0)
		r = pod_resources_new(manager, &manager->pods);
	if (r >= 0)
		r = assignments_new(manager, &manager->assignments);
	if (r >= 0)
		r = booked_new(manager, &manager->booked);
	if (r >= 0)
		r = cleaning_new(manager, &manager->cleaning);
	if (r >= 0)
		r = restore_watch_new(manager, &manager->restore_watch);
	if (r >= 0)
		r = offer_check_new(manager, &manager->offer_check);
	if (r >= 0)
		r = session_check_new(manager, &manager->session_check);
	if (r >= 0)
		r = kept_sockets_new(&manager->kept_sockets);
	if (r >= 0)
		r = kubelet_client_new(manager, &manager->kubelet_client);
	if (r >= 0)
		r = metrics_new(manager, &manager->metrics);
	if (r >= 0)
		r = evictions_new(manager, &manager->evictions);
	if (r >= 0)
		r = dra_new(manager, &manager->dra);
	if (r >= 0)
		session_check_others(manager->session_check, on_session_check, manager);
	if (r >= 0)
		r = add_sources(manager);
	if (r >= 0)
		r = events_new(manager, &manager->events);
	if (r >= 0)
		r = plugin_directory_init(manager);
	if (r >= 0)
		r = make_child_host(manager);
	if (r >= 0)
		r = add_children(manager);
	if (r < 0)
		return error_set(error, r, "cannot set up the event loop: %s", strerror(-r));
	r = request_server_new(manager, &manager->requests, error);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(manager);
	return 0;
}

/* Drops what is saved of resources that were removed while no daemon ran. */
static void forget_removed_resources(struct manager *manager)
{
	size_t n = manager->config->n_resources;
	_cleanup_free_ const char **names = calloc(MAX_OF(n, (size_t)1), sizeof(*names));

	for (size_t i = 0; names && i < n; i++)
		names[i] = manager->config->resources[i].declaration.name;
	if (!names)
		return;
	saved_health_keep_only(manager->files, SAVED_HEALTH, names, n);
	saved_health_keep_only(manager->files, SAVED_LIST, names, n);
}

/* Containers with these files may start as soon as the kubelet does. */
static void restore_plugin_metadata(struct manager *manager)
{
	uint64_t written_at;
	const struct kubelet_checkpoint *checkpoint =
		booked_checkpoint(manager->booked, &written_at);

	plugin_metadata_follow(manager->plugin_metadata, checkpoint, written_at);
	(void)plugin_metadata_write(manager->plugin_metadata, true);
}

static void log_start(const struct manager *manager)
{
	const char *plural = manager->n_children == 1 ? "" : "s";
	const bool last = manager->on_last_accepted;
	const struct log_fields fields = {
		.message_id = last ? MESSAGE_ID_CONFIG_LAST_ACCEPTED : MESSAGE_ID_CONFIG_ACCEPTED,
		.generation = manager->generation,
		.config_file = manager->config_file,
	};

	if (last)
		log_full(LOG_ERR, &fields,
			"%s is not valid; the last accepted configuration is used, %zu "
			"resource%s. Correct the file and reload",
			manager->config_file, manager->n_children, plural);
	else
		log_full(LOG_NOTICE, &fields, "%s accepted, %zu resource%s", manager->config_file,
			manager->n_children, plural);
}

int daemon_loop_run(struct manager *manager)
{
	int r;

	r = plugin_directory_watch(manager);
	if (r < 0)
		return r;
	log_start(manager);
	write_access_log(manager->config);
	manager_check_view(manager);
	forget_removed_resources(manager);
	evictions_drop_removed(manager->evictions);
	child_user_log_isolation();
	manager->accepted_at = now_usec(CLOCK_REALTIME);
	applied_configure(manager);
	restore_plugin_metadata(manager);
	restore_watch_configure(manager->restore_watch);
	metrics_configure(manager->metrics);
	dra_configure(manager->dra);
	r = start_wait_new(manager, &manager->start_wait);
	if (r < 0)
		return r;
	if (!manager->on_last_accepted)
		keep_configuration(manager);
	for (size_t i = 0; i < manager->n_children; i++)
		resource_handle(manager->children[i]->resource, RESOURCE_START, NULL);
	manager_changed(manager);
	/* Returns the memory of the parser to the kernel: megabytes with 1000 resources. */
	(void)malloc_trim(0);
	start_wait_begin(manager->start_wait);
	r = sd_event_loop(manager->event);
	if (r < 0)
		log_error("the event loop failed: %s", strerror(-r));
	else
		log_notice("stopped");
	return r >= 0 && manager->view_lost ? -ESTALE : r;
}

struct manager *daemon_loop_free(struct manager *manager)
{
	if (!manager)
		return NULL;
	for (size_t i = 0; i < manager->n_children; i++)
		(void)child_free(manager->children[i]);
	free(manager->children);
	free(manager->child_host);
	(void)request_server_free(manager->requests);
	(void)events_free(manager->events);
	(void)spawn_template_free(manager->program.template);
	(void)arbiter_free(manager->arbiter);
	(void)start_wait_free(manager->start_wait);
	(void)kubelet_watch_free(manager->watch);
	(void)session_check_free(manager->session_check);
	(void)offer_check_free(manager->offer_check);
	(void)config_watch_free(manager->config_watch);
	(void)metrics_free(manager->metrics);
	(void)dra_free(manager->dra);
	manager->evictions = evictions_free(manager->evictions);
	(void)kubelet_client_free(manager->kubelet_client);
	(void)kept_sockets_free(manager->kept_sockets);
	manager->cleaning = cleaning_free(manager->cleaning);
	(void)booked_free(manager->booked);
	(void)assignments_free(manager->assignments);
	(void)pod_resources_free(manager->pods);
	(void)restore_watch_free(manager->restore_watch);
	(void)plugin_metadata_free(manager->plugin_metadata);
	(void)published_free(manager->published);
	(void)runtime_files_free(manager->files);
	sd_event_source_disable_unref(manager->flush);
	sd_event_source_disable_unref(manager->deadline);
	sd_event_source_disable_unref(manager->end);
	sd_event_source_disable_unref(manager->sweep);
	(void)close_fd(manager->program.executable_fd);
	free(manager->executable);
	(void)config_free(manager->config);
	sd_event_unref(manager->event);
	free(manager);
	return NULL;
}
