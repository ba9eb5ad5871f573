/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when runtime_dir and published files are written again because another process removed
 * them. Our own writing leads to a check, too, which finds no difference. A process that removes
 * files again and again costs one round of writing in each interval. The first check after a pause
 * is made at once, so that a second daemon has little time to start meanwhile.
 */
#include "supervisor/restore-watch.h"

#include <fcntl.h>

#include "common/log.h"
#include "configuration/last-accepted.h"
#include "drivers/host/watch.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/plugin-metadata.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/control/request-server.h"
#include "supervisor/eviction/eviction.h"
#include "supervisor/files/published-files.h"
#include "supervisor/helpers/metrics.h"
#include "supervisor/keep-configuration.h"

#define CHECK_INTERVAL USEC_PER_SEC

struct restore_watch {
	struct manager *manager;
	struct watcher *watcher; /* NULL: stopped */
	struct watch *runtime_dir;
	struct watch *claims;
	struct watch *published[4];
	sd_event_source *timer;
	uint64_t not_before; /* CLOCK_MONOTONIC */
	bool waiting;        /* for the timer */
	bool check_published;
	bool failed; /* to restore runtime_dir, and logged: it is tried again */
	bool claims_failed;
};

static void write_again(struct manager *manager)
{
	keep_configuration(manager);
	for (size_t i = 0; i < manager->n_children; i++) {
		saved_health_write_again(&manager->children[i]->health);
		saved_health_write_again(&manager->children[i]->list);
	}
	evictions_write_again(manager->evictions);
	manager_changed(manager);
}

/* Writes the saved configuration again if only its file was removed. One that could not be written
 * is missing, too, and is tried again elsewhere. Returns whether it was restored. */
static bool restore_configuration(struct manager *manager)
{
	if (manager->keep_failed ||
		faccessat(runtime_files_directory(manager->files), LAST_ACCEPTED_FILE, F_OK,
			AT_SYMLINK_NOFOLLOW) >= 0 ||
		errno != ENOENT)
		return false;
	keep_configuration(manager);
	return !manager->keep_failed;
}

/* Returns 1 if something was missing and has been restored, 0 if nothing was, or negative errno. */
static int restore(struct manager *manager, struct error *error)
{
	bool kept;
	int restored, r;

	restored = runtime_files_restore(manager->files, error);
	if (restored < 0)
		return restored;
	kept = restored == 0 && restore_configuration(manager);
	if (restored == 0 && request_server_is_there(manager->requests))
		return kept;
	r = request_server_listen(manager->requests);
	if (restored > 0)
		write_again(manager);
	return r < 0 ? error_set(error, r, "cannot listen on the control sockets: %s", strerror(-r))
		     : 1;
}

static void restore_runtime_dir(struct restore_watch *watch)
{
	const char *runtime_dir = watch->manager->config->runtime_dir;
	struct error error = { 0 };
	int r;

	r = restore(watch->manager, &error);
	if (r > 0)
		log_warning("another process removed %s or files in it; devplugd restored them",
			runtime_dir);
	else if (r < 0 && !watch->failed)
		log_error("another process removed %s or files in it, and they cannot be restored: "
			  "%s; devplugd tries again every second; restart it if that does not help",
			runtime_dir, error.message);
	watch->failed = r < 0;
	metrics_restore(watch->manager->metrics);
}

static void restore_claims(struct restore_watch *watch)
{
	struct dra_claims *claims = watch->manager->dra_claims;
	struct error error = { 0 };
	int r = claims ? dra_claims_restore(claims, &error) : 0;

	if (r > 0)
		log_warning("another process removed files in %s; devplugd restored them",
			dra_claims_directory(claims));
	else if (r < 0 && !watch->claims_failed)
		log_error("another process removed files in %s, and they cannot be restored: %s; "
			  "devplugd tries again every second",
			dra_claims_directory(claims), error.message);
	watch->claims_failed = r < 0;
}

static void restore_published(struct manager *manager)
{
	const char *path = published_find_damage(manager->published);

	if (!path)
		return;
	log_warning(
		"another process has removed or changed %s; writing published files again", path);
	/* If a resource has no process, its next one proposes the file again. This comes before the
	 * other files are written, because later changes are new damage. */
	published_forget_damage(manager->published);
	if (manager->dra_claims)
		dra_claims_publish(manager->dra_claims);
	plugin_metadata_write_again(manager->plugin_metadata);
	for (size_t i = 0; i < manager->n_children; i++)
		proposal_publish_again(manager->children[i]->proposal);
	for (size_t i = 0; i < manager->n_children; i++)
		child_write_labels_again(manager->children[i]);
	manager_changed(manager);
}

static void check_soon(struct restore_watch *watch)
{
	if (watch->waiting || !watch->watcher)
		return;
	watch->waiting = sd_event_source_set_time(watch->timer, watch->not_before) >= 0 &&
		sd_event_source_set_enabled(watch->timer, SD_EVENT_ONESHOT) >= 0;
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct restore_watch *watch = userdata;

	watch->waiting = false;
	watch->not_before = now_usec(CLOCK_MONOTONIC) + CHECK_INTERVAL;
	restore_runtime_dir(watch);
	restore_claims(watch);
	if (watch->check_published)
		restore_published(watch->manager);
	watch->check_published = false;
	/* The cause may be elsewhere, and end without an event here. */
	if (watch->failed || watch->claims_failed)
		check_soon(watch);
	return 0;
}

void restore_watch_check(struct restore_watch *watch)
{
	watch->check_published = true;
	check_soon(watch);
}

/* A file that is being written is checked when it is complete. */
static void on_runtime_dir(enum watch_change change, const char *name, void *userdata)
{
	if (change != WATCH_WRITING)
		check_soon(userdata);
}

static void on_published(enum watch_change change, const char *name, void *userdata)
{
	if (change != WATCH_WRITING)
		restore_watch_check(userdata);
}

static void stop_published(struct restore_watch *watch)
{
	for (size_t i = 0; i < ARRAY_SIZE(watch->published); i++)
		watch->published[i] = watch_free(watch->published[i]);
}

/* Its directory may not exist before the first claim. */
static void watch_claims(struct restore_watch *watch)
{
	const char *directory;
	int r;

	if (watch->claims || !watch->manager->dra_claims)
		return;
	directory = dra_claims_directory(watch->manager->dra_claims);
	r = watch_add(
		watch->watcher, directory, WATCH_ENTRIES, on_runtime_dir, watch, &watch->claims);
	if (r < 0)
		log_notice("cannot watch %s: %s; if another process removes claims, they are not "
			   "restored",
			directory, watch_strerror(r));
}

void restore_watch_configure(struct restore_watch *watch)
{
	const struct config *config = watch->manager->config;
	_cleanup_free_ char *metadata = NULL;
	const char *directories[] = { config->cdi_dir, config->device_info_dir,
		published_metadata_directory(config, &metadata) < 0 ? config->cdi_dir : metadata,
		config_has_labels(config) && !config->cluster.labels ? config->features_dir
								     : NULL };

	if (!watch->watcher)
		return;
	watch_claims(watch);
	stop_published(watch);
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		int r;

		if (!directories[i] || (i > 0 && streq(directories[i], directories[0])))
			continue;
		r = watch_add(watch->watcher, directories[i], WATCH_CONTENT, on_published, watch,
			&watch->published[i]);
		if (r < 0)
			log_notice("cannot watch %s: %s; published files are checked at each "
				   "allocation and reload only",
				directories[i], watch_strerror(r));
	}
	restore_watch_check(watch);
}

static void watch_runtime_dir(struct restore_watch *watch)
{
	const char *runtime_dir = watch->manager->config->runtime_dir;
	int r;

	r = watch_add(watch->watcher, runtime_dir, WATCH_ENTRIES, on_runtime_dir, watch,
		&watch->runtime_dir);
	if (r < 0)
		log_warning(
			"cannot watch %s: %s; if another process removes it, it is not restored",
			runtime_dir, watch_strerror(r));
}

int restore_watch_new(struct manager *manager, struct restore_watch **ret)
{
	_cleanup_(restore_watch_freep) struct restore_watch *watch = calloc(1, sizeof(*watch));
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
	watch_runtime_dir(watch);
	*ret = TAKE_PTR(watch);
	return 0;
}

void restore_watch_stop(struct restore_watch *watch)
{
	watch->runtime_dir = watch_free(watch->runtime_dir);
	watch->claims = watch_free(watch->claims);
	stop_published(watch);
	watch->watcher = watcher_free(watch->watcher);
	(void)sd_event_source_set_enabled(watch->timer, SD_EVENT_OFF);
}

struct restore_watch *restore_watch_free(struct restore_watch *watch)
{
	if (!watch)
		return NULL;
	restore_watch_stop(watch);
	sd_event_source_disable_unref(watch->timer);
	free(watch);
	return NULL;
}
