/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devplugd-cluster: asks the API server, for Dynamic Resource Allocation, which it serves to the
 * kubelet, and for reports. devplugd starts it with the control socket as descriptor 3, through
 * which it receives the sockets of the kubelet and the credentials for the API server. It keeps no
 * state: devplugd keeps the prepared claims, and the API server the published objects.
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
#include "dra/claim-lookup.h"
#include "dra/evictor.h"
#include "dra/label-writer.h"
#include "dra/model/dra-slices.h"
#include "dra/model/slice-taints.h"
#include "dra/node-report.h"
#include "dra/served-driver.h"
#include "proto/rpc.h"

#define SETTINGS_MAX (1U << 20)
#define MEMORY_MAX   (768UL << 20)
#define STOP_GRACE   (300 * USEC_PER_MSEC)

/* A function of the leak sanitizer, if the build uses it. The sanitizer otherwise checks in exit(),
 * which is not called. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

struct driver_process {
	sd_event *event;
	sd_event_source *alive;
	uid_t supervisor_uid;
	struct dra_api *api;
	char *node_name; /* NULL before the first settings */
	struct served_driver **drivers;
	size_t n_drivers;
	uint64_t last_question;
	json_t *devices;             /* by resource, as far as they are known */
	json_t *listed;              /* names of the resources of all drivers */
	json_t *held, *claims;       /* see CLUSTER_HELD */
	struct claim_lookup *lookup; /* NULL before the first question */
	struct node_report *report;  /* NULL: nothing is reported */
	struct label_writer *labels; /* NULL before the first labels */
	struct evictor *evictor;     /* NULL before the first order */
	json_t *evicting;            /* by resource, the devices whose taints evict; NULL: none */
};

/* --- drivers --- */

static struct served_driver *find_driver(const struct driver_process *process, uint64_t number)
{
	for (size_t i = 0; i < process->n_drivers; i++)
		if (served_driver_number(process->drivers[i]) == number)
			return process->drivers[i];
	return NULL;
}

static int add_driver(struct driver_process *process, uint64_t number, const char *name)
{
	const struct served_driver_options options = {
		.event = process->event,
		.api = process->api,
		.supervisor_uid = process->supervisor_uid,
		.node = process->node_name,
		.number = number,
		.last_question = &process->last_question,
		.claims = process->claims,
	};
	int r;

	r = array_reserve(
		(void **)&process->drivers, process->n_drivers, sizeof(struct served_driver *));
	/* All drivers share gRPC's queue. */
	if (r >= 0 && process->n_drivers == 0)
		r = rpc_start();
	if (r >= 0)
		r = served_driver_new(&options, name, &process->drivers[process->n_drivers]);
	if (r >= 0)
		process->n_drivers++;
	return r;
}

static void publish(struct driver_process *process)
{
	for (size_t i = 0; i < process->n_drivers; i++)
		served_driver_publish(process->drivers[i], process->devices, process->held);
}

/* --- messages --- */

static int configure_driver(struct driver_process *process, json_t *settings, bool claim_status)
{
	json_t *resources;
	const char *name;
	json_int_t number;
	int r = 0;

	if (json_unpack(settings, "{s:I, s:s, s:o}", "number", &number, "name", &name, "resources",
		    &resources) < 0)
		return -EBADMSG;
	if (!find_driver(process, (uint64_t)number))
		r = add_driver(process, (uint64_t)number, name);
	if (r >= 0)
		served_driver_configure(
			find_driver(process, (uint64_t)number), resources, claim_status);
	return r;
}

static json_t *list_names(const json_t *drivers)
{
	json_t *names = json_object(), *driver, *name;
	size_t i, k;

	json_array_foreach(drivers, i, driver)
	{
		json_array_foreach(json_object_get(driver, "resources"), k, name)
		{
			(void)json_object_set_new(
				names, json_string_value(name) ?: "", json_true());
		}
	}
	return names;
}

/* A resource that comes back under its name has no devices before it reports them. */
static void forget_removed(struct driver_process *process, const json_t *drivers)
{
	json_auto_t *before = process->listed;
	const char *name;
	json_t *listed;

	process->listed = list_names(drivers);
	json_object_foreach(before, name, listed)
	{
		if (!json_object_get(process->listed, name))
			(void)json_object_del(process->devices, name);
	}
}

static int handle_configure(struct driver_process *process, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *settings = NULL;
	json_t *drivers, *driver;
	const char *node;
	int settled, claim_status;
	size_t size, i;
	int r;

	r = sealed_read(message->fds[0], SETTINGS_MAX, &text, &size);
	if (r < 0)
		return r;
	settings = json_loadb(text, size, 0, NULL);
	if (json_unpack(settings, "{s:s, s:b, s:b, s:o}", "node", &node, "node_settled", &settled,
		    "claim_status", &claim_status, "drivers", &drivers) < 0)
		return -EBADMSG;
	/* Another name of the node comes with another process. */
	if (!process->node_name)
		process->node_name = strdup(node);
	if (!process->node_name)
		return -ENOMEM;
	dra_api_set_node(process->api, process->node_name, settled);
	forget_removed(process, drivers);
	json_array_foreach(drivers, i, driver)
	{
		if (r >= 0)
			r = configure_driver(process, driver, claim_status);
	}
	publish(process);
	return r;
}

/* Takes the devices of a resource. Returns them with the taints that evict; NULL: no memory. */
static json_t *mark_taken(
	const struct driver_process *process, const char *resource, json_t *devices)
{
	json_auto_t *given = devices;

	return slice_taints_mark(given, json_object_get(process->evicting, resource));
}

static int handle_inventory(struct driver_process *process, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *expect = NULL;
	json_t *devices;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], CONTROL_DEVICES_MAX, &text, &size);
	if (r < 0)
		return r;
	devices = dra_devices_read(text, size, &expect);
	if (!devices)
		return 0;
	if (process->report)
		node_report_set_devices(process->report, message->text, devices, expect);
	dra_devices_strip(devices);
	devices = mark_taken(process, message->text, devices);
	if (!devices)
		return -ENOMEM;
	(void)json_object_set_new(process->devices, message->text, devices);
	publish(process);
	return 0;
}

/* Comes before the devices of the resources. */
static int handle_resources(struct driver_process *process, struct control_message *message)
{
	int r = 0;

	if (!process->node_name)
		return -EBADMSG;
	if (!process->report)
		r = node_report_new(
			process->event, process->api, process->node_name, &process->report);
	return r < 0 ? r : node_report_take_resources(process->report, message);
}

static int handle_labels(struct driver_process *process, struct control_message *message)
{
	int r = 0;

	if (!process->node_name)
		return -EBADMSG;
	if (!process->labels)
		r = label_writer_new(
			process->event, process->api, process->node_name, &process->labels);
	return r < 0 ? r : label_writer_take(process->labels, message);
}

static int handle_held(struct driver_process *process, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *document = NULL, *before = NULL;
	json_t *held, *claims;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], CONTROL_DEVICES_MAX, &text, &size);
	if (r < 0)
		return r;
	document = json_loadb(text, size, 0, NULL);
	held = json_object_get(document, "devices");
	claims = json_object_get(document, "claims");
	if (!json_is_object(held) || !json_is_object(claims))
		return -EBADMSG;
	(void)json_object_clear(process->claims);
	if (json_object_update(process->claims, claims) < 0)
		return -ENOMEM;
	before = process->held;
	process->held = json_incref(held);
	for (size_t i = 0; i < process->n_drivers; i++)
		served_driver_set_held(process->drivers[i], held);
	return 0;
}

static int handle_session(struct driver_process *process, struct control_message *message)
{
	struct served_driver *driver = find_driver(process, message->driver);

	if (driver)
		served_driver_open_session(driver, message);
	return 0;
}

static int handle_registered(struct driver_process *process, struct control_message *message)
{
	struct served_driver *driver = find_driver(process, message->driver);

	if (driver)
		served_driver_registered(driver);
	return 0;
}

static int handle_file(struct driver_process *process, struct control_message *message)
{
	dra_api_take_file(process->api, message);
	return 0;
}

static int handle_prepared(struct driver_process *process, struct control_message *message)
{
	for (size_t i = 0; i < process->n_drivers; i++)
		served_driver_take_prepared(process->drivers[i], message);
	return 0;
}

static int handle_look_up(struct driver_process *process, struct control_message *message)
{
	int r = 0;

	if (!process->node_name)
		return -EBADMSG;
	if (!process->lookup)
		r = claim_lookup_new(process->api, process->node_name, &process->lookup);
	return r < 0 ? r : claim_lookup_begin(process->lookup, message);
}

/* For resources whose driver is not served here, nothing waits. */
static bool has_published(const char *driver, uint64_t since, void *userdata)
{
	const struct driver_process *process = userdata;

	for (size_t i = 0; i < process->n_drivers; i++)
		if (streq(served_driver_name(process->drivers[i]), driver))
			return served_driver_has_published(process->drivers[i], since);
	return true;
}

static void on_pod(const struct evictor_pod *pod, void *userdata)
{
	const struct driver_process *process = userdata;

	if (process->report)
		node_report_take_pod(process->report, pod);
}

static int make_evictor(struct driver_process *process)
{
	const struct evictor_options options = {
		.event = process->event,
		.api = process->api,
		.node = process->node_name,
		.has_published = has_published,
		.on_pod = on_pod,
		.userdata = process,
	};

	if (!process->node_name)
		return -EBADMSG;
	return process->evictor ? 0 : evictor_new(&options, &process->evictor);
}

/* The taints are published first, so that the pods of their devices wait for that. */
static void set_evicting(struct driver_process *process, json_t *evicting)
{
	json_t *devices;
	const char *resource;

	if (json_equal(process->evicting, evicting))
		return;
	json_decref(process->evicting);
	process->evicting = json_incref(evicting);
	json_object_foreach(process->devices, resource, devices)
	{
		json_t *marked = slice_taints_mark(devices, json_object_get(evicting, resource));

		if (marked)
			(void)json_object_set_new(process->devices, resource, marked);
	}
	publish(process);
}

static int handle_evict(struct driver_process *process, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *document = NULL;
	size_t size;
	int r = make_evictor(process);

	if (r >= 0)
		r = sealed_read(message->fds[0], CONTROL_DEVICES_MAX, &text, &size);
	if (r < 0)
		return r;
	document = json_loadb(text, size, 0, NULL);
	if (!json_is_object(json_object_get(document, "taints")))
		return -EBADMSG;
	set_evicting(process, json_object_get(document, "taints"));
	return evictor_take(process->evictor, document);
}

static int handle_holders(struct driver_process *process, struct control_message *message)
{
	return process->report ? node_report_take_holders(process->report, message) : -EBADMSG;
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
		[CLUSTER_LOOK_UP] = handle_look_up,
		[CLUSTER_RESOURCES] = handle_resources,
		[CLUSTER_LABELS] = handle_labels,
		[CLUSTER_EVICT] = handle_evict,
		[CLUSTER_HOLDERS] = handle_holders,
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
	if (process->n_drivers > 0 && rpc_is_held_up()) {
		log_warning("a client floods the socket, so the kubelet cannot be served; closing "
			    "all connections to the DRA drivers");
		for (size_t i = 0; i < process->n_drivers; i++)
			served_driver_free_the_way(process->drivers[i]);
	}
	return sd_event_source_set_time_relative(source, CONTROL_ALIVE_INTERVAL);
}

/* --- --- */

static int run(struct driver_process *process)
{
	struct ucred supervisor = { 0 };
	socklen_t size = sizeof(supervisor);
	int r;

	if (getsockopt(CONTROL_FD, SOL_SOCKET, SO_PEERCRED, &supervisor, &size) < 0) {
		log_error(
			"devplugd starts this program itself, when a resource has serve = "
			"\"dra\" or severity = \"evict\", or cluster.report or cluster.labels is set");
		return -EBADF;
	}
	process->supervisor_uid = supervisor.uid;
	process->devices = json_object();
	process->held = json_object();
	process->claims = json_object();
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
	for (size_t i = 0; i < process->n_drivers; i++)
		served_driver_stop(process->drivers[i], STOP_GRACE);
	free(process->drivers);
	(void)claim_lookup_free(process->lookup);
	(void)node_report_free(process->report);
	(void)label_writer_free(process->labels);
	(void)evictor_free(process->evictor);
	(void)dra_api_free(process->api);
	json_decref(process->devices);
	json_decref(process->listed);
	json_decref(process->held);
	json_decref(process->claims);
	json_decref(process->evicting);
	free(process->node_name);
	sd_event_source_disable_unref(process->alive);
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
