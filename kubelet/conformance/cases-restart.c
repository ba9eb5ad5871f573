/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests failures of the kubelet, the directory, the stream and the plugin. After each one, the same
 * devices must be offered again automatically.
 */
#include "kubelet/conformance/conformance.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>

#include "kubelet/checkpoint.h"
#include "kubelet/conformance/devices.h"
#include "kubelet/connection.h"
#include "kubelet/id-set.h"
#include "kubelet/plugin-dir.h"
#include "kubelet/pod-file.h"

#define RESTARTS      5
#define CRASHES       10
#define CRASH_LATEST  (60 * USEC_PER_MSEC)
#define GHOST_LIFE    (200 * USEC_PER_MSEC)
#define PLUGIN_DEATHS 3
#define POD_NAME      "conformance"

static int take_ids(struct trial *trial, struct id_set *ret)
{
	const struct device_table *devices = trial_devices(trial);
	int r = 0;

	for (size_t i = 0; devices && i < devices->count && r >= 0; i++)
		r = id_set_insert(ret, devices->devices[i].id);
	return r;
}

/* Waits until the resource serves again, and compares the ids with those from before. */
static enum outcome check_back(struct trial *trial, const struct id_set *before, const char *after)
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
			return trial_fail(trial, "after %s, there is a new device \"%.100s\"",
				after, devices->devices[i].id);
	if (devices->count != before->count)
		return trial_fail(trial, "after %s, there are %zu devices; before, there were %zu",
			after, devices->count, before->count);
	return OUTCOME_OK;
}

static enum outcome kubelet_restarts(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_id_set_ struct id_set before = {};
	enum outcome outcome = OUTCOME_OK;

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	for (unsigned i = 0; i < RESTARTS && outcome == OUTCOME_OK; i++) {
		trial_kill_kubelet(trial);
		outcome = trial_start_kubelet(trial)
			? check_back(trial, &before, "a restart of the kubelet")
			: OUTCOME_NOT_OK;
	}
	return outcome;
}

static enum outcome kubelet_crash_loops(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_id_set_ struct id_set before = {};

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	for (unsigned i = 0; i < CRASHES; i++) {
		uint64_t life = model_random(trial->manager->model, CRASH_LATEST);

		trial_kill_kubelet(trial);
		if (!trial_start_kubelet(trial))
			return OUTCOME_NOT_OK;
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

/* Tries more than once, because a plugin may bind a new socket in between. */
static bool directory_is_removed(struct trial *trial, const void *data)
{
	remove_sockets(data);
	return rmdir(data) >= 0;
}

static enum outcome directory_is_wiped(struct trial *trial, const struct conformance_case *self)
{
	const char *dir = trial->options->plugin_dir;
	_cleanup_id_set_ struct id_set before = {};

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	trial_kill_kubelet(trial);
	if (!trial_await(trial, directory_is_removed, dir)) {
		int code = errno;

		(void)trial_start_kubelet(trial);
		return trial_skip(trial, "cannot remove %s: %s", dir, strerror(code));
	}
	trial_pass(trial, GHOST_LIFE);
	if (!trial_start_kubelet(trial))
		return OUTCOME_NOT_OK;
	return check_back(trial, &before, "the directory was removed and made again");
}

static bool stream_has_ended(struct trial *trial, const void *data)
{
	return trial->counts.ended > *(const unsigned *)data;
}

/* Breaks the stream or the connection while kubelet.sock stays as it is. */
static enum outcome loses(struct trial *trial, const struct conformance_case *self,
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

static enum outcome stream_is_cancelled(struct trial *trial, const struct conformance_case *self)
{
	return loses(trial, self, connection_end_stream, "the kubelet cancelled ListAndWatch");
}

static enum outcome connection_is_lost(struct trial *trial, const struct conformance_case *self)
{
	return loses(trial, self, connection_drop, "the kubelet closed the connection");
}

static enum outcome socket_is_removed(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_id_set_ struct id_set before = {};
	const char *path = trial_socket(trial);

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	if (!path || unlink(path) < 0)
		return trial_skip(trial, "the plugin's socket cannot be removed");
	trial_pass(trial, GHOST_LIFE);
	/* From here on no client can dial it: only a new socket helps. */
	trial_kill_kubelet(trial);
	if (!trial_start_kubelet(trial))
		return OUTCOME_NOT_OK;
	return check_back(
		trial, &before, "the plugin's socket was removed and the kubelet restarted");
}

static enum outcome plugin_is_killed(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_id_set_ struct id_set before = {};
	enum outcome outcome = OUTCOME_OK;

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	for (unsigned i = 0; i < PLUGIN_DEATHS && outcome == OUTCOME_OK; i++) {
		if (!trial_kill_plugin(trial))
			return OUTCOME_NOT_OK;
		outcome = trial_start_plugin(trial)
			? check_back(trial, &before, "the plugin was killed and started again")
			: OUTCOME_NOT_OK;
	}
	return outcome;
}

/* The kubelet was stopped while plugins started and ended: only the first and the last one have a
 * stream. */
static bool has_noticed_the_end(struct trial *trial, const void *data)
{
	const struct trial_counts *before = data, *now = &trial->counts;
	unsigned ended = now->ended - before->ended;

	return ended > 0 && now->registered - before->registered == ended;
}

/* The new plugin registers before the kubelet has noticed the end of the old one. */
static enum outcome plugin_is_replaced(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_id_set_ struct id_set before = {};
	const struct trial_counts counts = trial->counts;

	if (take_ids(trial, &before) < 0)
		return trial_fail(trial, "out of memory");
	for (unsigned i = 0; i < PLUGIN_DEATHS; i++) {
		trial_end_plugin(trial);
		if (!trial_start_plugin(trial))
			return OUTCOME_NOT_OK;
		(void)usleep((useconds_t)(GHOST_LIFE / 2));
	}
	/* A plugin may continue with two streams; it only has to serve again. */
	(void)trial_await(trial, has_noticed_the_end, &counts);
	return check_back(trial, &before, "the plugin was replaced three times in a row");
}

/* Allocates each device and records it for a container of a running pod. */
static bool book_each(struct trial *trial, const struct ids *ids)
{
	struct model *model = trial->manager->model;
	struct pod *pod;

	if (model_add_pod(model, POD_NAME, POD_NAME, POD_NAME, &pod) < 0 ||
		pod_set_status(pod, POD_RUNNING, NULL, NULL) < 0)
		return false;
	for (size_t i = 0; i < ids->n; i++) {
		_cleanup_reply_ struct reply reply = {};
		struct pod_container *container;
		char name[32];

		allocate(trial, ids->list + i, 1, 1, trial->options->timeout, &reply);
		if (reply.status != RPC_OK) {
			(void)trial_fail(
				trial, "Allocate of \"%.100s\": %s", ids->list[i], reply.text);
			return false;
		}
		(void)snprintf(name, sizeof(name), "c%zu", i);
		if (pod_add_container(pod, name, CONTAINER_MAIN, &container) < 0 ||
			container_add_limit(container, trial->resource, 1) < 0 ||
			model_record_allocation(model, POD_NAME, name, trial->resource,
				ids->list + i, 1, (const uint8_t *)"", 0) < 0)
			return false;
	}
	return model_recount_allocated(model) >= 0;
}

static bool keep_state(struct trial *trial)
{
	struct error error = {};

	if (manager_save(trial->manager, &error) >= 0 &&
		pod_file_write(trial->manager->model, trial->kubelet_options.state_dir, &error) >=
			0)
		return true;
	(void)trial_fail(trial, "the tool cannot imitate the kubelet: %s", error.message);
	return false;
}

static bool restart_kubelet(struct trial *trial, enum topology_policy policy)
{
	trial_kill_kubelet(trial);
	trial->kubelet_options.topology =
		(struct topology_rules){ .policy = policy, .n_nodes = TOPOLOGY_MAX_NODES };
	return trial_start_kubelet(trial);
}

static bool has_other_healthy(struct trial *trial, const void *data)
{
	return trial_healthy(trial) != *(const size_t *)data;
}

/* A device is unplugged while it is allocated to a pod, and the kubelet is restarted. */
static enum outcome lose_booked(struct trial *trial)
{
	_cleanup_ids_ struct ids ids = {};
	const struct pod *pod;

	if (!ids_take(trial, &ids) || !book_each(trial, &ids) ||
		!trial_hook(trial, trial->options->hooks.unplug))
		return OUTCOME_NOT_OK;
	if (!trial_await(trial, has_other_healthy, &ids.n))
		return trial_fail(trial, "a device was unplugged, but no list reports it");
	if (!keep_state(trial) || !restart_kubelet(trial, TOPOLOGY_RESTRICTED) ||
		!trial_await_serving(trial))
		return OUTCOME_NOT_OK;
	pod = model_find_pod(trial->manager->model, POD_NAME, POD_NAME);
	if (!pod || pod->phase == POD_RUNNING)
		return OUTCOME_OK;
	return trial_fail(trial, "after a restart of the kubelet the pod has failed: %s: %s",
		pod->reason ? pod->reason : "", pod->message ? pod->message : "");
}

static enum outcome booked_device_vanishes(struct trial *trial, const struct conformance_case *self)
{
	enum outcome outcome = lose_booked(trial);
	struct pod *pod;

	if (outcome != OUTCOME_OK && trial->message[0] == '\0')
		(void)trial_fail(trial, "out of memory");
	if (!trial_plug_again(trial))
		outcome = OUTCOME_NOT_OK;
	/* A kubelet that has died stays dead in this case. */
	trial->panic[0] = '\0';
	if (!restart_kubelet(trial, TOPOLOGY_NONE))
		return OUTCOME_NOT_OK;
	pod = model_find_pod(trial->manager->model, POD_NAME, POD_NAME);
	if (pod)
		model_remove_pod(trial->manager->model, pod);
	(void)model_collect_allocations(trial->manager->model);
	return keep_state(trial) ? outcome : OUTCOME_NOT_OK;
}

static const struct conformance_case cases[] = {
	{ 40, "kubelet-restarts", "registers the same devices after each restart of the kubelet",
		"a restart removes all sockets and forgets every plugin, and the devices of pods are identified by their ids",
		138446, NEEDS_SERVING, kubelet_restarts, NULL },
	{ 41, "kubelet-crash-loops", "is registered after ten crashes of the kubelet in a row",
		"an unfinished registration with a kubelet that has ended must not block the next one",
		0, NEEDS_SERVING, kubelet_crash_loops, NULL },
	{ 42, "directory-is-wiped",
		"registers after the plugin directory was removed and made again",
		"a watch on a removed directory reports no more events", 0,
		NEEDS_SERVING | NEEDS_REGISTER, directory_is_wiped, NULL },
	{ 43, "stream-is-cancelled", "registers again when its stream is cancelled",
		"the kubelet cancels the live stream when an older one ends, and never asks again",
		127803, NEEDS_SERVING, stream_is_cancelled, NULL },
	{ 44, "connection-is-lost", "registers again when its connection is closed",
		"after the stream ends, the node has 0 devices until the plugin registers again",
		121994, NEEDS_SERVING, connection_is_lost, NULL },
	{ 45, "socket-is-removed", "makes a new socket when its socket was removed",
		"the kubelet removes the sockets of all plugins when it starts", 0,
		NEEDS_SERVING | NEEDS_REGISTER, socket_is_removed, NULL },
	{ 46, "plugin-is-killed", "offers the same devices after it was killed and started again",
		"pods hold devices by id, and the old socket still exists", 99571,
		NEEDS_SERVING | NEEDS_COMMAND, plugin_is_killed, NULL },
	{ 47, "plugin-is-replaced", "is registered after it was replaced three times in a row",
		"if it registers before the kubelet has seen the end of the old stream, that end disconnects the new one",
		127803, NEEDS_SERVING | NEEDS_COMMAND, plugin_is_replaced, NULL },
	{ 48, "booked-device-disappears",
		"keeps a removed device in the list, with its NUMA node, while a pod uses it",
		"otherwise a kubelet from 1.34 on panics at each start, and an earlier one fails the pod",
		130050, NEEDS_SERVING | NEEDS_PLUG | NEEDS_DEVICE, booked_device_vanishes, NULL },
};

const struct case_table restart_cases = { cases, ARRAY_SIZE(cases) };
