/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's owner. Nothing that fails after the start ends it: what cannot be done now is done
 * later or said. Children are freed only when their resource has stopped, from the flush and never
 * from one of their own callbacks.
 */
#include <malloc.h>
#include <signal.h>
#include <systemd/sd-daemon.h>

#include "child-claims.h"
#include "child-devices.h"
#include "child-memory.h"
#include "common/log.h"
#include "common/message-id.h"
#include "common/unused-code.h"
#include "config-watch.h"
#include "manager.h"
#include "reload.h"
#include "spawn-template.h"
#include "spawn.h"
#include "status.h"

#define FLUSH_INTERVAL (100 * USEC_PER_MSEC)
/* A child has RESOURCE_END_TIMEOUT before it is killed. */
#define STOP_DEADLINE (RESOURCE_END_TIMEOUT + 3 * USEC_PER_SEC)
/* By then the kernel has ended the children of a daemon that was killed just before our start. */
#define SWEEP_AGAIN (10 * USEC_PER_SEC)
/* After a start or a reload. */
#define REST_DELAY (3 * USEC_PER_SEC)

static bool all_stopped(const struct manager *manager)
{
	for (size_t i = 0; i < manager->n_children; i++)
		if (manager->children[i]->resource->state != RESOURCE_STOPPED)
			return false;
	return true;
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
			child_memory_forget(child);
			(void)child_free(child);
			manager_decide_owners(manager);
		} else
			manager->children[kept++] = child;
	}
	manager->n_children = kept;
}

static void plan(sd_event_source *timer, uint64_t at)
{
	(void)sd_event_source_set_time(timer, at);
	(void)sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

void manager_changed(struct manager *manager)
{
	plan(manager->flush, manager->stopping ? 0 : manager->last_flush + FLUSH_INTERVAL);
}

static void write_state(struct manager *manager)
{
	_cleanup_free_ char *text = NULL;
	char summary[256];
	int r;

	status_summary(manager, summary, sizeof(summary));
	(void)sd_notifyf(false, "STATUS=%s", summary);
	r = status_json(manager, &text);
	if (r >= 0)
		r = state_write(manager->state, STATE_FILE, text, strlen(text));
	if (r < 0 && !manager->flush_failed)
		log_warning("cannot write %s/%s: %s; \"devplugctl status\" shows old facts",
			manager->config->runtime_dir, STATE_FILE, strerror(-r));
	manager->flush_failed = r < 0;
}

static int on_flush(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *manager = userdata;
	uint64_t again = USEC_INFINITY;

	free_left(manager);
	if (manager->stopping) {
		if (all_stopped(manager))
			return sd_event_exit(manager->event, 0);
		return 0;
	}
	manager_drop_claims_of_failed(manager);
	kubelet_watch_set_waiting(manager->watch, anybody_waits(manager));
	for (size_t i = 0; i < manager->n_children; i++)
		again = MIN_OF(again, child_devices_write(manager->children[i], manager->state));
	write_state(manager);
	manager->last_flush = now_usec(CLOCK_MONOTONIC);
	if (again != USEC_INFINITY)
		plan(manager->flush, again);
	return 0;
}

static void on_kubelet(bool present, void *userdata)
{
	struct manager *manager = userdata;
	const struct log_fields fields = {
		.message_id = present ? MESSAGE_ID_KUBELET_APPEARED : MESSAGE_ID_KUBELET_GONE,
	};

	log_full(LOG_INFO, &fields, "%s/%s %s", manager->config->kubelet.device_plugin_dir,
		KUBELET_SOCKET_NAME, present ? "appeared" : "is gone");
	for (size_t i = 0; i < manager->n_children && present; i++)
		resource_handle(manager->children[i]->resource, RESOURCE_KUBELET, NULL);
}

static void sweep(const struct manager *manager)
{
	const char *directories[] = {
		manager->config->kubelet.device_plugin_dir,
		manager->config->kubelet.plugins_registry_dir,
	};

	/* Also where no resource is registered now: one may have been, before. */
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		unsigned removed = session_sweep(directories[i], manager->instance);

		if (removed > 0)
			log_notice("removed %u sockets from %s that a killed devplugd left",
				removed, directories[i]);
	}
}

static int on_sweep(sd_event_source *source, uint64_t usec, void *userdata)
{
	sweep(userdata);
	return 0;
}

int manager_watch_kubelet(struct manager *manager)
{
	const char *directory = manager->config->kubelet.device_plugin_dir;
	struct kubelet_watch *watch;
	int r;

	r = kubelet_watch_new(manager->event, directory, on_kubelet, manager, &watch);
	if (r < 0) {
		log_error("cannot watch %s: %s", directory, strerror(-r));
		return r;
	}
	(void)kubelet_watch_free(manager->watch);
	manager->watch = watch;
	sweep(manager);
	plan(manager->sweep, now_usec(CLOCK_MONOTONIC) + SWEEP_AGAIN);
	return 0;
}

static int on_rest(sd_event_source *source, uint64_t usec, void *userdata)
{
	/* The text, what was parsed of it and the old configuration are free by now. */
	(void)malloc_trim(0);
	release_unused_code();
	return 0;
}

void manager_rest_soon(struct manager *manager)
{
	plan(manager->rest, now_usec(CLOCK_MONOTONIC) + REST_DELAY);
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *manager = userdata;

	log_warning("some children could not be stopped; leaving them to the kernel");
	return sd_event_exit(manager->event, 0);
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct manager *manager = userdata;

	if (manager->stopping)
		return 0;
	manager->stopping = true;
	log_notice("stopping");
	(void)sd_notify(false, "STOPPING=1\nSTATUS=stopping");
	kubelet_watch_stop(manager->watch);
	config_watch_stop(manager->config_watch);
	for (size_t i = 0; i < manager->n_children; i++)
		resource_handle(manager->children[i]->resource, RESOURCE_STOP, NULL);
	spawn_template_dismiss(manager->template);
	plan(manager->deadline, now_usec(CLOCK_MONOTONIC) + STOP_DEADLINE);
	manager_changed(manager);
	return 0;
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct manager *manager = userdata;

	if (!manager->stopping) {
		config_watch_seen(manager->config_watch);
		manager_reload(manager);
	}
	return 0;
}

static void on_configuration_changed(void *userdata)
{
	(void)on_reload(NULL, NULL, userdata);
}

int manager_watch_configuration(struct manager *manager)
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
		{ &manager->sweep, USEC_PER_SEC, on_sweep },
		{ &manager->rest, USEC_PER_SEC, on_rest },
	};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		r = sd_event_add_signal(manager->event, NULL,
			signals[i].signal | SD_EVENT_SIGNAL_PROCMASK, signals[i].handler, manager);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(timers); i++) {
		r = sd_event_add_time(manager->event, timers[i].source, CLOCK_MONOTONIC,
			USEC_INFINITY, timers[i].accuracy, timers[i].handler, manager);
		if (r < 0)
			return r;
	}
	r = sd_event_set_watchdog(manager->event, true);
	if (r < 0)
		log_warning("cannot serve the watchdog of systemd: %s", strerror(-r));
	return 0;
}

static int add_children(struct manager *manager)
{
	const struct config *config = manager->config;

	manager->children = calloc(MAX_OF(config->n_resources, 1U), sizeof(struct child *));
	if (!manager->children)
		return -ENOMEM;
	for (size_t i = 0; i < config->n_resources; i++) {
		int r = child_new(manager, &config->resources[i], &manager->children[i]);

		if (r < 0)
			return r;
		manager->n_children++;
	}
	return 0;
}

int manager_new(const char *config_file, struct config *config, bool last_accepted,
	struct manager **ret, struct error *error)
{
	_cleanup_(manager_freep) struct manager *manager = NULL;
	_cleanup_config_ struct config *owned = config;
	int r;

	manager = calloc(1, sizeof(*manager));
	if (!manager)
		return error_set(error, -ENOMEM, "out of memory");
	manager->executable_fd = -EBADF;
	manager->config_file = config_file;
	manager->config = TAKE_PTR(owned);
	manager->on_last_accepted = last_accepted;
	manager->generation = 1;
	session_instance(manager->instance);

	r = state_open(manager->config->runtime_dir, &manager->state, error);
	if (r < 0)
		return r;
	r = published_new(manager->state, &manager->published);
	if (r < 0)
		return error_set(error, r, "out of memory");
	r = spawn_open_executable(&manager->executable, error);
	if (r < 0)
		return r;
	manager->executable_fd = r;
	r = sd_event_default(&manager->event);
	if (r >= 0)
		r = spawn_template_new(manager->event, manager->executable_fd, manager->executable,
			&manager->template);
	if (r >= 0)
		r = pod_resources_new(manager, &manager->pods);
	if (r >= 0)
		r = add_sources(manager);
	if (r >= 0)
		r = add_children(manager);
	if (r < 0)
		return error_set(error, r, "cannot set up the event loop: %s", strerror(-r));
	*ret = TAKE_PTR(manager);
	return 0;
}

static void log_start(const struct manager *manager)
{
	const bool last = manager->on_last_accepted;
	const struct log_fields fields = {
		.message_id = last ? MESSAGE_ID_CONFIG_LAST_ACCEPTED : MESSAGE_ID_CONFIG_ACCEPTED,
		.generation = manager->generation,
		.config_file = manager->config_file,
	};

	if (last)
		log_full(LOG_ERR, &fields,
			"%s is not valid; the last accepted configuration is used, %zu resources. "
			"Correct the file and reload",
			manager->config_file, manager->n_children);
	else
		log_full(LOG_NOTICE, &fields, "%s accepted, %zu resources", manager->config_file,
			manager->n_children);
}

int manager_run(struct manager *manager)
{
	int r;

	r = manager_watch_kubelet(manager);
	if (r < 0)
		return r;
	log_start(manager);
	published_configure(manager->published, manager->config);
	if (!manager->on_last_accepted)
		manager_keep_configuration(manager);
	for (size_t i = 0; i < manager->n_children; i++)
		resource_handle(manager->children[i]->resource, RESOURCE_START, NULL);
	manager_changed(manager);
	manager_rest_soon(manager);
	(void)sd_notify(false, "READY=1");
	r = sd_event_loop(manager->event);
	published_stop(manager->published);
	state_clear(manager->state);
	if (r < 0)
		log_error("the event loop failed: %s", strerror(-r));
	else
		log_notice("stopped");
	return r;
}

struct manager *manager_free(struct manager *manager)
{
	if (!manager)
		return NULL;
	for (size_t i = 0; i < manager->n_children; i++)
		(void)child_free(manager->children[i]);
	free(manager->children);
	(void)spawn_template_free(manager->template);
	(void)kubelet_watch_free(manager->watch);
	(void)config_watch_free(manager->config_watch);
	(void)pod_resources_free(manager->pods);
	(void)published_free(manager->published);
	(void)state_free(manager->state);
	sd_event_source_disable_unref(manager->owners_timer);
	sd_event_source_disable_unref(manager->flush);
	sd_event_source_disable_unref(manager->deadline);
	sd_event_source_disable_unref(manager->sweep);
	sd_event_source_disable_unref(manager->rest);
	(void)close_fd(manager->executable_fd);
	free(manager->executable);
	(void)config_free(manager->config);
	sd_event_unref(manager->event);
	free(manager);
	return NULL;
}
