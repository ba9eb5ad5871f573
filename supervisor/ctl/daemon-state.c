/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects what devplugctl shows: the daemon's answer, and the documents of devices that the
 * processes of resources made, which may have any content. So each member is copied with the type
 * that it must have.
 */
#include "supervisor/ctl/daemon-state.h"
#include "common/request-message.h"
#include "configuration/config.h"
#include "drivers/model/suggest.h"
#include "supervisor/control/ask.h"
#include "supervisor/ctl/holders.h"

static json_t *clean_numa(const json_t *device)
{
	const json_t *nodes = json_object_get(device, "numa");
	json_t *clean = json_array();

	for (size_t i = 0; i < json_array_size(nodes); i++)
		if (json_is_integer(json_array_get(nodes, i)))
			(void)json_array_append(clean, json_array_get(nodes, i));
	return clean;
}

static json_t *clean_attributes(json_t *attributes)
{
	json_t *clean = json_object(), *value;
	const char *name;

	json_object_foreach(attributes, name, value) if (json_is_string(value))(void)
		json_object_set_new(clean, name, snapshot_clean_text(json_string_value(value)));
	return clean;
}

/* A process may report any number; the sums over all devices must not overflow. */
static json_int_t clean_replicas(const json_t *device)
{
	const json_t *replicas = json_object_get(device, "replicas");
	json_int_t n = replicas ? json_integer_value(replicas) : 1;

	return MIN_OF(MAX_OF(n, 0), INT32_MAX);
}

/* Only devices that are served by DRA have attributes. */
static json_t *clean_device(const json_t *device)
{
	json_t *clean = json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "id",
		snapshot_clean_string(device, "id"), "health",
		snapshot_clean_string(device, "health"), "reason",
		snapshot_clean_string(device, "reason"), "since",
		snapshot_clean_string(device, "since"), "numa", clean_numa(device), "replicas",
		clean_replicas(device), "allocations", snapshot_integer(device, "allocations"));
	json_t *attributes = json_object_get(device, "attributes");

	if (clean && attributes) {
		(void)json_object_set_new(clean, "attributes", clean_attributes(attributes));
		(void)json_object_set_new(clean, "cause", snapshot_clean_string(device, "cause"));
		(void)json_object_set_new(clean, "shared",
			json_boolean(json_is_true(json_object_get(device, "shared"))));
	}
	return clean;
}

static json_t *clean_devices(const json_t *document)
{
	const json_t *devices = json_object_get(document, "devices");
	json_t *clean = json_array();

	for (size_t i = 0; i < json_array_size(devices); i++)
		if (json_is_object(json_array_get(devices, i)))
			(void)json_array_append_new(
				clean, clean_device(json_array_get(devices, i)));
	return clean;
}

static json_t *clean_strings(const json_t *object, const char *key)
{
	const json_t *strings = json_object_get(object, key);
	json_t *clean = json_array();

	for (size_t i = 0; i < json_array_size(strings); i++)
		if (json_is_string(json_array_get(strings, i)))
			(void)json_array_append_new(clean,
				snapshot_clean_text(json_string_value(json_array_get(strings, i))));
	return clean;
}

static json_t *clean_failures(const json_t *resource)
{
	static const char *const strings[] = { "call", "last", "text" };
	const json_t *failures = json_object_get(resource, "failures"), *failure;
	json_t *clean = json_array();
	size_t i;

	json_array_foreach(failures, i, failure)
	{
		json_t *one = json_pack("{s:I, s:o}", "count", snapshot_integer(failure, "count"),
			"devices", clean_strings(failure, "devices"));

		for (size_t k = 0; k < ARRAY_SIZE(strings); k++)
			(void)json_object_set_new(
				one, strings[k], snapshot_clean_string(failure, strings[k]));
		(void)json_array_append_new(clean, one);
	}
	return clean;
}

static json_t *clean_resource(const json_t *resource, const json_t *document)
{
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:b, s:I, s:I, s:o, s:o, s:o, s:b, s:o, s:I, "
		"s:o, s:o, s:o, s:o}",
		"name", snapshot_clean_string(resource, "name"), "driver",
		snapshot_clean_string(resource, "driver"), "state",
		snapshot_clean_string(resource, "state"), "reason",
		snapshot_clean_string(resource, "reason"), "pid", snapshot_integer(resource, "pid"),
		"session", snapshot_integer(resource, "session"), "restarts",
		snapshot_integer(resource, "restarts"), "registered",
		(int)json_is_true(json_object_get(resource, "registered")), "devices_total",
		snapshot_integer(resource, "devices_total"), "devices_healthy",
		snapshot_integer(resource, "devices_healthy"), "since",
		snapshot_clean_string(resource, "since"), "next_try",
		snapshot_clean_string(resource, "next_try"), "registration",
		snapshot_clean_string(resource, "registration"), "refused",
		(int)json_is_true(json_object_get(resource, "refused")), "note",
		snapshot_clean_string(resource, "note"), "allocations",
		snapshot_integer(document, "allocations"), "last_allocation",
		snapshot_clean_string(document, "last_allocation"), "devices",
		clean_devices(document), "scan_notes", clean_strings(document, "scan_notes"),
		"failures", clean_failures(resource));
}

static json_t *clean_resources(const json_t *state, const json_t *documents)
{
	const json_t *pods_failure = json_object_get(state, "pods_failure");
	bool known = json_is_string(pods_failure) && *json_string_value(pods_failure) == '\0';
	json_t *resources = json_array(), *found;
	size_t i;

	json_array_foreach(json_object_get(state, "resources"), i, found)
	{
		json_t *resource;

		if (!json_is_object(found))
			continue;
		resource =
			clean_resource(found, json_object_get(documents, text_of(found, "name")));
		holders_join(resource, found, known);
		(void)json_array_append_new(resources, resource);
	}
	return resources;
}

/* What serves resources by DRA; NULL where none is. */
static json_t *clean_dra(const json_t *state)
{
	const json_t *dra = json_object_get(state, "dra");

	if (!json_is_object(dra))
		return NULL;
	return json_pack("{s:o, s:o, s:I, s:b, s:I, s:I, s:I, s:o, s:o}", "driver",
		snapshot_clean_string(dra, "driver"), "node", snapshot_clean_string(dra, "node"),
		"pid", snapshot_integer(dra, "pid"), "registered",
		(int)json_is_true(json_object_get(dra, "registered")), "generation",
		snapshot_integer(dra, "generation"), "slices", snapshot_integer(dra, "slices"),
		"claims", snapshot_integer(dra, "claims"), "registration_failure",
		snapshot_clean_string(dra, "registration_failure"), "api_failure",
		snapshot_clean_string(dra, "api_failure"));
}

static int join(struct snapshot *snapshot, const json_t *state, const json_t *documents)
{
	json_t *dra;

	snapshot->root = json_pack("{s:i, s:I, s:I, s:o, s:b, s:I, s:b, s:b, s:o, s:I, s:o, s:o}",
		"version", SNAPSHOT_VERSION, "generation", snapshot_integer(state, "generation"),
		"pid", snapshot_integer(state, "pid"), "config_file",
		snapshot_clean_string(state, "config_file"), "running", (int)snapshot->running,
		"reloads", snapshot_integer(state, "reloads"), "reload_failed",
		(int)json_is_true(json_object_get(state, "reload_failed")), "on_last_accepted",
		(int)json_is_true(json_object_get(state, "on_last_accepted")), "pods_failure",
		snapshot_clean_string(state, "pods_failure"), "pods_waited",
		snapshot_integer(state, "pods_waited"), "metrics_failure",
		snapshot_clean_string(state, "metrics_failure"), "resources",
		clean_resources(state, documents));
	dra = clean_dra(state);
	if (!snapshot->root || (dra && json_object_set_new(snapshot->root, "dra", dra) < 0))
		return -ENOMEM;
	return 0;
}

static bool has_daemon(const char *runtime_dir)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/" REQUEST_SOCKET, runtime_dir) < 0)
		path = NULL;
	return path && access(path, F_OK) == 0;
}

char *runtime_dir_find(const char *config_file, const char *runtime_dir)
{
	const char *file = config_file ?: DEFAULT_CONFIG_FILE;
	char *found;

	if (runtime_dir)
		return strdup(runtime_dir);
	if (config_find_runtime_dir(file, &found) < 0)
		return NULL;
	/* The file contains a different one for the next start. */
	if (streq(file, DEFAULT_CONFIG_FILE) && !has_daemon(found) &&
		has_daemon(DEFAULT_RUNTIME_DIR)) {
		free(found);
		return strdup(DEFAULT_RUNTIME_DIR);
	}
	return found;
}

int snapshot_read(
	const char *config_file, const char *runtime_dir, struct snapshot *ret, struct error *error)
{
	_cleanup_(snapshot_done) struct snapshot snapshot = { 0 };
	json_auto_t *state = NULL, *documents = NULL;
	int r;

	snapshot.runtime_dir = runtime_dir_find(config_file, runtime_dir);
	if (!snapshot.runtime_dir)
		return error_set(error, -ENOMEM, "out of memory");
	r = ask_status(snapshot.runtime_dir, &state, &documents, &snapshot.unanswered);
	snapshot.running = r != -ESRCH;
	r = join(&snapshot, state, documents);
	if (r < 0)
		return error_set(error, r, "out of memory");
	*ret = snapshot;
	snapshot = (struct snapshot){ 0 };
	return 0;
}

const char *snapshot_suggest(const json_t *objects, const char *key, const char *word)
{
	_cleanup_free_ const char **words = calloc(json_array_size(objects) + 1, sizeof(*words));

	for (size_t i = 0; words && i < json_array_size(objects); i++)
		words[i] = text_of(json_array_get(objects, i), key);
	return words ? suggest_word(word, words, json_array_size(objects)) : NULL;
}

/* The file that declares the resource for the next reload (malloc'ed), or NULL. */
static char *find_declaring_file(const struct snapshot *snapshot, const char *name)
{
	const char *file = text_of(snapshot->root, "config_file");
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	const struct resource_config *resource;

	if (!snapshot->running || config_load(file, &report, &config) < 0)
		return NULL;
	resource = config_find(config, name);
	return resource ? strdup(resource->declaration.origin.file ?: file) : NULL;
}

static int unknown_resource(const struct snapshot *snapshot, const char *name, struct error *error)
{
	const json_t *resources = json_object_get(snapshot->root, "resources");
	const char *suggestion = snapshot_suggest(resources, "name", name);
	_cleanup_free_ char *file = find_declaring_file(snapshot, name);

	if (file)
		return error_set(error, -ENOENT,
			"devplugd has no resource \"%s\"; %s declares it, but it is not applied: run \"devplugctl reload\"",
			name, file);
	if (suggestion)
		return error_set(error, -ENOENT,
			"devplugd has no resource \"%s\", did you mean \"%s\"?", name, suggestion);
	return error_set(
		error, -ENOENT, "devplugd has no resource \"%s\"; see \"devplugctl status\"", name);
}

int snapshot_select(struct snapshot *snapshot, const char *resource, struct error *error)
{
	json_t *resources = json_object_get(snapshot->root, "resources"), *selected = NULL;

	if (snapshot->unanswered.code < 0)
		return error_set(
			error, snapshot->unanswered.code, "%s", snapshot->unanswered.message);
	for (size_t i = 0; i < json_array_size(resources); i++)
		if (streq(text_of(json_array_get(resources, i), "name"), resource))
			selected = json_incref(json_array_get(resources, i));
	if (!selected)
		return unknown_resource(snapshot, resource, error);
	(void)json_array_clear(resources);
	(void)json_array_append_new(resources, selected);
	return 0;
}

int snapshot_select_pod(struct snapshot *snapshot, const char *pod, struct error *error)
{
	const char *failure = text_of(snapshot->root, "pods_failure");
	json_t *resource;
	size_t i, n = 0;

	if (!strchr(pod, '/'))
		return error_set(error, -EINVAL, "the pod must have the form NAMESPACE/NAME");
	json_array_foreach(json_object_get(snapshot->root, "resources"), i, resource) n +=
		holders_select_pod(resource, pod);
	if (n > 0)
		return 0;
	if (snapshot->unanswered.code < 0)
		return error_set(error, -ENODATA, "%s", snapshot->unanswered.message);
	if (*failure)
		return error_set(error, -ENODATA,
			"the kubelet does not report which pod has which device: %s", failure);
	return error_set(error, -ENOENT, "no pod %s has a device of devplugd", pod);
}

void snapshot_done(struct snapshot *snapshot)
{
	json_decref(snapshot->root);
	free(snapshot->runtime_dir);
}
