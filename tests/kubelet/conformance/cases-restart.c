/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What breaks while a plugin serves: the kubelet, the directory, the stream, the plugin. After each
 * the same devices must be offered again, without help.
 */
#include "conformance.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>

#include "../checkpoint.h"
#include "../connection.h"
#include "../id-set.h"
#include "../plugin-dir.h"
#include "call.h"

#define RESTARTS      5
#define CRASHES       10
#define CRASH_LATEST  (60 * USEC_PER_MSEC)
#define GHOST_LIFE    (200 * USEC_PER_MSEC)
#define PLUGIN_DEATHS 3

static int take_ids(struct trial *trial, struct id_set *ret)
{
	const struct device_table *devices = trial_devices(trial);
	int r = 0;

	for (size_t i = 0; devices && i < devices->count && r >= 0; i++)
		r = id_set_insert(ret, devices->devices[i].id);
	return r;
}

/* Waits until the resource serves again, and compares the ids with those from before. */
static enum verdict check_back(struct trial *trial, const struct id_set *before, const char *after)
{
	const struct device_table *devices;
	char message[sizeof(trial->message)];

	if (!trial_await_serving(trial)) {
		memcpy(message, trial->message, sizeof(message));
		return trial_fail(trial, "after %s: %.600s", after, message);
	}
	devices = trial_devices(trial);
	for (size_t i = 0; i < devices->count; i++)
		if (!id_set_contains(before, devices->devices[i].id))
			return trial_fail(trial,
				"after %s there is a device \"%.100s\" that was not there before",
				after, devices->devices[i].id);
	if (devices->count != before->count)
		return trial_fail(trial, "after %s there are %zu devices, before there were %zu",
			after, devices->count, before->count);
	return VERDICT_OK;
}

static enum verdict kubelet_restarts(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_id_set_ struct id_set before = {};
	enum verdict verdict = VERDICT_OK;

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	for (unsigned i = 0; i < RESTARTS && verdict == VERDICT_OK; i++) {
		trial_kill_kubelet(trial);
		verdict = trial_start_kubelet(trial)
			? check_back(trial, &before, "a restart of the kubelet")
			: VERDICT_NOT_OK;
	}
	return verdict;
}

static enum verdict kubelet_crash_loops(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_id_set_ struct id_set before = {};

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	for (unsigned i = 0; i < CRASHES; i++) {
		uint64_t life = model_random(trial->manager->model, CRASH_LATEST);

		trial_kill_kubelet(trial);
		if (!trial_start_kubelet(trial))
			return VERDICT_NOT_OK;
		trial_pass(trial, life);
	}
	return check_back(trial, &before, "ten crashes of the kubelet in a row");
}

static void remove_sockets(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		struct stat st;

		if (streq(entry->d_name, CHECKPOINT_NAME) ||
			(fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) >= 0 &&
				S_ISSOCK(st.st_mode)))
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	}
	(void)closedir(dir);
}

static enum verdict directory_is_wiped(struct trial *trial, const struct conformance_case *self)
{
	const char *dir = trial->options->plugin_dir;
	_cleanup_id_set_ struct id_set before = {};

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	trial_kill_kubelet(trial);
	remove_sockets(dir);
	/* A plugin may bind a new socket in between. */
	if (rmdir(dir) < 0) {
		remove_sockets(dir);
		if (rmdir(dir) < 0) {
			int code = errno;

			(void)trial_start_kubelet(trial);
			return trial_skip(trial, "cannot remove %s: %s", dir, strerror(code));
		}
	}
	trial_pass(trial, GHOST_LIFE);
	if (!trial_start_kubelet(trial))
		return VERDICT_NOT_OK;
	return check_back(trial, &before, "the directory was removed and made again");
}

static bool stream_has_ended(struct trial *trial, const void *data)
{
	return trial->counts.ended > *(const unsigned *)data;
}

/* Breaks the stream or the connection while kubelet.sock stays as it is. */
static enum verdict loses(struct trial *trial, const struct conformance_case *self,
	int (*lose)(struct manager *manager, const char *resource), const char *what)
{
	_cleanup_id_set_ struct id_set before = {};
	unsigned ended = trial->counts.ended;

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	(void)lose(trial->manager, trial->resource);
	if (!trial_await(trial, stream_has_ended, &ended))
		return trial_fail(trial, "%s, but the stream did not end", what);
	return check_back(trial, &before, what);
}

static enum verdict stream_is_cancelled(struct trial *trial, const struct conformance_case *self)
{
	return loses(trial, self, connection_end_stream, "the kubelet cancelled ListAndWatch");
}

static enum verdict connection_is_lost(struct trial *trial, const struct conformance_case *self)
{
	return loses(trial, self, connection_drop, "the kubelet closed the connection");
}

static enum verdict socket_is_removed(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_id_set_ struct id_set before = {};
	const char *path = trial_socket(trial);

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	if (!path || unlink(path) < 0)
		return trial_skip(trial, "the plugin's socket cannot be removed");
	trial_pass(trial, GHOST_LIFE);
	/* From here on nobody can dial it: only a new socket helps. */
	trial_kill_kubelet(trial);
	if (!trial_start_kubelet(trial))
		return VERDICT_NOT_OK;
	return check_back(
		trial, &before, "the plugin's socket was removed and the kubelet restarted");
}

static enum verdict plugin_is_killed(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_id_set_ struct id_set before = {};
	enum verdict verdict = VERDICT_OK;

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	for (unsigned i = 0; i < PLUGIN_DEATHS && verdict == VERDICT_OK; i++) {
		if (!trial_kill_plugin(trial))
			return VERDICT_NOT_OK;
		verdict = trial_start_plugin(trial)
			? check_back(trial, &before, "the plugin was killed and started again")
			: VERDICT_NOT_OK;
	}
	return verdict;
}

/* The new one registers while the kubelet has not noticed the end of the old one. */
static enum verdict plugin_is_replaced(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_id_set_ struct id_set before = {};

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	for (unsigned i = 0; i < PLUGIN_DEATHS; i++) {
		plugin_process_kill(&trial->plugin);
		if (!trial_start_plugin(trial))
			return VERDICT_NOT_OK;
		(void)usleep((useconds_t)(GHOST_LIFE / 2));
	}
	trial_pass(trial, GHOST_LIFE);
	return check_back(trial, &before, "the plugin was replaced three times in a row");
}

static const struct conformance_case cases[] = {
	{ 40, "kubelet-restarts", "registers the same devices after each restart of the kubelet",
		"a restart removes all sockets and forgets every plugin; ids are the key of what pods hold",
		138446, NEEDS_SERVING, kubelet_restarts, NULL },
	{ 41, "kubelet-crash-loops", "ends up registered after ten crashes of the kubelet in a row",
		"a half-finished registration with a kubelet that is gone must not block the next",
		0, NEEDS_SERVING, kubelet_crash_loops, NULL },
	{ 42, "directory-is-wiped",
		"registers after the plugin directory was removed and made again",
		"a watch on a removed directory sees nothing any more", 0,
		NEEDS_SERVING | NEEDS_REGISTER, directory_is_wiped, NULL },
	{ 43, "stream-is-cancelled", "registers again when its stream is cancelled",
		"the kubelet cancels the live stream when an older one ends, and never asks again",
		127803, NEEDS_SERVING, stream_is_cancelled, NULL },
	{ 44, "connection-is-lost", "registers again when its connection is closed",
		"a stream that ends is for ever 0 devices, unless the plugin registers by itself",
		121994, NEEDS_SERVING, connection_is_lost, NULL },
	{ 45, "socket-is-removed", "makes a new socket when its socket was removed",
		"the kubelet removes the sockets of all plugins when it starts", 0,
		NEEDS_SERVING | NEEDS_REGISTER, socket_is_removed, NULL },
	{ 46, "plugin-is-killed", "offers the same devices after it was killed and started again",
		"pods hold devices by id, and the old socket is still there", 99571,
		NEEDS_SERVING | NEEDS_COMMAND, plugin_is_killed, NULL },
	{ 47, "plugin-is-replaced", "ends up registered after it was replaced in quick succession",
		"if it registers before the kubelet has seen the end of the old stream, that end hits the new one",
		127803, NEEDS_SERVING | NEEDS_COMMAND, plugin_is_replaced, NULL },
};

const struct case_table restart_cases = { cases, ARRAY_SIZE(cases) };
