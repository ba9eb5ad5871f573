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
#include "supervisor/ctl/evictions.h"
#include "supervisor/ctl/notices.h"
#include "supervisor/ctl/show-usage.h"

static json_t *clean_numbers(const json_t *numbers)
{
	json_t *clean = json_array();

	for (size_t i = 0; i < json_array_size(numbers); i++)
		if (json_is_integer(json_array_get(numbers, i)))
			(void)json_array_append(clean, json_array_get(numbers, i));
	return clean;
}

/* {"string": "X100"}, {"int": 16}, {"bool": true} or {"ints": [0, 1]}. */
static json_t *clean_attribute(json_t *attribute)
{
	json_t *clean = json_object(), *value;
	const char *type;

	json_object_foreach(attribute, type, value)
	{
		if (json_is_string(value))
			(void)json_object_set_new(
				clean, type, clean_text(json_string_value(value)));
		else if (json_is_integer(value) || json_is_boolean(value))
			(void)json_object_set(clean, type, value);
		else if (json_is_array(value))
			(void)json_object_set_new(clean, type, clean_numbers(value));
	}
	return clean;
}

static json_t *clean_attributes(json_t *attributes)
{
	json_t *clean = json_object(), *value;
	const char *name;

	json_object_foreach(attributes, name, value)(void)
		json_object_set_new(clean, name, clean_attribute(value));
	return clean;
}

/* {NAME: {"value", "default", "min", "step", "max", "values"}}. */
static json_t *clean_capacity(json_t *capacity)
{
	static const char *const keys[] = { "value", "default", "min", "step", "max" };
	json_t *clean = json_object(), *rules, *value;
	const char *name;
	size_t i;

	json_object_foreach(capacity, name, rules)
	{
		json_t *one = json_object(), *values = json_array();

		for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
			if (json_is_integer(json_object_get(rules, keys[k])))
				(void)json_object_set(
					one, keys[k], json_object_get(rules, keys[k]));
		json_array_foreach(json_object_get(rules, "values"), i, value)
		{
			if (json_is_integer(value))
				(void)json_array_append(values, value);
		}
		if (json_array_size(values) > 0)
			(void)json_object_set(one, "values", values);
		json_decref(values);
		(void)json_object_set_new(clean, name, one);
	}
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
	json_t *clean = json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "id",
		clean_text_of(device, "id"), "health", clean_text_of(device, "health"), "reason",
		clean_text_of(device, "reason"), "since", clean_text_of(device, "since"), "numa",
		clean_numbers(json_object_get(device, "numa")), "replicas", clean_replicas(device),
		"allocations", integer_of(device, "allocations"), "findings",
		notices_clean(device));
	json_t *attributes = json_object_get(device, "attributes");

	if (clean && attributes) {
		(void)json_object_set_new(clean, "attributes", clean_attributes(attributes));
		(void)json_object_set_new(clean, "memory", clean_text_of(device, "memory"));
		(void)json_object_set_new(
			clean, "capacity", clean_capacity(json_object_get(device, "capacity")));
		(void)json_object_set_new(clean, "by_amount",
			json_boolean(json_is_true(json_object_get(device, "by_amount"))));
		(void)json_object_set_new(
			clean, "pci_address", clean_text_of(device, "pci_address"));
		(void)json_object_set_new(clean, "prefer", clean_text_of(device, "prefer"));
		(void)json_object_set_new(clean, "cause", clean_text_of(device, "cause"));
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
			(void)json_array_append_new(
				clean, clean_text(json_string_value(json_array_get(strings, i))));
	return clean;
}

static json_t *clean_failures(const json_t *resource)
{
	static const char *const texts[] = { "call", "last", "text", NULL };
	const json_t *failures = json_object_get(resource, "failures"), *failure;
	json_t *clean = json_array();
	size_t i;

	json_array_foreach(failures, i, failure)
	{
		json_t *one = json_pack("{s:I, s:o}", "count", integer_of(failure, "count"),
			"devices", clean_strings(failure, "devices"));

		(void)json_array_append_new(clean, add_clean_texts(one, failure, texts));
	}
	return clean;
}

/* What a resource expects; NULL if it expects nothing. Its process reports the rest, as soon as it
 * knows. */
static json_t *clean_expect(const json_t *resource, const json_t *document)
{
	const json_t *expect = json_object_get(document, "expect"), *device;
	const json_t *found = json_object_get(expect, "found");
	json_int_t count = integer_of(resource, "expect");
	json_t *missing = json_array();
	size_t i;

	json_array_foreach(json_object_get(expect, "missing"), i, device)
	{
		(void)json_array_append_new(missing, clean_text_of(device, "id"));
	}
	if (count > 0)
		return json_pack("{s:I, s:O, s:o, s:o, s:o}", "count", count, "found",
			json_is_integer(found) ? found : json_null(), "missing", missing, "extra",
			clean_strings(expect, "extra"), "reason", clean_text_of(expect, "reason"));
	json_decref(missing);
	return NULL;
}

/* NULL if the resource has none. */
static json_t *clean_labels(const json_t *resource)
{
	json_t *labels = json_object_get(resource, "labels"), *value;
	json_t *clean = json_is_object(labels) ? json_object() : NULL;
	const char *name;

	json_object_foreach(labels, name, value)
	{
		if (json_is_string(value))
			(void)json_object_set_new(
				clean, name, clean_text(json_string_value(value)));
	}
	return clean;
}

/* Offered devices with a notice. */
static json_int_t count_noticed(const json_t *devices)
{
	json_int_t n = 0;
	json_t *device;
	size_t i;

	json_array_foreach(devices, i, device) n +=
		!streq(text_of(device, "health"), "Claimed") && notices_exist(device);
	return n;
}

static json_t *clean_resource(const json_t *resource, const json_t *document)
{
	json_t *devices = clean_devices(document);

	return json_pack(
		"{s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:b, s:I, s:I, s:o, s:o, s:o, s:b, s:o, s:I, "
		"s:o, s:o, s:o, s:o, s:o*, s:o*, s:o}",
		"devices_noticed", count_noticed(devices), "name", clean_text_of(resource, "name"),
		"driver", clean_text_of(resource, "driver"), "state",
		clean_text_of(resource, "state"), "reason", clean_text_of(resource, "reason"),
		"pid", integer_of(resource, "pid"), "session", integer_of(resource, "session"),
		"restarts", integer_of(resource, "restarts"), "registered",
		(int)json_is_true(json_object_get(resource, "registered")), "devices_total",
		integer_of(resource, "devices_total"), "devices_healthy",
		integer_of(resource, "devices_healthy"), "since", clean_text_of(resource, "since"),
		"next_try", clean_text_of(resource, "next_try"), "registration",
		clean_text_of(resource, "registration"), "refused",
		(int)json_is_true(json_object_get(resource, "refused")), "note",
		clean_text_of(resource, "note"), "allocations", integer_of(document, "allocations"),
		"last_allocation", clean_text_of(document, "last_allocation"), "devices", devices,
		"scan_notes", clean_strings(document, "scan_notes"), "failures",
		clean_failures(resource), "expect", clean_expect(resource, document), "labels",
		clean_labels(resource), "labels_failure",
		clean_text_of(resource, "labels_failure"));
}

/* NULL if there are none. */
static json_t *clean_parameters(const json_t *resource)
{
	const json_t *parameters = json_object_get(resource, "parameters"), *found;
	json_t *list = json_is_array(parameters) ? json_array() : NULL;
	size_t i;

	json_array_foreach(parameters, i, found)
	{
		json_t *parameter = add_clean_texts(json_object(), found,
			(const char *const[]){ "name", "type", "permitted", NULL });

		if (json_is_string(json_object_get(found, "default")))
			(void)json_object_set_new(
				parameter, "default", clean_text_of(found, "default"));
		(void)json_array_append_new(list, parameter);
	}
	return list;
}

static json_t *clean_resources(const json_t *answer, const json_t *documents)
{
	const json_t *pods_failure = json_object_get(answer, "pods_failure");
	bool known = json_is_string(pods_failure) && *json_string_value(pods_failure) == '\0';
	json_t *resources = json_array(), *found;
	size_t i;

	json_array_foreach(json_object_get(answer, "resources"), i, found)
	{
		json_t *resource, *eviction;

		if (!json_is_object(found))
			continue;
		resource =
			clean_resource(found, json_object_get(documents, text_of(found, "name")));
		if (json_is_boolean(json_object_get(found, "published")))
			(void)json_object_set(
				resource, "published", json_object_get(found, "published"));
		if (json_is_string(json_object_get(found, "dra_driver")))
			(void)json_object_set_new(
				resource, "dra_driver", clean_text_of(found, "dra_driver"));
		if (json_object_get(found, "parameters"))
			(void)json_object_set_new(resource, "parameters", clean_parameters(found));
		eviction = evictions_clean(found);
		if (eviction)
			(void)json_object_set_new(resource, "eviction", eviction);
		usage_join(resource, found, known);
		(void)json_array_append_new(resources, resource);
	}
	return resources;
}

static json_t *clean_driver(const json_t *driver)
{
	return json_pack("{s:o, s:b, s:I, s:I, s:I, s:o, s:o, s:o}", "driver",
		clean_text_of(driver, "driver"), "registered",
		(int)json_is_true(json_object_get(driver, "registered")), "generation",
		integer_of(driver, "generation"), "slices", integer_of(driver, "slices"), "claims",
		integer_of(driver, "claims"), "registration_failure",
		clean_text_of(driver, "registration_failure"), "api_failure",
		clean_text_of(driver, "api_failure"), "lacks", clean_strings(driver, "lacks"));
}

static json_t *clean_drivers(const json_t *dra)
{
	json_t *list = json_array(), *found;
	size_t i;

	json_array_foreach(json_object_get(dra, "drivers"), i, found)
	{
		json_t *driver = clean_driver(found);

		if (driver)
			(void)json_object_set_new(
				driver, "resources", clean_strings(found, "resources"));
		(void)json_array_append_new(list, driver);
	}
	return list;
}

/* What serves resources by DRA; NULL where none is. */
static json_t *clean_dra(const json_t *answer)
{
	const json_t *dra = json_object_get(answer, "dra");
	json_t *cleaned;

	if (!json_is_object(dra))
		return NULL;
	cleaned = clean_driver(dra);
	(void)json_object_set_new(cleaned, "node", clean_text_of(dra, "node"));
	(void)json_object_set_new(cleaned, "node_source", clean_text_of(dra, "node_source"));
	(void)json_object_set_new(cleaned, "identity", clean_text_of(dra, "identity"));
	(void)json_object_set_new(cleaned, "credentials", clean_text_of(dra, "credentials"));
	(void)json_object_set_new(cleaned, "pid", json_integer(integer_of(dra, "pid")));
	(void)json_object_set_new(cleaned, "drivers", clean_drivers(dra));
	return cleaned;
}

/* What devplugd writes in the cluster; NULL if it writes nothing. */
static json_t *clean_cluster(const json_t *answer)
{
	static const char *const texts[] = { "node", "node_source", "identity", "credentials",
		"report_failure" };
	const json_t *cluster = json_object_get(answer, "cluster");
	json_t *cleaned;

	if (!json_is_object(cluster))
		return NULL;
	cleaned = json_pack("{s:b, s:b, s:I}", "report",
		(int)json_is_true(json_object_get(cluster, "report")), "labels",
		(int)json_is_true(json_object_get(cluster, "labels")), "pid",
		integer_of(cluster, "pid"));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		(void)json_object_set_new(cleaned, texts[i], clean_text_of(cluster, texts[i]));
	return cleaned;
}

static int join(struct daemon_state *daemon, const json_t *answer, const json_t *documents)
{
	json_t *dra, *cluster;

	daemon->root = json_pack("{s:i, s:I, s:I, s:o, s:b, s:I, s:b, s:b, s:o, s:I, s:o, s:o}",
		"version", DOCUMENT_VERSION, "generation", integer_of(answer, "generation"), "pid",
		integer_of(answer, "pid"), "config_file", clean_text_of(answer, "config_file"),
		"running", (int)daemon->running, "reloads", integer_of(answer, "reloads"),
		"reload_failed", (int)json_is_true(json_object_get(answer, "reload_failed")),
		"on_last_accepted", (int)json_is_true(json_object_get(answer, "on_last_accepted")),
		"pods_failure", clean_text_of(answer, "pods_failure"), "pods_waited",
		integer_of(answer, "pods_waited"), "metrics_failure",
		clean_text_of(answer, "metrics_failure"), "resources",
		clean_resources(answer, documents));
	dra = clean_dra(answer);
	cluster = clean_cluster(answer);
	if (!daemon->root || (dra && json_object_set_new(daemon->root, "dra", dra) < 0) ||
		(cluster && json_object_set_new(daemon->root, "cluster", cluster) < 0))
		return -ENOMEM;
	return 0;
}

static bool has_daemon(const char *runtime_dir)
{
	_cleanup_free_ char *path = NULL;

	(void)format_text(&path, "%s/" REQUEST_SOCKET, runtime_dir);
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

int daemon_state_read(const char *config_file, const char *runtime_dir, struct daemon_state *ret,
	struct error *error)
{
	_cleanup_(daemon_state_done) struct daemon_state daemon = { 0 };
	json_auto_t *answer = NULL, *documents = NULL;
	int r;

	daemon.runtime_dir = runtime_dir_find(config_file, runtime_dir);
	if (!daemon.runtime_dir)
		return error_set(error, -ENOMEM, "out of memory");
	r = ask_status(daemon.runtime_dir, &answer, &documents, &daemon.unanswered);
	daemon.running = r != -ESRCH;
	r = join(&daemon, answer, documents);
	if (r < 0)
		return error_set(error, r, "out of memory");
	*ret = daemon;
	daemon = (struct daemon_state){ 0 };
	return 0;
}

const char *daemon_state_suggest(const json_t *objects, const char *key, const char *word)
{
	_cleanup_free_ const char **words = calloc(json_array_size(objects) + 1, sizeof(*words));

	for (size_t i = 0; words && i < json_array_size(objects); i++)
		words[i] = text_of(json_array_get(objects, i), key);
	return words ? suggest_word(word, words, json_array_size(objects)) : NULL;
}

/* The file that declares the resource for the next reload (malloc'ed), or NULL. */
static char *find_declaring_file(const struct daemon_state *daemon, const char *name)
{
	const char *file = text_of(daemon->root, "config_file");
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	const struct resource_config *resource;

	if (!daemon->running || config_load(file, &report, &config) < 0)
		return NULL;
	resource = config_find(config, name);
	return resource ? strdup(resource->declaration.origin.file ?: file) : NULL;
}

static int unknown_resource(
	const struct daemon_state *daemon, const char *name, struct error *error)
{
	const json_t *resources = json_object_get(daemon->root, "resources");
	const char *suggestion = daemon_state_suggest(resources, "name", name);
	_cleanup_free_ char *file = find_declaring_file(daemon, name);

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

int daemon_state_select(struct daemon_state *daemon, const char *resource, struct error *error)
{
	json_t *resources = json_object_get(daemon->root, "resources"), *selected = NULL;

	if (daemon->unanswered.code < 0)
		return error_set(error, daemon->unanswered.code, "%s", daemon->unanswered.message);
	for (size_t i = 0; i < json_array_size(resources); i++)
		if (streq(text_of(json_array_get(resources, i), "name"), resource))
			selected = json_incref(json_array_get(resources, i));
	if (!selected)
		return unknown_resource(daemon, resource, error);
	daemon->all = json_copy(resources);
	(void)json_array_clear(resources);
	(void)json_array_append_new(resources, selected);
	return 0;
}

int daemon_state_select_pod(struct daemon_state *daemon, const char *pod, struct error *error)
{
	const char *failure = text_of(daemon->root, "pods_failure");
	json_t *resource;
	size_t i, n = 0;

	if (!strchr(pod, '/'))
		return error_set(error, -EINVAL, "the pod must have the form NAMESPACE/NAME");
	json_array_foreach(json_object_get(daemon->root, "resources"), i, resource) n +=
		usage_select_pod(resource, pod);
	if (n > 0)
		return 0;
	if (daemon->unanswered.code < 0)
		return error_set(error, -ENODATA, "%s", daemon->unanswered.message);
	if (*failure)
		return error_set(error, -ENODATA,
			"the kubelet does not report which pod uses which device: %s", failure);
	return error_set(error, -ENOENT, "no device of devplugd is assigned to a pod %s", pod);
}

void daemon_state_done(struct daemon_state *daemon)
{
	json_decref(daemon->all);
	json_decref(daemon->root);
	free(daemon->runtime_dir);
}

const json_t *daemon_state_driver(const struct daemon_state *daemon, const json_t *resource)
{
	const json_t *dra = json_object_get(daemon->root, "dra"), *driver;
	size_t i;

	json_array_foreach(json_object_get(dra, "drivers"), i, driver)
	{
		if (streq(text_of(driver, "driver"), text_of(resource, "dra_driver")))
			return driver;
	}
	return NULL;
}
