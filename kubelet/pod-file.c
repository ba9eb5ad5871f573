/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores the pods as a JSON array in a file, which is replaced as a whole at each change.
 */
#include "kubelet/pod-file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "kubelet/file.h"
#include "kubelet/other-resources.h"
#include "kubelet/plugin-text.h"

#define POD_FILE     "pods.json"
#define POD_FILE_MAX (64U << 20)

static json_t *container_to_json_object(const struct pod_container *container)
{
	_cleanup_json_ json_t *limits = json_object();

	for (size_t i = 0; i < container->n_limits; i++)
		if (json_object_set_new(limits, container->limits[i].resource,
			    json_integer((json_int_t)container->limits[i].count)) < 0)
			return NULL;
	return json_pack("{s:s, s:s, s:O, s:O*}", "name", container->name, "kind",
		container_kind_to_string(container->kind), "limits", limits, "others",
		container->others);
}

static json_t *pod_to_json(const struct pod *pod)
{
	_cleanup_json_ json_t *containers = json_array();

	for (size_t i = 0; i < pod->n_containers; i++)
		if (json_array_append_new(
			    containers, container_to_json_object(&pod->containers[i])) < 0)
			return NULL;
	return json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:O, s:O*, s:o*, s:o*}", "uid", pod->uid,
		"namespace", pod->namespace, "name", pod->name, "phase",
		pod_phase_to_string(pod->phase), "static", pod->is_static, "stopped",
		pod->is_stopped, "containers", containers, "claims", pod->claims, "reason",
		pod->reason ? text_json(pod->reason) : NULL, "message",
		pod->message ? text_json(pod->message) : NULL);
}

static void update_directories(const struct model *model, const char *state_dir)
{
	_cleanup_free_ char *path = NULL;
	const struct dirent *entry;
	DIR *stream;

	if (format_text(&path, "%s/pod-logs", state_dir) < 0)
		return;
	(void)mkdir(path, 0750);
	stream = opendir(path);
	if (!stream)
		return;
	for (size_t i = 0; i < model->n_pods; i++) {
		const struct pod *pod = model->pods[i];
		_cleanup_free_ char *name = NULL;

		if (format_text(&name, "%s_%s_%s", pod->namespace, pod->name, pod->uid) >= 0)
			(void)mkdirat(dirfd(stream), name, 0750);
	}
	while ((entry = readdir(stream))) {
		const char *uid = strrchr(entry->d_name, '_');

		if (uid && !model_find_pod_uid(model, uid + 1))
			(void)unlinkat(dirfd(stream), entry->d_name, AT_REMOVEDIR);
	}
	(void)closedir(stream);
}

int pod_file_write(const struct model *model, const char *state_dir, struct error *error)
{
	_cleanup_json_ json_t *pods = json_array();
	_cleanup_free_ char *text = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < model->n_pods; i++)
		r = json_array_append_new(pods, pod_to_json(model->pods[i]));
	text = r == 0 ? json_dumps(pods, JSON_INDENT(1)) : NULL;
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	update_directories(model, state_dir);
	r = file_replace(state_dir, POD_FILE, text, strlen(text), 0600, false);
	if (r < 0)
		return error_set(
			error, r, "cannot write %s/%s: %s", state_dir, POD_FILE, strerror(-r));
	return 0;
}

int pod_read_container(struct pod *pod, json_t *json)
{
	const char *name, *kind_name, *resource;
	json_t *limits, *count, *others = NULL;
	struct pod_container *container;
	enum container_kind kind;
	int r;

	if (json_unpack(json, "{s:s, s:s, s:o, s?o}", "name", &name, "kind", &kind_name, "limits",
		    &limits, "others", &others) < 0 ||
		container_kind_from_string(kind_name, &kind) < 0 ||
		(others && other_resources_check(others) < 0))
		return -EBADMSG;
	r = pod_add_container(pod, name, kind, &container);
	if (r < 0)
		return r;
	container->others = json_incref(others);
	json_object_foreach(limits, resource, count)
	{
		r = container_add_limit(container, resource, (uint64_t)json_integer_value(count));
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_pod(struct model *model, json_t *json)
{
	const char *uid, *namespace, *name, *phase_name, *reason = NULL, *message = "";
	json_t *containers, *container, *claims = NULL;
	enum pod_phase phase;
	struct pod *pod;
	int is_static = false, is_stopped = false, r;
	size_t i;

	if (json_unpack(json, "{s:s, s:s, s:s, s:s, s?b, s?b, s:o, s?o, s?s, s?s}", "uid", &uid,
		    "namespace", &namespace, "name", &name, "phase", &phase_name, "static",
		    &is_static, "stopped", &is_stopped, "containers", &containers, "claims",
		    &claims, "reason", &reason, "message", &message) < 0 ||
		pod_phase_from_string(phase_name, &phase) < 0)
		return -EBADMSG;
	if (phase == POD_PENDING)
		return 0;
	r = model_add_pod(model, uid, namespace, name, &pod);
	if (r < 0)
		return r;
	pod->is_static = is_static;
	pod->is_stopped = is_stopped;
	pod->is_readmitted = false;
	pod->claims = json_incref(claims);
	json_array_foreach(containers, i, container)
	{
		r = pod_read_container(pod, container);
		if (r < 0)
			return r;
	}
	return pod_set_status(pod, phase, reason, message);
}

int pod_file_read(struct model *model, const char *state_dir, struct error *error)
{
	_cleanup_json_ json_t *pods = NULL;
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	json_t *pod;
	size_t size, i;
	int r;

	r = snprintf(path, sizeof(path), "%s/%s", state_dir, POD_FILE);
	if (r < 0 || (size_t)r >= sizeof(path))
		return error_set(error, -ENAMETOOLONG, "%s: the path is too long", state_dir);
	r = file_read(path, POD_FILE_MAX, &text, &size);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set(error, r, "cannot read %s: %s", path, strerror(-r));
	pods = json_loadb(text, size, 0, NULL);
	if (!json_is_array(pods))
		return error_set(error, -EBADMSG, "%s is corrupt: remove it", path);
	json_array_foreach(pods, i, pod)
	{
		r = read_pod(model, pod);
		if (r < 0)
			return error_set(error, r, "%s is corrupt: remove it", path);
	}
	return 0;
}
