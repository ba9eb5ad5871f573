/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the files of the configuration have changed (--watch). An event only starts a
 * check: a fingerprint of the files decides, with symbolic links followed, so that the temporary
 * files of editors do not count. Each check watches again, because a link may have been turned. The
 * list of cordons has a fingerprint of its own, because it can be applied alone.
 */
#include "supervisor/config-watch.h"

#include <sys/stat.h>

#include "common/log.h"
#include "configuration/config.h"
#include "drivers/host/sysroot.h"
#include "drivers/host/watch.h"

#define POLL_BLIND (5 * USEC_PER_SEC)

struct config_watch {
	sd_event *event;
	char *config_file;
	struct watcher *watcher;
	struct watch **watches;
	size_t n_watches;
	struct strings directories; /* one for each watch */
	bool blind;
	sd_event_source *look;
	char *cordon_file;
	uint64_t fingerprint, cordons;
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
		if (!streq(drop_ins.items[i], watch->cordon_file))
			hash = mix_file(hash, drop_ins.items[i]);
	return hash;
}

static uint64_t take_cordons(const struct config_watch *watch)
{
	return mix_file(0xcbf29ce484222325, watch->cordon_file);
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

static int add_directory(struct config_watch *watch, const char *directory)
{
	int r;

	if (strings_contain(&watch->directories, directory))
		return 0;
	if (array_reserve((void **)&watch->watches, watch->n_watches, sizeof(struct watch *)) < 0 ||
		strings_add(&watch->directories, directory, strlen(directory)) < 0)
		return -ENOMEM;
	r = watch_add(watch->watcher, directory, WATCH_CONTENT, on_event, watch,
		&watch->watches[watch->n_watches]);
	if (r >= 0) {
		watch->n_watches++;
		return 0;
	}
	if (!watch->blind)
		log_warning("cannot watch %s: %s; checking it every %llu s instead", directory,
			watch_strerror(r), POLL_BLIND / USEC_PER_SEC);
	watch->blind = true;
	return 0;
}

static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* Watches the directory that the path is in, and each link on the way to it. */
static int add_way(struct config_watch *watch, const char *path)
{
	_cleanup_free_ char *way = strdup(path);
	int r = way ? 0 : -ENOMEM;

	for (unsigned links = 0; r >= 0 && links <= SYSROOT_LINKS_MAX; links++) {
		_cleanup_free_ char *directory = directory_of(way);
		char *next = NULL;

		r = directory ? add_directory(watch, directory) : -ENOMEM;
		if (r >= 0)
			r = sysroot_follow_link("", way, &next);
		if (r < 0 || !next)
			return r;
		free(way);
		way = next;
	}
	return r;
}

/* The directories of drop-ins may be missing, and have links in them. */
static int add_drop_ins(struct config_watch *watch)
{
	_cleanup_strings_ struct strings drop_ins = { 0 };
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *inside = NULL;
	int r;

	r = format_text(&inside, "%s.d/.", watch->config_file);
	if (r >= 0)
		r = add_way(watch, inside);
	if (r >= 0)
		r = add_way(watch, watch->cordon_file);
	(void)config_list_drop_ins(watch->config_file, &report, &drop_ins);
	for (size_t i = 0; i < drop_ins.count && r >= 0; i++)
		r = add_way(watch, drop_ins.items[i]);
	return r;
}

static void free_watches(struct watch **watches, size_t n)
{
	while (n > 0)
		(void)watch_free(watches[--n]);
	free(watches);
}

/* The old watches end last, so that no event is missed in between. */
static void watch_all(struct config_watch *watch)
{
	struct watch **old = watch->watches;
	size_t n_old = watch->n_watches;

	watch->watches = NULL;
	watch->n_watches = 0;
	strings_done(&watch->directories);
	if (add_way(watch, watch->config_file) < 0 || add_drop_ins(watch) < 0)
		watch->blind = true;
	free_watches(old, n_old);
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct config_watch *watch = userdata;

	watch_all(watch);
	if (watch->blind)
		look_after(watch, POLL_BLIND);
	if (take_fingerprint(watch) != watch->fingerprint || take_cordons(watch) != watch->cordons)
		watch->on_change(watch->userdata);
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
	r = watch->config_file ? config_cordon_file(config_file, &watch->cordon_file) : -ENOMEM;
	if (r >= 0)
		r = watcher_new(event, "", &watch->watcher);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &watch->look, CLOCK_MONOTONIC, 0,
			10 * USEC_PER_MSEC, on_look, watch);
	if (r < 0) {
		(void)config_watch_free(watch);
		return r;
	}
	watch_all(watch);
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
	config_watch_seen_cordons(watch);
}

void config_watch_seen_cordons(struct config_watch *watch)
{
	if (watch)
		watch->cordons = take_cordons(watch);
}

void config_watch_stop(struct config_watch *watch)
{
	if (!watch)
		return;
	(void)sd_event_source_set_enabled(watch->look, SD_EVENT_OFF);
	free_watches(TAKE_PTR(watch->watches), watch->n_watches);
	watch->n_watches = 0;
	strings_done(&watch->directories);
}

struct config_watch *config_watch_free(struct config_watch *watch)
{
	if (!watch)
		return NULL;
	config_watch_stop(watch);
	(void)watcher_free(watch->watcher);
	sd_event_source_disable_unref(watch->look);
	sd_event_unref(watch->event);
	free(watch->config_file);
	free(watch->cordon_file);
	free(watch);
	return NULL;
}
