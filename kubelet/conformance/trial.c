/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs on one thread: every wait runs the kubelet's loop.
 */
#include "kubelet/conformance/trial.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "common/text.h"
#include "kubelet/conformance/trial-directories.h"
#include "kubelet/connection.h"
#include "kubelet/plugin-dir.h"

#define SLICE (20 * USEC_PER_MSEC)

_printf_(2, 0) static void set_message(struct trial *trial, const char *format, va_list ap)
{
	(void)vsnprintf(trial->message, sizeof(trial->message), format, ap);
	text_sanitize(trial->message);
}

enum outcome trial_fail(struct trial *trial, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	set_message(trial, format, ap);
	va_end(ap);
	return OUTCOME_NOT_OK;
}

enum outcome trial_skip(struct trial *trial, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	set_message(trial, format, ap);
	va_end(ap);
	return OUTCOME_SKIP;
}

void trial_forget(struct trial *trial)
{
	trial->message[0] = trial->panic[0] = '\0';
	trial->before = trial->counts;
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

static void forget_driver(struct trial *trial)
{
	trial->driver = channel_free(trial->driver);
	trial->endpoint[0] = '\0';
	trial->watched = false;
}

static void on_driver_event(struct trial *trial, const json_t *event, const char *name)
{
	const char *driver = json_string_value(json_object_get(event, "driver"));
	const char *endpoint = json_string_value(json_object_get(event, "endpoint"));
	const char *resource = json_string_value(json_object_get(event, "resource"));
	struct trial_counts *counts = &trial->counts;

	if (streq(name, "watcher-failed")) {
		counts->refused++;
		copy_member(event, "error", trial->refused_by, sizeof(trial->refused_by));
		copy_member(event, "socket", trial->socket, sizeof(trial->socket));
	} else if (streq(name, "watcher-registered") && trial->resource && resource &&
		streq(resource, trial->resource)) {
		copy_member(event, "socket", trial->socket, sizeof(trial->socket));
		trial->watched = true;
	}
	if (!driver)
		return;
	if (!trial->resource && streq(name, "driver-registered"))
		trial->resource = strdup(driver);
	if (!trial->resource || !streq(driver, trial->resource))
		return;
	if (streq(name, "driver-registered")) {
		forget_driver(trial);
		counts->registered++;
		copy_member(event, "endpoint", trial->endpoint, sizeof(trial->endpoint));
		copy_member(event, "version", trial->version, sizeof(trial->version));
	} else if (streq(name, "driver-removed") && endpoint && streq(endpoint, trial->endpoint)) {
		forget_driver(trial);
	} else if (streq(name, "driver-health")) {
		counts->lists++;
	} else if (streq(name, "driver-health-ended")) {
		counts->ended++;
		copy_member(event, "error", trial->ended_by, sizeof(trial->ended_by));
	}
}

static void on_event(const json_t *event, void *userdata)
{
	struct trial *trial = userdata;
	const char *name = json_string_value(json_object_get(event, "event"));
	const char *resource = json_string_value(json_object_get(event, "resource"));
	struct trial_counts *counts = &trial->counts;

	remember(trial, event);
	if (streq(name, "panic"))
		copy_member(event, "error", trial->panic, sizeof(trial->panic));
	if (trial->options->dra) {
		on_driver_event(trial, event, name);
		return;
	}
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
		.version = options->version,
		.stale_stream_race = true,
		.time_scale = 1,
		.claim_timeout = 45,
		.seed = options->seed,
		.faults = &trial->faults,
		.on_event = on_event,
		.userdata = trial,
	};
	trial->made = json_object();
	trial->claims = options->claims ? json_deep_copy(options->claims) : json_array();
	if (trial->made && trial->claims)
		return 0;
	trial_done(trial);
	return error_set(error, -ENOMEM, "out of memory");
}

void trial_done(struct trial *trial)
{
	char *state_dir = (char *)(uintptr_t)trial->kubelet_options.state_dir;

	trial_kill_kubelet(trial);
	plugin_process_kill(&trial->plugin);
	/* If no kubelet ever started, its files belong to another process. */
	trial_directories_clean(trial->played ? trial->options->plugin_dir : NULL, state_dir);
	free(state_dir);
	trial_forget(trial);
	json_decref(trial->claims);
	json_decref(trial->made);
	free(trial->resource);
}

static int bell = -EBADF;

void trial_wake(void)
{
	(void)eventfd_write(bell, 1);
}

static int on_bell(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	eventfd_t rings;

	(void)eventfd_read(fd, &rings);
	return 0;
}

/* Waits check their condition when gRPC's thread has posted a message. The loop owns the source. */
static int listen_to_bell(struct manager *manager)
{
	if (bell < 0)
		bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (bell < 0)
		return -errno;
	return sd_event_add_io(manager->event, NULL, bell, EPOLLIN, on_bell, NULL);
}

bool trial_start_kubelet(struct trial *trial)
{
	struct error error = {};
	int r;

	if (trial->manager)
		return true;
	r = manager_new(&trial->kubelet_options, &trial->manager, &error);
	if (r >= 0) {
		trial->played = true;
		trial->listed_by = 0;
		r = listen_to_bell(trial->manager);
		if (r < 0)
			(void)error_set(&error, r, "cannot wait for events: %s", strerror(-r));
	}
	if (r < 0)
		(void)trial_fail(trial, "the tool cannot imitate the kubelet: %s", error.message);
	return r >= 0;
}

void trial_kill_kubelet(struct trial *trial)
{
	if (trial->options->dra)
		forget_driver(trial);
	trial->manager = manager_free(trial->manager);
}

/* Runs one step of the kubelet, or waits a moment while there is none. */
static void step(struct trial *trial, uint64_t limit)
{
	uint64_t slice = MIN_OF(limit, SLICE);

	(void)plugin_process_is_running(&trial->plugin);
	if (!trial->manager) {
		(void)usleep((useconds_t)slice);
		return;
	}
	/* The loop has ended: a signal came, or the kubelet has died. */
	if (sd_event_get_state(trial->manager->event) == SD_EVENT_FINISHED ||
		sd_event_run(trial->manager->event, slice) < 0 ||
		sd_event_get_state(trial->manager->event) == SD_EVENT_FINISHED) {
		trial->interrupted = trial->panic[0] == '\0';
		trial_kill_kubelet(trial);
	}
}

bool trial_await_within(
	struct trial *trial, trial_condition condition, const void *data, uint64_t limit)
{
	uint64_t end = manager_now() + limit;

	for (;;) {
		uint64_t now;

		if (trial->panic[0])
			return false;
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

bool trial_await_register(struct trial *trial, trial_condition condition, const void *data)
{
	return trial_await_within(trial, condition, data, trial->options->register_timeout);
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

bool trial_plug_again(struct trial *trial)
{
	char message[sizeof(trial->message)];
	bool done;

	memcpy(message, trial->message, sizeof(message));
	done = trial_hook(trial, trial->options->hooks.plug);
	if (message[0])
		memcpy(trial->message, message, sizeof(message));
	return done;
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

	if (trial->options->dra)
		return trial->manager && trial->endpoint[0] && trial->watched;
	return resource && resource->lists > 0 &&
		trial->listed_by == (json_int_t)resource->endpoint.connection &&
		connection_client(trial->manager, trial->resource);
}

void trial_ask_socket(struct trial *trial, bool ask)
{
	trial->driver = channel_free(trial->driver);
	trial->asks_socket = ask;
}

static struct channel *driver_client(struct trial *trial)
{
	const char *path = trial->asks_socket ? trial->socket : trial->endpoint;
	int fd;

	if (!trial->driver && *path && socket_connect(path, &fd) >= 0)
		(void)channel_new(fd, NULL, &trial->driver);
	return trial->driver;
}

struct channel *trial_client(struct trial *trial)
{
	if (!trial->manager)
		return NULL;
	if (trial->options->dra)
		return driver_client(trial);
	return trial->resource ? connection_client(trial->manager, trial->resource) : NULL;
}

/* " (why)" if there was any. */
static void describe_why(char *text, size_t size, unsigned n, const char *why)
{
	text[0] = '\0';
	if (n > 0)
		(void)snprintf(text, size, " (%s)", why);
}

static void describe_driver_progress(struct trial *trial)
{
	unsigned refusals = trial->counts.refused - trial->before.refused;
	char refused[sizeof(trial->refused_by) + 4];

	describe_why(refused, sizeof(refused), refusals, trial->refused_by);
	(void)trial_fail(trial, "no DRA driver was registered from %s within %u s%s",
		trial->options->plugins_registry,
		(unsigned)(trial->options->register_timeout / USEC_PER_SEC), refused);
}

static void describe_progress(struct trial *trial)
{
	const struct resource *resource = find_resource(trial);
	/* The events of this case. */
	const struct trial_counts counts = {
		.registers = trial->counts.registers - trial->before.registers,
		.registered = trial->counts.registered - trial->before.registered,
		.refused = trial->counts.refused - trial->before.refused,
		.ended = trial->counts.ended - trial->before.ended,
	};
	unsigned seconds = (unsigned)(trial->options->register_timeout / USEC_PER_SEC);
	char refused[sizeof(trial->refused_by) + 4], ended[sizeof(trial->ended_by) + 4];

	describe_why(refused, sizeof(refused), counts.refused, trial->refused_by);
	describe_why(ended, sizeof(ended), counts.ended, trial->ended_by);
	if (trial->panic[0])
		(void)trial_fail(trial, "%s", trial->panic);
	else if (counts.registers == 0)
		(void)trial_fail(trial,
			"no Register call came to %s/" KUBELET_SOCKET_NAME " within %u s",
			trial->options->plugin_dir, seconds);
	else if (!resource || !resource->endpoint.present || resource->endpoint.stopped)
		(void)trial_fail(trial,
			"not registered within %u s: %u Register calls, %u accepted, %u refused%s, %u streams ended%s",
			seconds, counts.registers, counts.registered, counts.refused, refused,
			counts.ended, ended);
	else
		(void)trial_fail(trial, "registered, but no list came; %u streams ended%s",
			counts.ended, ended);
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
	if (trial_await_register(trial, trial_is_serving, NULL))
		return true;
	if (trial->options->dra)
		describe_driver_progress(trial);
	else
		describe_progress(trial);
	return false;
}

static bool is_not_serving(struct trial *trial, const void *data)
{
	return !trial_is_serving(trial, NULL);
}

void trial_end_plugin(struct trial *trial)
{
	plugin_process_let_age(&trial->plugin);
	plugin_process_kill(&trial->plugin);
}

static bool has_ended(struct trial *trial, const void *data)
{
	return trial->plugin.pid == 0;
}

bool trial_stop_plugin(struct trial *trial)
{
	plugin_process_signal(&trial->plugin, SIGTERM);
	if (trial_await(trial, has_ended, NULL))
		return true;
	(void)trial_fail(trial, "the %s still runs after SIGTERM",
		trial->options->dra ? "driver" : "plugin");
	return false;
}

bool trial_kill_plugin(struct trial *trial)
{
	trial_end_plugin(trial);
	/* The kubelet notices the end when the next plugin creates its socket. */
	if (trial->options->dra)
		forget_driver(trial);
	if (trial_await(trial, is_not_serving, NULL))
		return true;
	(void)trial_fail(trial,
		"the plugin was killed, but its stream is open: a process that it started still holds it");
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
