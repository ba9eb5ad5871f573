/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the files of the configuration have changed (--watch). An event only starts a
 * check: a fingerprint of the files decides, with symbolic links followed, so that the temporary
 * files of editors do not count.
 */
#include "supervisor/config-watch.h"

#include <limits.h>
#include <sys/stat.h>

#include "common/log.h"
#include "configuration/config.h"
#include "drivers/host/watch.h"

#define LINKS_MAX   8
#define WATCHED_MAX (LINKS_MAX + 3) /* and for the file, its drop-ins, and those of this boot */
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
		log_warning("cannot watch %s: %s; checking it every %llu s instead", directory,
			watch_strerror(r), POLL_BLIND / USEC_PER_SEC);
	watch->blind = true;
}

static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* What the link at the path leads to, absolute but not resolved further; NULL: it is none. */
static char *follow_link(const char *path, const char *directory)
{
	char target[PATH_MAX], *next;
	ssize_t length = readlink(path, target, sizeof(target) - 1);

	if (length <= 0)
		return NULL;
	target[length] = '\0';
	if (target[0] == '/')
		return strdup(target);
	return format_text(&next, "%s/%s", directory, target) < 0 ? NULL : next;
}

/* A watch follows its path through links among the directories; those of the file itself are
 * followed here, so that none of them can be turned to another file unseen. */
static int add_file(struct config_watch *watch, const char *path)
{
	_cleanup_free_ char *file = strdup(path);

	for (unsigned links = 0; file && links <= LINKS_MAX; links++) {
		_cleanup_free_ char *directory = directory_of(file);
		char *next;

		if (!directory)
			return -ENOMEM;
		add_directory(watch, directory);
		next = follow_link(file, directory);
		if (!next)
			return 0;
		free(file);
		file = next;
	}
	return file ? 0 : -ENOMEM;
}

static int add_directories(struct config_watch *watch)
{
	_cleanup_free_ char *here = realpath(".", NULL), *path = NULL, *drop_ins = NULL;
	bool relative = watch->config_file[0] != '/';
	int r;

	if (!here)
		return -ENOMEM;
	if (format_text(&path, "%s%s%s", relative ? here : "", relative ? "/" : "",
		    watch->config_file) < 0)
		return -ENOMEM;
	if (format_text(&drop_ins, "%s.d", path) < 0)
		return -ENOMEM;
	add_directory(watch, drop_ins);
	r = add_file(watch, path);
	if (r < 0)
		return r;
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

void config_watch_stop(struct config_watch *watch)
{
	if (!watch)
		return;
	(void)sd_event_source_set_enabled(watch->look, SD_EVENT_OFF);
	while (watch->n_watches > 0)
		(void)watch_free(watch->watches[--watch->n_watches]);
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
	free(watch);
	return NULL;
}
