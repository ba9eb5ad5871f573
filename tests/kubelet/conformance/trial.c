/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread: the kubelet's loop runs inside of every wait.
 */
#include "trial.h"

#include <sys/wait.h>

#include "../connection.h"
#include "../plugin-dir.h"
#include "common/text.h"
#include "trial-directories.h"

#define SLICE (20 * USEC_PER_MSEC)

_printf_(2, 0) static void set_message(struct trial *trial, const char *format, va_list ap)
{
	(void)vsnprintf(trial->message, sizeof(trial->message), format, ap);
	text_sanitize(trial->message);
}

enum verdict trial_fail(struct trial *trial, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	set_message(trial, format, ap);
	va_end(ap);
	return VERDICT_NOT_OK;
}

enum verdict trial_skip(struct trial *trial, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	set_message(trial, format, ap);
	va_end(ap);
	return VERDICT_SKIP;
}

void trial_forget(struct trial *trial)
{
	trial->message[0] = '\0';
	for (size_t i = 0; i < TRACE_MAX; i++) {
		free(trial->trace[i]);
		trial->trace[i] = NULL;
	}
	trial->n_traced = 0;
}

static void remember(struct trial *trial, const json_t *event)
{
	char **slot = &trial->trace[trial->n_traced % TRACE_MAX];

	free(*slot);
	*slot = json_dumps(event, JSON_COMPACT);
	if (*slot)
		text_sanitize(*slot);
	trial->n_traced++;
}

static void copy_member(const json_t *event, const char *key, char *to, size_t size)
{
	const char *text = json_string_value(json_object_get(event, key));

	(void)snprintf(to, size, "%s", text ? text : "");
}

static void on_event(const json_t *event, void *userdata)
{
	struct trial *trial = userdata;
	const char *name = json_string_value(json_object_get(event, "event"));
	const char *resource = json_string_value(json_object_get(event, "resource"));
	struct trial_counts *counts = &trial->counts;

	remember(trial, event);
	if (!resource)
		return;
	if (!trial->resource && streq(name, "register"))
		trial->resource = strdup(resource);
	if (!trial->resource || !streq(resource, trial->resource))
		return;
	if (streq(name, "register")) {
		counts->registers++;
		copy_member(event, "endpoint", trial->endpoint, sizeof(trial->endpoint));
		copy_member(event, "version", trial->version, sizeof(trial->version));
		trial->watched = json_object_get(event, "socket");
	} else if (streq(name, "registered")) {
		counts->registered++;
	} else if (streq(name, "register-refused")) {
		counts->refused++;
		copy_member(event, "error", trial->refused_by, sizeof(trial->refused_by));
	} else if (streq(name, "list")) {
		counts->lists += 1 + (unsigned)json_integer_value(json_object_get(event, "merged"));
		trial->listed_by = json_integer_value(json_object_get(event, "connection"));
	} else if (streq(name, "stream-ended")) {
		counts->ended++;
		copy_member(event, "error", trial->ended_by, sizeof(trial->ended_by));
	}
}

int trial_init(struct trial *trial, const struct conformance_options *options, struct error *error)
{
	char *state_dir = NULL;
	int r;

	*trial = (struct trial){ .options = options };
	r = trial_directories_take(options->plugin_dir, &state_dir, error);
	if (r < 0)
		return r;
	trial->kubelet_options = (struct manager_options){
		.plugin_dir = options->plugin_dir,
		.plugins_registry = options->plugins_registry,
		.state_dir = state_dir,
		.behaviour = options->behaviour,
		.stale_stream_race = true,
		.time_scale = 1,
		.seed = options->seed,
		.faults = &trial->faults,
		.on_event = on_event,
		.userdata = trial,
	};
	return 0;
}

void trial_done(struct trial *trial)
{
	char *state_dir = (char *)(uintptr_t)trial->kubelet_options.state_dir;

	trial_kill_kubelet(trial);
	plugin_process_kill(&trial->plugin);
	/* If no kubelet ever started, its files are somebody else's. */
	trial_directories_clean(trial->played ? trial->options->plugin_dir : NULL, state_dir);
	free(state_dir);
	trial_forget(trial);
	free(trial->resource);
}

bool trial_start_kubelet(struct trial *trial)
{
	struct error error = {};

	if (trial->manager)
		return true;
	if (manager_new(&trial->kubelet_options, &trial->manager, &error) >= 0) {
		trial->played = true;
		trial->listed_by = 0;
		return true;
	}
	(void)trial_fail(trial, "the tool cannot play the kubelet: %s", error.message);
	return false;
}

void trial_kill_kubelet(struct trial *trial)
{
	trial->manager = manager_free(trial->manager);
}

/* One step of the kubelet, or of time while there is none. */
static void step(struct trial *trial, uint64_t limit)
{
	uint64_t slice = MIN_OF(limit, SLICE);

	(void)plugin_process_is_running(&trial->plugin);
	if (!trial->manager) {
		(void)usleep((useconds_t)slice);
		return;
	}
	/* The loop has ended: a signal came. */
	if (sd_event_get_state(trial->manager->event) == SD_EVENT_FINISHED ||
		sd_event_run(trial->manager->event, slice) < 0 ||
		sd_event_get_state(trial->manager->event) == SD_EVENT_FINISHED)
		trial->interrupted = true;
}

bool trial_await_within(
	struct trial *trial, trial_condition condition, const void *data, uint64_t limit)
{
	uint64_t end = manager_now() + limit;

	for (;;) {
		uint64_t now;

		if (condition(trial, data))
			return true;
		now = manager_now();
		if (now >= end || trial->interrupted)
			return false;
		step(trial, end - now);
	}
}

bool trial_await(struct trial *trial, trial_condition condition, const void *data)
{
	return trial_await_within(trial, condition, data, trial->options->timeout);
}

static bool never(struct trial *trial, const void *data)
{
	return false;
}

void trial_pass(struct trial *trial, uint64_t usec)
{
	(void)trial_await_within(trial, never, NULL, usec);
}

bool trial_owns_plugin(const struct trial *trial)
{
	return trial->options->plugin_command;
}

bool trial_start_plugin(struct trial *trial)
{
	struct error error = {};

	if (plugin_process_start(trial->options->plugin_command, trial->options->plugin_dir,
		    &trial->plugin, &error) >= 0)
		return true;
	(void)trial_fail(trial, "%s", error.message);
	return false;
}

bool trial_hook(struct trial *trial, const char *command)
{
	struct error error = {};

	if (plugin_process_hook(&trial->plugin, command, trial->options->plugin_dir,
		    trial->options->timeout, &error) >= 0)
		return true;
	(void)trial_fail(trial, "%s", error.message);
	return false;
}

static const struct resource *find_resource(struct trial *trial)
{
	if (!trial->manager || !trial->resource)
		return NULL;
	return model_find_resource(trial->manager->model, trial->resource);
}

bool trial_is_serving(struct trial *trial, const void *data)
{
	const struct resource *resource = find_resource(trial);

	return resource && resource->lists > 0 &&
		trial->listed_by == (json_int_t)resource->endpoint.connection &&
		connection_client(trial->manager, trial->resource);
}

static void describe_progress(struct trial *trial)
{
	const struct trial_counts *counts = &trial->counts;
	const struct resource *resource = find_resource(trial);

	if (counts->registers == 0)
		(void)trial_fail(trial, "no Register call came to %s/" KUBELET_SOCKET_NAME,
			trial->options->plugin_dir);
	else if (!resource || !resource->endpoint.present || resource->endpoint.stopped)
		(void)trial_fail(trial,
			"not registered: %u Register calls, %u accepted, %u refused (%s), %u streams ended (%s)",
			counts->registers, counts->registered, counts->refused, trial->refused_by,
			counts->ended, trial->ended_by);
	else
		(void)trial_fail(trial, "registered, but no list came; %u streams ended (%s)",
			counts->ended, trial->ended_by);
}

void trial_mention_end(struct trial *trial)
{
	const struct plugin_process *plugin = &trial->plugin;
	size_t used = strlen(trial->message);

	if (!plugin_process_is_running(&trial->plugin) && plugin->ended)
		(void)snprintf(trial->message + used, sizeof(trial->message) - used,
			"; the plugin has ended (%s %d)",
			WIFSIGNALED(plugin->status) ? "signal" : "exit status",
			WIFSIGNALED(plugin->status) ? WTERMSIG(plugin->status)
						    : WEXITSTATUS(plugin->status));
}

bool trial_await_serving(struct trial *trial)
{
	if (trial_await(trial, trial_is_serving, NULL))
		return true;
	describe_progress(trial);
	return false;
}

static bool is_not_serving(struct trial *trial, const void *data)
{
	return !trial_is_serving(trial, NULL);
}

bool trial_kill_plugin(struct trial *trial)
{
	plugin_process_kill(&trial->plugin);
	if (trial_await(trial, is_not_serving, NULL))
		return true;
	(void)trial_fail(trial,
		"the plugin was killed, but its stream lives: something it has started still holds it");
	return false;
}

bool trial_prepare(struct trial *trial)
{
	trial->faults = (struct kubelet_faults){};
	if (trial->plugin_is_suspect && trial_owns_plugin(trial) && !trial_kill_plugin(trial))
		return false;
	trial->plugin_is_suspect = false;
	if (!trial_start_kubelet(trial))
		return false;
	if (trial_owns_plugin(trial) && !plugin_process_is_running(&trial->plugin) &&
		(!trial_kill_plugin(trial) || !trial_start_plugin(trial)))
		return false;
	return trial_await_serving(trial);
}

const struct device_table *trial_devices(struct trial *trial)
{
	const struct resource *resource = find_resource(trial);

	return resource ? resource->devices : NULL;
}

const char *trial_socket(struct trial *trial)
{
	return trial_is_serving(trial, NULL) ? find_resource(trial)->endpoint.path : NULL;
}

size_t trial_healthy(struct trial *trial)
{
	const struct resource *resource = find_resource(trial);

	return resource ? resource_allocatable(resource) : 0;
}

int trial_healthy_ids(struct trial *trial, char ***ret, size_t *ret_n)
{
	const struct device_table *devices = trial_devices(trial);
	size_t count = devices ? devices->count : 0, n = 0;
	char **ids = calloc(count + 1, sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (devices->devices[i].healthy)
			ids[n++] = devices->devices[i].id;
	*ret = ids;
	*ret_n = n;
	return 0;
}
