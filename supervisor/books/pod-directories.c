/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a pod has ended. For each pod of the checkpoint whose directory was ever seen, it
 * keeps whether the directory is still there. A person may have removed it, so if PodResources can
 * be asked, the pod has ended only after a question that was asked later.
 */
#include "supervisor/books/pod-directories.h"

#include <jansson.h>

#include "common/json-read.h"
#include "common/log.h"
#include "drivers/host/watch.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"
#include "supervisor/kubelet/pod-logs.h"

struct pod_directories {
	struct watcher *watcher;
	struct watch *watch; /* NULL: none */
	void (*on_change)(void *userdata);
	void *userdata;
	char *path;
	json_t *seen;    /* by UID: the pod */
	json_t *removed; /* by UID: since when its directory is, or true: the pod has ended */
	bool asks;       /* whether PodResources can be asked */
	uint64_t kubelet_number;
	uint64_t kubelet_since; /* since when it is known to run */
};

static void on_entry(enum watch_change change, const char *name, void *userdata)
{
	struct pod_directories *directories = userdata;

	directories->on_change(directories->userdata);
}

void pod_directories_follow(struct pod_directories *directories, const char *pod_logs_dir,
	bool asks, uint64_t kubelet_number)
{
	char *path;

	directories->asks = asks;
	if (directories->kubelet_number != kubelet_number)
		directories->kubelet_since = now_usec(CLOCK_MONOTONIC);
	directories->kubelet_number = kubelet_number;
	if (directories->path && streq(directories->path, pod_logs_dir))
		return;
	path = strdup(pod_logs_dir);
	if (!path)
		return;
	free(directories->path);
	directories->path = path;
	directories->watch = watch_free(directories->watch);
	(void)json_object_clear(directories->seen);
	(void)json_object_clear(directories->removed);
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

static void keep_removed(
	const struct pod_directories *directories, const char *uid, json_t *seen, json_t *removed)
{
	json_t *since = json_object_get(directories->removed, uid);

	(void)json_object_set(seen, uid, json_object_get(directories->seen, uid));
	if (since)
		(void)json_object_set(removed, uid, since);
	else
		(void)json_object_set_new(
			removed, uid, json_integer((json_int_t)now_usec(CLOCK_MONOTONIC)));
}

bool pod_directories_look(
	struct pod_directories *directories, const struct kubelet_checkpoint *checkpoint)
{
	bool any = checkpoint && checkpoint->count > 0;
	json_auto_t *found = any ? read_all(directories) : json_object();
	json_auto_t *seen = json_object(), *removed = json_object();
	bool all = true;

	if (!checkpoint)
		return true;
	if (!found || !seen || !removed)
		return false;
	for (size_t i = 0; i < checkpoint->count; i++) {
		const char *uid = checkpoint->rows[i].pod_uid;
		json_t *pod = json_object_get(found, uid);

		if (pod)
			(void)json_object_set(seen, uid, pod);
		else if (json_object_get(directories->seen, uid))
			keep_removed(directories, uid, seen, removed);
		else
			all = false;
	}
	json_decref(directories->seen);
	json_decref(directories->removed);
	directories->seen = TAKE_PTR(seen);
	directories->removed = TAKE_PTR(removed);
	return all;
}

bool pod_directories_await(const struct pod_directories *directories, uint64_t after)
{
	const json_t *since;
	const char *uid;

	json_object_foreach((json_t *)directories->removed, uid, since) if (directories->asks &&
		json_is_integer(since) && (uint64_t)json_integer_value(since) > after) return true;
	return false;
}

/* Whether the answer names the pod with a device that the checkpoint books for it. */
static bool is_named(const struct pod_directories *directories, const char *uid,
	const struct kubelet_checkpoint *checkpoint, const struct pod_table *pods)
{
	const json_t *pod = json_object_get(directories->seen, uid);

	for (size_t i = 0; i < checkpoint->count; i++) {
		const struct kubelet_checkpoint_row *row = &checkpoint->rows[i];

		if (!streq(row->pod_uid, uid))
			continue;
		for (size_t k = 0; k < pods->n_devices; k++)
			if (streq(pods->devices[k].id, row->id) &&
				streq(pods->devices[k].resource, row->resource) &&
				streq(pods->devices[k].container->pod, text_of(pod, "pod")) &&
				streq(pods->devices[k].container->namespace,
					text_of(pod, "namespace")))
				return true;
	}
	return false;
}

/* Whether the answer shows that a pod has ended whose directory was removed at that time. */
static bool is_ended(const struct pod_directories *directories, uint64_t removed_at,
	const struct pod_answer *answer, uint64_t interval)
{
	if (!answer->table)
		return answer->error == -ENOENT || answer->error == -EOPNOTSUPP;
	return removed_at >= directories->kubelet_since && removed_at <= answer->asked_at &&
		directories->kubelet_since + interval <= answer->asked_at;
}

void pod_directories_answered(struct pod_directories *directories,
	const struct kubelet_checkpoint *checkpoint, const struct pod_answer *answer,
	uint64_t interval)
{
	const json_t *since;
	const char *uid;
	void *next;

	json_object_foreach_safe(directories->removed, next, uid, since)
	{
		bool named = checkpoint && answer->table &&
			is_named(directories, uid, checkpoint, answer->table);

		if (named && json_is_true(since))
			(void)json_object_set_new(directories->removed, uid,
				json_integer((json_int_t)now_usec(CLOCK_MONOTONIC)));
		else if (!named && json_is_integer(since) &&
			is_ended(
				directories, (uint64_t)json_integer_value(since), answer, interval))
			(void)json_object_set_new(directories->removed, uid, json_true());
	}
}

const json_t *pod_directories_find(const struct pod_directories *directories, const char *uid)
{
	return json_object_get(directories->removed, uid) ? NULL
							  : json_object_get(directories->seen, uid);
}

bool pod_directories_lost(const struct pod_directories *directories, const char *uid)
{
	const json_t *since = json_object_get(directories->removed, uid);

	return since && (json_is_true(since) || !directories->asks);
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
	directories->removed = json_object();
	if (!directories->seen || !directories->removed)
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
	json_decref(directories->removed);
	free(directories->path);
	free(directories);
	return NULL;
}
