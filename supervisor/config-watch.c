/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event only says when to look; whether there is news is told by a fingerprint of what the files
 * are, through their symbolic links, so that the temporary files of editors are none.
 */
#include "config-watch.h"

#include <sys/stat.h>

#include "common/log.h"
#include "config/config.h"
#include "drivers/watch.h"

/* The directories of the file, of what it links to, of its drop-ins, and of those of this boot. */
#define WATCHED_MAX 4
#define POLL_BLIND  (5 * USEC_PER_SEC)

struct config_watch {
	sd_event *event;
	char *config_file;
	struct watcher *watcher;
	struct watch *watches[WATCHED_MAX];
	size_t n_watches;
	bool blind;
	sd_event_source *look;
	uint64_t fingerprint;
	config_watch_handler on_change;
	void *userdata;
};

/* FNV-1a */
static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
	for (const unsigned char *p = data; size > 0; p++, size--)
		hash = (hash ^ *p) * 0x100000001b3;
	return hash;
}

static uint64_t mix_file(uint64_t hash, const char *path)
{
	struct stat st;

	hash = mix(hash, path, strlen(path) + 1);
	if (stat(path, &st) < 0)
		return hash;
	hash = mix(hash, &st.st_dev, sizeof(st.st_dev));
	hash = mix(hash, &st.st_ino, sizeof(st.st_ino));
	hash = mix(hash, &st.st_size, sizeof(st.st_size));
	return mix(hash, &st.st_mtim, sizeof(st.st_mtim));
}

static uint64_t take_fingerprint(const struct config_watch *watch)
{
	_cleanup_strings_ struct strings drop_ins = { 0 };
	_cleanup_report_ struct report report = { 0 };
	uint64_t hash = mix_file(0xcbf29ce484222325, watch->config_file);

	(void)config_list_drop_ins(watch->config_file, &report, &drop_ins);
	for (size_t i = 0; i < drop_ins.count; i++)
		hash = mix_file(hash, drop_ins.items[i]);
	return hash;
}

static void look_after(struct config_watch *watch, uint64_t delay)
{
	(void)sd_event_source_set_time_relative(watch->look, delay);
	(void)sd_event_source_set_enabled(watch->look, SD_EVENT_ONESHOT);
}

static void on_event(enum watch_change change, const char *name, void *userdata)
{
	look_after(userdata, CONFIG_WATCH_QUIET);
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct config_watch *watch = userdata;
	uint64_t fingerprint = take_fingerprint(watch);

	if (watch->blind)
		look_after(watch, POLL_BLIND);
	if (fingerprint != watch->fingerprint)
		watch->on_change(watch->userdata);
	return 0;
}

static void add_directory(struct config_watch *watch, const char *directory)
{
	int r = watch_add(watch->watcher, directory, WATCH_CONTENT, on_event, watch,
		&watch->watches[watch->n_watches]);

	if (r >= 0) {
		watch->n_watches++;
		return;
	}
	if (!watch->blind)
		log_warning("cannot watch %s: %s; looking every %llu s instead", directory,
			strerror(-r), POLL_BLIND / USEC_PER_SEC);
	watch->blind = true;
}

/* `path` is absolute. */
static void add_parent(struct config_watch *watch, char *path)
{
	char *slash = strrchr(path, '/');

	slash[slash == path] = '\0';
	add_directory(watch, path);
}

static int add_directories(struct config_watch *watch)
{
	_cleanup_free_ char *here = realpath(".", NULL), *path = NULL, *drop_ins = NULL,
			    *target = realpath(watch->config_file, NULL);
	bool relative = watch->config_file[0] != '/';

	if (!here ||
		asprintf(&path, "%s%s%s", relative ? here : "", relative ? "/" : "",
			watch->config_file) < 0)
		return -ENOMEM;
	if (asprintf(&drop_ins, "%s.d", path) < 0)
		return -ENOMEM;
	add_directory(watch, drop_ins);
	if (target && !streq(target, path))
		add_parent(watch, target);
	add_parent(watch, path);
	if (streq(watch->config_file, DEFAULT_CONFIG_FILE))
		add_directory(watch, RUNTIME_DROP_IN_DIR);
	return 0;
}

int config_watch_new(sd_event *event, const char *config_file, config_watch_handler on_change,
	void *userdata, struct config_watch **ret)
{
	struct config_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	watch->event = sd_event_ref(event);
	watch->on_change = on_change;
	watch->userdata = userdata;
	watch->config_file = strdup(config_file);
	r = watch->config_file ? watcher_new(event, "", &watch->watcher) : -ENOMEM;
	if (r >= 0)
		r = sd_event_add_time_relative(event, &watch->look, CLOCK_MONOTONIC, 0,
			10 * USEC_PER_MSEC, on_look, watch);
	if (r >= 0)
		r = add_directories(watch);
	if (r < 0) {
		(void)config_watch_free(watch);
		return r;
	}
	config_watch_seen(watch);
	if (!watch->blind)
		(void)sd_event_source_set_enabled(watch->look, SD_EVENT_OFF);
	*ret = watch;
	return 0;
}

void config_watch_seen(struct config_watch *watch)
{
	if (watch)
		watch->fingerprint = take_fingerprint(watch);
}

struct config_watch *config_watch_free(struct config_watch *watch)
{
	if (!watch)
		return NULL;
	for (size_t i = 0; i < watch->n_watches; i++)
		(void)watch_free(watch->watches[i]);
	(void)watcher_free(watch->watcher);
	sd_event_source_disable_unref(watch->look);
	sd_event_unref(watch->event);
	free(watch->config_file);
	free(watch);
	return NULL;
}
