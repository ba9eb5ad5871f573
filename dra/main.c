/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devplugd-cluster: serves Dynamic Resource Allocation. devplugd starts it with the control socket
 * as descriptor 3, through which it receives the sockets of the kubelet and the credentials for the
 * API server. It keeps no state: devplugd keeps the prepared claims, and the API server the
 * published objects.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/child-sandbox.h"
#include "common/json-read.h"
#include "common/log.h"
#include "common/sealed.h"
#include "dra/dra-health.h"
#include "dra/dra-node.h"
#include "dra/dra-publisher.h"
#include "dra/model/dra-slices.h"

#define SETTINGS_MAX (1U << 20)
#define MEMORY_MAX   (768UL << 20)
#define STOP_GRACE   (300 * USEC_PER_MSEC)
/* How long the first publication waits for resources that have not reported their devices. */
#define REPORT_WAIT (10 * USEC_PER_SEC)

/* A function of the leak sanitizer, if the build uses it. The sanitizer otherwise checks in exit(),
 * which is not called. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

struct driver_process {
	sd_event *event;
	sd_event_source *alive;
	uid_t supervisor_uid;
	struct dra_api *api;
	struct dra_publisher *publisher; /* this and the next two are NULL before the first
					  * settings */
	struct dra_node *node;
	struct dra_health *health;
	char *driver, *node_name;
	json_t *resources; /* names of the settings, in their order */
	json_t *devices;   /* by resource, as far as they are known */
	json_t *held;      /* see CLUSTER_HELD */
	sd_event_source *report_wait;
	bool waited;  /* known devices are published, although a resource has not reported */
	json_t *told; /* the published resources that the supervisor knows */
};

/* --- what is published --- */

/* After a start, slices that are published already stay until each resource has reported its
 * devices, because devices that are left out cannot be allocated meanwhile. */
static void publish(struct driver_process *process)
{
	json_auto_t *resources = json_array();
	json_t *name;
	size_t i;

	json_array_foreach(process->resources, i, name)
	{
		json_t *devices = json_object_get(process->devices, json_string_value(name));

		if (!devices && !process->waited)
			return;
		if (!devices)
			continue;
		(void)json_array_append_new(
			resources, json_pack("{s:O, s:O}", "name", name, "devices", devices));
	}
	process->waited = true;
	if (dra_publisher_set(process->publisher, resources, process->held) < 0)
		log_error("the devices cannot be published: out of memory");
	dra_health_set(process->health, dra_publisher_names(process->publisher));
}

static int on_report_wait(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct driver_process *process = userdata;

	if (process->waited)
		return 0;
	process->waited = true;
	log_notice("some resources have not reported their devices; the devices of the "
		   "other resources are published now");
	publish(process);
	return 0;
}

/* Reports each resource whose devices the API server stores, once after a registration. */
static void report_published(struct driver_process *process)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_PUBLISHED);
	const json_t *resources = dra_publisher_published(process->publisher), *resource;
	size_t i;

	json_array_foreach(resources, i, resource)
	{
		const char *name = text_of(resource, "name");

		if (json_object_get(process->told, name))
			continue;
		(void)snprintf(message.text, sizeof(message.text), "%s", name);
		if (control_send(CONTROL_FD, &message) >= 0)
			(void)json_object_set_new(process->told, name, json_true());
	}
}

static void on_pool(const struct dra_pool_state *state, void *userdata)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_POOL);
	struct driver_process *process = userdata;

	message.generation = state->generation;
	message.slices = state->slices;
	message.lacks = state->lacks;
	(void)snprintf(message.text, sizeof(message.text), "%s", state->failure);
	(void)control_send(CONTROL_FD, &message);
	report_published(process);
}

static const json_t *get_names(void *userdata)
{
	struct driver_process *process = userdata;

	return dra_publisher_names(process->publisher);
}

static const char *get_pool(void *userdata)
{
	struct driver_process *process = userdata;

	return process->node_name;
}

/* --- messages --- */

static int start(struct driver_process *process)
{
	const struct dra_node_options options = {
		.event = process->event,
		.api = process->api,
		.driver = process->driver,
		.supervisor_uid = process->supervisor_uid,
		.names = get_names,
		.pool = get_pool,
		.userdata = process,
	};
	int r;

	r = dra_publisher_new(process->event, process->api, process->driver, process->node_name,
		on_pool, process, &process->publisher);
	if (r >= 0)
		r = dra_node_new(&options, &process->node);
	if (r >= 0)
		r = sd_event_add_time_relative(process->event, &process->report_wait,
			CLOCK_MONOTONIC, REPORT_WAIT, USEC_PER_SEC, on_report_wait, process);
	return r < 0 ? r
		     : dra_health_new(process->event, dra_node_server(process->node),
			       process->node_name, &process->health);
}

static int handle_configure(struct driver_process *process, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *settings = NULL;
	const char *driver, *node;
	json_t *resources;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], SETTINGS_MAX, &text, &size);
	if (r < 0)
		return r;
	settings = json_loadb(text, size, 0, NULL);
	if (json_unpack(settings, "{s:s, s:s, s:o}", "driver", &driver, "node", &node, "resources",
		    &resources) < 0)
		return -EBADMSG;
	json_decref(process->resources);
	process->resources = json_incref(resources);
	/* One that comes back later is a new one for the supervisor. */
	(void)json_object_clear(process->told);
	if (process->publisher) {
		publish(process);
		return 0;
	}
	process->driver = strdup(driver);
	process->node_name = strdup(node);
	return process->driver && process->node_name ? start(process) : -ENOMEM;
}

static int handle_inventory(struct driver_process *process, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_t *devices;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], CONTROL_DEVICES_MAX, &text, &size);
	if (r < 0)
		return r;
	devices = dra_devices_read(text, size);
	if (devices) {
		(void)json_object_set_new(process->devices, message->text, devices);
		if (process->publisher)
			publish(process);
	}
	return 0;
}

static int handle_held(struct driver_process *process, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_t *held;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], CONTROL_DEVICES_MAX, &text, &size);
	if (r < 0)
		return r;
	held = json_loadb(text, size, 0, NULL);
	if (!json_is_object(held)) {
		json_decref(held);
		return -EBADMSG;
	}
	json_decref(process->held);
	process->held = held;
	if (process->publisher)
		publish(process);
	return 0;
}

static int handle_session(struct driver_process *process, struct control_message *message)
{
	if (process->node)
		dra_node_open_session(process->node, message);
	return 0;
}

static int handle_registered(struct driver_process *process, struct control_message *message)
{
	(void)json_object_clear(process->told);
	if (process->publisher)
		dra_publisher_registered(process->publisher);
	return 0;
}

static int handle_file(struct driver_process *process, struct control_message *message)
{
	dra_api_take_file(process->api, message);
	return 0;
}

static int handle_prepared(struct driver_process *process, struct control_message *message)
{
	if (process->node)
		dra_node_take_prepared(process->node, message);
	return 0;
}

static int handle_stop(struct driver_process *process, struct control_message *message)
{
	return sd_event_exit(process->event, 0);
}

static int on_control(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	static int (*const handlers[])(struct driver_process *, struct control_message *) = {
		[CLUSTER_CONFIGURE] = handle_configure,
		[CONTROL_INVENTORY] = handle_inventory,
		[CLUSTER_HELD] = handle_held,
		[CLUSTER_SESSION] = handle_session,
		[CLUSTER_REGISTERED] = handle_registered,
		[CLUSTER_FILE] = handle_file,
		[CLUSTER_PREPARED] = handle_prepared,
		[CONTROL_STOP] = handle_stop,
	};
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(0);
	struct driver_process *process = userdata;
	int r;

	r = control_receive(fd, &control_cluster, &message);
	if (r == -EAGAIN)
		return 0;
	if (r == -ECONNRESET)
		return sd_event_exit(process->event, 0);
	if (r >= 0 && ((size_t)message.type >= ARRAY_SIZE(handlers) || !handlers[message.type]))
		r = -EBADMSG;
	if (r >= 0)
		r = handlers[message.type](process, &message);
	if (r < 0) {
		log_error("cannot continue: %s", strerror(-r));
		return sd_event_exit(process->event, r);
	}
	return 0;
}

static int on_alive(sd_event_source *source, uint64_t usec, void *userdata)
{
	const struct control_message message = CLUSTER_MESSAGE_INIT(CONTROL_ALIVE);
	struct driver_process *process = userdata;

	(void)control_send(CONTROL_FD, &message);
	if (process->node)
		dra_node_free_the_way(process->node);
	return sd_event_source_set_time_relative(source, CONTROL_ALIVE_INTERVAL);
}

/* --- --- */

static int run(struct driver_process *process)
{
	struct ucred supervisor = { 0 };
	socklen_t size = sizeof(supervisor);
	int r;

	if (getsockopt(CONTROL_FD, SOL_SOCKET, SO_PEERCRED, &supervisor, &size) < 0) {
		log_error("devplugd starts this program itself, when a resource has serve = "
			  "\"dra\"");
		return -EBADF;
	}
	process->supervisor_uid = supervisor.uid;
	process->devices = json_object();
	process->held = json_object();
	process->told = json_object();
	r = sandbox_give_up_programs(true);
	if (r >= 0)
		r = sd_event_default(&process->event);
	if (r >= 0)
		r = dra_api_new(process->event, &process->api);
	if (r >= 0)
		r = sd_event_add_io(process->event, NULL, CONTROL_FD, EPOLLIN, on_control, process);
	if (r >= 0)
		r = sd_event_add_time(process->event, &process->alive, CLOCK_MONOTONIC, 0,
			100 * USEC_PER_MSEC, on_alive, process);
	if (r >= 0)
		r = sd_event_source_set_enabled(process->alive, SD_EVENT_ON);
	if (r < 0) {
		log_error("cannot set up the event loop: %s", strerror(-r));
		return r;
	}
	return sd_event_loop(process->event);
}

static void process_done(struct driver_process *process)
{
	if (process->node)
		dra_node_stop(process->node, STOP_GRACE);
	(void)dra_health_free(process->health);
	(void)dra_publisher_free(process->publisher);
	(void)dra_api_free(process->api);
	json_decref(process->resources);
	json_decref(process->devices);
	json_decref(process->held);
	json_decref(process->told);
	free(process->driver);
	free(process->node_name);
	sd_event_source_disable_unref(process->alive);
	sd_event_source_disable_unref(process->report_wait);
	sd_event_unref(process->event);
}

int main(int argc, char *argv[])
{
	struct driver_process process = { 0 };
	int r;

	log_setup("devplugd-cluster", LOG_TARGET_PARENT, LOG_INFO);
#ifndef __SANITIZE_ADDRESS__
	(void)setrlimit(RLIMIT_DATA, &(const struct rlimit){ MEMORY_MAX, MEMORY_MAX });
#endif
	(void)signal(SIGPIPE, SIG_IGN);
	r = run(&process);
	process_done(&process);
	/* The kernel ends gRPC's threads faster than gRPC. */
	if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check() != 0)
		r = -ENOTRECOVERABLE;
	_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
