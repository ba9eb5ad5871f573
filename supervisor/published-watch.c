/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when published files are written again because another process removed them. Our own
 * writing leads to a check, too, which finds no difference. A process that removes files again and
 * again costs one round of writing in each interval.
 */
#include "supervisor/published-watch.h"

#include "common/log.h"
#include "drivers/host/watch.h"
#include "supervisor/child.h"
#include "supervisor/manager.h"
#include "supervisor/published.h"

struct published_watch {
	struct manager *manager;
	struct watcher *watcher; /* NULL: stopped */
	struct watch *directories[2];
	sd_event_source *timer;
	uint64_t not_before; /* CLOCK_MONOTONIC */
	bool waiting;        /* for the timer */
};

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct published_watch *watch = userdata;
	struct manager *manager = watch->manager;
	const char *path;

	watch->waiting = false;
	watch->not_before = now_usec(CLOCK_MONOTONIC) + PUBLISHED_CHECK_INTERVAL;
	path = published_find_damage(manager->published);
	if (!path)
		return 0;
	log_warning("another process has removed or changed %s; published files are written again",
		path);
	for (size_t i = 0; i < manager->n_children; i++)
		proposal_publish_again(manager->children[i]->proposal);
	return 0;
}

void published_watch_check(struct published_watch *watch)
{
	if (watch->waiting || !watch->watcher)
		return;
	watch->waiting = sd_event_source_set_time(watch->timer, watch->not_before) >= 0 &&
		sd_event_source_set_enabled(watch->timer, SD_EVENT_ONESHOT) >= 0;
}

static void on_changed(enum watch_change change, const char *name, void *userdata)
{
	/* A file that is being written is checked when it is complete. */
	if (change != WATCH_WRITING)
		published_watch_check(userdata);
}

static void stop_watching(struct published_watch *watch)
{
	for (size_t i = 0; i < ARRAY_SIZE(watch->directories); i++)
		watch->directories[i] = watch_free(watch->directories[i]);
}

void published_watch_configure(struct published_watch *watch)
{
	const struct config *config = watch->manager->config;
	const char *directories[] = { config->cdi_dir, config->device_info_dir };

	if (!watch->watcher)
		return;
	stop_watching(watch);
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		int r;

		if (i > 0 && streq(directories[i], directories[0]))
			continue;
		r = watch_add(watch->watcher, directories[i], WATCH_CONTENT, on_changed, watch,
			&watch->directories[i]);
		if (r < 0)
			log_notice("cannot watch %s: %s; published files are checked at each "
				   "allocation and reload only",
				directories[i], strerror(-r));
	}
	published_watch_check(watch);
}

int published_watch_new(struct manager *manager, struct published_watch **ret)
{
	_cleanup_(published_watch_freep) struct published_watch *watch = calloc(1, sizeof(*watch));
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
	if (r < 0)
		return r;
	*ret = TAKE_PTR(watch);
	return 0;
}

void published_watch_stop(struct published_watch *watch)
{
	stop_watching(watch);
	watch->watcher = watcher_free(watch->watcher);
	(void)sd_event_source_set_enabled(watch->timer, SD_EVENT_OFF);
}

struct published_watch *published_watch_free(struct published_watch *watch)
{
	if (!watch)
		return NULL;
	stop_watching(watch);
	(void)watcher_free(watch->watcher);
	sd_event_source_disable_unref(watch->timer);
	free(watch);
	return NULL;
}
