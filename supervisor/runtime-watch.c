/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when runtime_dir is made again because another process removed it. Our own writing leads
 * to a check, too, which compares a few inodes and finds no difference. The first check after a
 * pause is made at once, so that a second daemon has little time to start meanwhile.
 */
#include "supervisor/runtime-watch.h"

#include "common/log.h"
#include "drivers/host/watch.h"
#include "supervisor/child.h"
#include "supervisor/keep-configuration.h"
#include "supervisor/manager.h"
#include "supervisor/published.h"
#include "supervisor/request-server.h"

#define CHECK_INTERVAL USEC_PER_SEC

struct runtime_watch {
	struct manager *manager;
	struct watcher *watcher;
	struct watch *directory;
	sd_event_source *timer;
	uint64_t not_before; /* CLOCK_MONOTONIC */
	bool waiting;        /* for the timer */
	bool failed;         /* and logged */
};

/* The files of devices come with the next report of their children. */
static void write_again(struct manager *manager)
{
	int r;

	r = request_server_listen(manager->requests);
	if (r < 0)
		log_error(
			"cannot listen in %s: %s; restart devplugd, or devplugctl will not reach it",
			manager->config->runtime_dir, strerror(-r));
	published_write_list(manager->published);
	if (!manager->on_last_accepted)
		keep_configuration(manager);
	for (size_t i = 0; i < manager->n_children; i++) {
		mirror_write_again(&manager->children[i]->saved_state);
		(void)resource_reopen(manager->children[i]->resource);
	}
	manager_changed(manager);
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct runtime_watch *watch = userdata;
	struct manager *manager = watch->manager;
	struct error error = { 0 };
	int r;

	watch->waiting = false;
	watch->not_before = now_usec(CLOCK_MONOTONIC) + CHECK_INTERVAL;
	if (manager->stopping)
		return 0;
	r = state_restore(manager->state, &error);
	if (r < 0 && !watch->failed)
		log_error("another process removed %s or files in it, and they cannot be restored: "
			  "%s; restart devplugd",
			manager->config->runtime_dir, error.message);
	if (r > 0) {
		log_warning("another process removed %s or files in it; they are restored",
			manager->config->runtime_dir);
		write_again(manager);
	}
	watch->failed = r < 0;
	return 0;
}

static void on_changed(enum watch_change change, const char *name, void *userdata)
{
	struct runtime_watch *watch = userdata;

	if (watch->waiting || change == WATCH_WRITING)
		return;
	watch->waiting = sd_event_source_set_time(watch->timer, watch->not_before) >= 0 &&
		sd_event_source_set_enabled(watch->timer, SD_EVENT_ONESHOT) >= 0;
}

int runtime_watch_new(struct manager *manager, struct runtime_watch **ret)
{
	_cleanup_(runtime_watch_freep) struct runtime_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	watch->manager = manager;
	r = sd_event_add_time(
		manager->event, &watch->timer, CLOCK_MONOTONIC, 0, USEC_PER_MSEC, on_due, watch);
	if (r < 0)
		return r;
	(void)sd_event_source_set_enabled(watch->timer, SD_EVENT_OFF);
	r = watcher_new(manager->event, "/", &watch->watcher);
	if (r >= 0)
		r = watch_add(watch->watcher, manager->config->runtime_dir, WATCH_ENTRIES,
			on_changed, watch, &watch->directory);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(watch);
	return 0;
}

struct runtime_watch *runtime_watch_free(struct runtime_watch *watch)
{
	if (!watch)
		return NULL;
	(void)watch_free(watch->directory);
	(void)watcher_free(watch->watcher);
	sd_event_source_disable_unref(watch->timer);
	free(watch);
	return NULL;
}
