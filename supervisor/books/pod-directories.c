/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a pod has ended. For each pod of the checkpoint whose directory was ever seen, it
 * keeps whether the directory is still there.
 */
#include "supervisor/books/pod-directories.h"

#include <jansson.h>

#include "common/log.h"
#include "drivers/host/watch.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"
#include "supervisor/kubelet/pod-logs.h"

struct pod_directories {
	struct watcher *watcher;
	struct watch *watch; /* NULL: none */
	void (*on_change)(void *userdata);
	void *userdata;
	char *path;
	json_t *seen; /* by UID: the pod, or false if its directory was removed */
};

static void on_entry(enum watch_change change, const char *name, void *userdata)
{
	struct pod_directories *directories = userdata;

	directories->on_change(directories->userdata);
}

void pod_directories_follow(struct pod_directories *directories, const char *pod_logs_dir)
{
	char *path;

	if (directories->path && streq(directories->path, pod_logs_dir))
		return;
	path = strdup(pod_logs_dir);
	if (!path)
		return;
	free(directories->path);
	directories->path = path;
	directories->watch = watch_free(directories->watch);
	(void)json_object_clear(directories->seen);
}

void pod_directories_watch(struct pod_directories *directories, bool wanted)
{
	int r;

	if (!wanted || !directories->path || !directories->watcher) {
		directories->watch = watch_free(directories->watch);
		return;
	}
	if (directories->watch)
		return;
	r = watch_add(directories->watcher, directories->path, WATCH_ENTRIES, on_entry, directories,
		&directories->watch);
	if (r < 0)
		log_debug("cannot watch %s: %s", directories->path, watch_strerror(r));
}

/* All pods with a directory by their UIDs, or NULL if they are not known. */
static json_t *read_all(const struct pod_directories *directories)
{
	json_t *found = directories->path ? pod_logs_read(directories->path) : NULL;

	/* Some may have been left out. */
	if (json_object_size(found) >= POD_LOGS_MAX / 2) {
		json_decref(found);
		return NULL;
	}
	return found;
}

bool pod_directories_look(
	struct pod_directories *directories, const struct kubelet_checkpoint *checkpoint)
{
	bool any = checkpoint && checkpoint->count > 0;
	json_auto_t *found = any ? read_all(directories) : json_object();
	json_t *seen = found ? json_object() : NULL;
	bool all = true;

	if (!seen)
		return false;
	for (size_t i = 0; checkpoint && i < checkpoint->count; i++) {
		const char *uid = checkpoint->rows[i].pod_uid;
		json_t *pod = json_object_get(found, uid);

		if (pod)
			(void)json_object_set(seen, uid, pod);
		else if (json_object_get(directories->seen, uid))
			(void)json_object_set_new(seen, uid, json_false());
		else
			all = false;
	}
	json_decref(directories->seen);
	directories->seen = seen;
	return all;
}

const json_t *pod_directories_find(const struct pod_directories *directories, const char *uid)
{
	const json_t *pod = json_object_get(directories->seen, uid);

	return json_is_object(pod) ? pod : NULL;
}

bool pod_directories_lost(const struct pod_directories *directories, const char *uid)
{
	return json_is_false(json_object_get(directories->seen, uid));
}

int pod_directories_new(sd_event *event, void (*on_change)(void *userdata), void *userdata,
	struct pod_directories **ret)
{
	_cleanup_(pod_directories_freep) struct pod_directories *directories =
		calloc(1, sizeof(*directories));
	int r;

	if (!directories)
		return -ENOMEM;
	directories->on_change = on_change;
	directories->userdata = userdata;
	directories->seen = json_object();
	if (!directories->seen)
		return -ENOMEM;
	r = watcher_new(event, "", &directories->watcher);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(directories);
	return 0;
}

void pod_directories_stop(struct pod_directories *directories)
{
	directories->watch = watch_free(directories->watch);
	directories->watcher = watcher_free(directories->watcher);
}

struct pod_directories *pod_directories_free(struct pod_directories *directories)
{
	if (!directories)
		return NULL;
	pod_directories_stop(directories);
	json_decref(directories->seen);
	free(directories->path);
	free(directories);
	return NULL;
}
