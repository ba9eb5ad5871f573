/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers and deregisters plugins by the sockets in the directory, which are the wanted state. A
 * reconciler applies it every second: unregistrations first, one operation at a time for each
 * socket. A socket that is removed and created again counts as a new one. As in the kubelet, the
 * plugin's stream does not matter here.
 */
#include "kubelet/plugin-watcher.h"

#include <dirent.h>
#include <limits.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "kubelet/file.h"
#include "kubelet/plugin-socket.h"

#define RECONCILE_INTERVAL (1 * USEC_PER_SEC)
#define DIRECTORY_DEPTH    8

struct watched_directory {
	struct plugin_watcher *watcher;
	struct watched_directory *next;
	unsigned depth;
	sd_event_source *source;
	char path[];
};

struct plugin_watcher {
	struct manager *manager;
	sd_event_source *timer;
	struct watched_directory *directories;
	struct plugin_socket *sockets;
	uint64_t incarnations;
};

static void socket_free(struct plugin_watcher *watcher, struct plugin_socket *socket)
{
	struct plugin_socket **s = &watcher->sockets;

	while (*s != socket)
		s = &(*s)->next;
	*s = socket->next;
	sd_event_source_disable_unref(socket->dial_source);
	free(socket->path);
	free(socket->resource);
	free(socket->driver_endpoint);
	free(socket);
}

static void reconcile_socket(struct plugin_watcher *watcher, struct plugin_socket *socket)
{
	if (socket->trying > 0)
		return;
	if (socket->current > 0 && socket->current != socket->wanted) {
		plugin_socket_emit(socket, "watcher-unregistered", NULL);
		plugin_socket_deregister(socket);
		socket->current = 0;
		return;
	}
	if (socket->wanted == 0)
		socket_free(watcher, socket);
	else if (socket->current == 0 && manager_now() >= socket->not_before)
		plugin_socket_register(socket);
}

static int on_reconcile(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin_watcher *watcher = userdata;
	struct plugin_socket *next;
	int r;

	for (struct plugin_socket *s = watcher->sockets; s; s = next) {
		next = s->next;
		reconcile_socket(watcher, s);
	}
	r = sd_event_source_set_time_relative(source, RECONCILE_INTERVAL);
	return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* --- files --- */

static struct plugin_socket *find_socket(struct plugin_watcher *watcher, const char *path)
{
	for (struct plugin_socket *s = watcher->sockets; s; s = s->next)
		if (streq(s->path, path))
			return s;
	return NULL;
}

static int add_socket(struct plugin_watcher *watcher, const char *path)
{
	struct plugin_socket *socket = find_socket(watcher, path);

	if (!socket) {
		socket = calloc(1, sizeof(*socket));
		if (!socket)
			return -ENOMEM;
		socket->path = strdup(path);
		if (!socket->path) {
			free(socket);
			return -ENOMEM;
		}
		socket->manager = watcher->manager;
		socket->next = watcher->sockets;
		watcher->sockets = socket;
	}
	socket->wanted = ++watcher->incarnations;
	return 0;
}

static int add_directory(struct plugin_watcher *watcher, const char *path, unsigned depth);

static int add_entry(const struct watched_directory *directory, const char *name)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/%s", directory->path, name);

	if (name[0] == '.' || n < 0 || (size_t)n >= sizeof(path) || stat(path, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return add_directory(directory->watcher, path, directory->depth + 1);
	return S_ISSOCK(st.st_mode) ? add_socket(directory->watcher, path) : 0;
}

static int on_file(sd_event_source *source, const struct inotify_event *event, void *userdata)
{
	struct watched_directory *directory = userdata;
	struct plugin_socket *socket;
	char path[PATH_MAX];

	if (event->len == 0)
		return 0;
	if (event->mask & (IN_CREATE | IN_MOVED_TO)) {
		if (add_entry(directory, event->name) < 0)
			manager_emit(directory->watcher->manager,
				json_pack(
					"{s:s, s:s}", "event", "error", "error", "out of memory"));
		return 0;
	}
	(void)snprintf(path, sizeof(path), "%s/%s", directory->path, event->name);
	socket = find_socket(directory->watcher, path);
	if (socket)
		socket->wanted = 0;
	return 0;
}

static int walk(const struct watched_directory *directory)
{
	DIR *dir = opendir(directory->path);
	const struct dirent *entry;
	int r = 0;

	/* It may have been removed. */
	if (!dir)
		return 0;
	while (r >= 0 && (entry = readdir(dir)))
		r = add_entry(directory, entry->d_name);
	(void)closedir(dir);
	return r;
}

static int add_directory(struct plugin_watcher *watcher, const char *path, unsigned depth)
{
	struct watched_directory *directory;
	int r;

	if (depth > DIRECTORY_DEPTH)
		return 0;
	directory = calloc(1, sizeof(*directory) + strlen(path) + 1);
	if (!directory)
		return -ENOMEM;
	directory->watcher = watcher;
	directory->depth = depth;
	(void)stpcpy(directory->path, path);
	r = sd_event_add_inotify(watcher->manager->event, &directory->source, path,
		IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR, on_file, directory);
	if (r < 0) {
		free(directory);
		return depth > 0 && r == -ENOENT ? 0 : r;
	}
	directory->next = watcher->directories;
	watcher->directories = directory;
	return walk(directory);
}

int plugin_watcher_new(struct manager *manager, const char *directory, struct plugin_watcher **ret,
	struct error *error)
{
	struct plugin_watcher *watcher = calloc(1, sizeof(*watcher));
	int r;

	if (!watcher)
		return error_set(error, -ENOMEM, "out of memory");
	watcher->manager = manager;
	r = make_directory(directory, 0755);
	if (r >= 0)
		r = add_directory(watcher, directory, 0);
	if (r >= 0)
		r = sd_event_add_time_relative(manager->event, &watcher->timer, CLOCK_MONOTONIC, 0,
			1, on_reconcile, watcher);
	if (r < 0) {
		(void)plugin_watcher_free(watcher);
		return error_set(error, r, "cannot watch %s: %s", directory, strerror(-r));
	}
	*ret = watcher;
	return 0;
}

void plugin_watcher_stop(struct plugin_watcher *watcher)
{
	for (struct plugin_socket *s = watcher ? watcher->sockets : NULL; s; s = s->next)
		s->stopping = true;
}

struct plugin_watcher *plugin_watcher_free(struct plugin_watcher *watcher)
{
	struct watched_directory *next;

	if (!watcher)
		return NULL;
	sd_event_source_disable_unref(watcher->timer);
	for (struct watched_directory *d = watcher->directories; d; d = next) {
		next = d->next;
		sd_event_source_disable_unref(d->source);
		free(d);
	}
	while (watcher->sockets)
		socket_free(watcher, watcher->sockets);
	free(watcher);
	return NULL;
}
