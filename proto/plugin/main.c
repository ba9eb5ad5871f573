/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devplugd-plugin: serves one resource. Started by devplugd with the control socket as descriptor
 * 3, through which all settings arrive; ends on CONTROL_STOP or when the supervisor has ended.
 * Needs no privilege: its listening sockets arrive as descriptors.
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "common/counters.h"
#include "common/log.h"
#include "common/sealed.h"
#include "common/spawn-request.h"
#include "proto/plugin/edits.h"
#include "proto/plugin/kubelet-client.h"
#include "proto/plugin/memory-limit.h"
#include "proto/plugin/plugin-send.h"
#include "proto/plugin/plugin.h"
#include "proto/plugin/pod-reader.h"
#include "proto/plugin/template-process.h"

/* Calls get this long to be answered when the process stops. */
#define STOP_GRACE (300 * USEC_PER_MSEC)
/* A handler on gRPC's thread never takes this long unless the host hangs. */
#define HANDLER_MAX (5 * USEC_PER_SEC)
/* Checks again after a handler that did, because the host may have been paused. */
#define HANDLER_CHECK_AGAIN (500 * USEC_PER_MSEC)

/* A kubelet admits its pods again as soon as it runs, but some only when it has heard of them from
 * the API server. */
#define READMISSION_MAX (120 * USEC_PER_SEC)
/* Maximum size of a CHILD_BOOKED. */
#define BOOKED_MAX RPC_REQUEST_MAX

/* A function of the leak sanitizer, if the build uses it. The sanitizer otherwise checks in exit(),
 * which is not called. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

static void report_session(struct plugin *plugin, uint32_t type, uint64_t number, const char *text)
{
	struct control_message message = CHILD_MESSAGE_INIT(type);

	message.session = number;
	(void)snprintf(message.text, sizeof(message.text), "%s", text);
	plugin_send(plugin->event, &message);
}

static void end_session(struct plugin *plugin, const char *why)
{
	uint64_t number = session_number(plugin->session);

	plugin->session = session_free(plugin->session);
	report_session(plugin, CHILD_SESSION_ENDED, number, why);
}

static void on_serving(struct session *session, void *userdata)
{
	report_session(userdata, CHILD_SERVING, session_number(session), "");
}

static void on_session_ended(struct session *session, const char *why, void *userdata)
{
	end_session(userdata, why);
}

static const struct session_events session_events = {
	.on_serving = on_serving,
	.on_ended = on_session_ended,
};

static void on_stream(uint64_t label, bool opened, void *userdata)
{
	struct plugin *plugin = userdata;

	if (plugin->session)
		session_on_stream(plugin->session, label, opened);
}

static void on_allocated(const char *const *ids, size_t n_ids, void *userdata)
{
	struct plugin *plugin = userdata;
	_cleanup_offer_ struct offer *listed = service_current(plugin->service);

	allocation_count_add(&plugin->allocation_count, ids, n_ids);
	if (inventory_note_allocated(plugin->inventory, listed->snapshot, ids, n_ids) < 0)
		log_warning(
			"out of memory; the allocation is not reported until the kubelet has saved it");
	if (n_ids > 1)
		log_info("allocated %s and %zu more", ids[0], n_ids - 1);
	else
		log_info("allocated %s", ids[0]);
	plugin_report_counts(plugin);
}

static void offer_again(struct plugin *plugin, int changed)
{
	if (changed <= 0)
		return;
	plugin_offer(plugin);
	plugin_report(plugin);
}

static void on_refused(const char *const *ids, size_t n_ids, void *userdata)
{
	struct plugin *plugin = userdata;
	_cleanup_offer_ struct offer *listed = service_current(plugin->service);
	int changed = 0;

	for (size_t i = 0; i < n_ids; i++)
		if (offer_is_readmitted(listed, ids[i]) &&
			!strings_contain(&plugin->readmission_refused, ids[i]) &&
			strings_add(&plugin->readmission_refused, ids[i], strlen(ids[i])) >= 0)
			changed = 1;
	offer_again(plugin, changed);
}

static void on_offer_possible(void *userdata)
{
	plugin_offer(userdata);
}

static void on_pending(struct bookings *pending, void *userdata)
{
	struct plugin *plugin = userdata;

	if (inventory_set_pending(plugin->inventory, pending) < 0)
		log_warning(
			"out of memory; the devices of running allocations may leave the list until they are allocated");
}

static void on_allocate(struct mailbox *mailbox, struct offer *offer, struct rpc_call *call,
	struct message *request, size_t size, void *userdata)
{
	struct plugin *plugin = userdata;

	allocate_post(&plugin->allocates, mailbox, offer, call, request, size);
}

static void on_cancelled(const struct rpc_call *call, void *userdata)
{
	struct plugin *plugin = userdata;

	allocates_cancel(&plugin->allocates, call);
	pre_starts_cancel(&plugin->pre_starts, call);
}

static void on_pre_start(
	struct rpc_call *call, const char *const *ids, size_t n_ids, void *userdata)
{
	struct plugin *plugin = userdata;
	_cleanup_offer_ struct offer *offer = service_current(plugin->service);

	pre_start_answer(&plugin->pre_starts, &plugin->uses, offer, call, ids, n_ids);
}

static const struct service_events service_events = {
	.on_stream = on_stream,
	.on_allocated = on_allocated,
	.on_refused = on_refused,
	.on_offer_possible = on_offer_possible,
	.on_allocate = on_allocate,
	.on_cancelled = on_cancelled,
	.on_pre_start = on_pre_start,
};

static void handle_configure(struct plugin *plugin, struct control_message *message)
{
	plugin_configure(plugin, message->fds[0], message->fds[1]);
	/* The kubelet reads options at registration only. The other way round needs nothing: a
	 * PreStartContainer without a command is answered OK. */
	if (plugin->session && !plugin->session_pre_starts &&
		declaration_pre_starts(plugin->applied_config->declaration))
		end_session(plugin,
			"prestart or release was added, which the kubelet reads only at registration");
}

static void handle_session(struct plugin *plugin, struct control_message *message)
{
	const struct declaration *declaration =
		plugin->applied_config ? plugin->applied_config->declaration : NULL;
	const struct session_parameters parameters = {
		.number = message->session,
		.kubelet_pid = (pid_t)message->peer,
		.supervisor_uid = plugin->supervisor_uid,
	};
	int r;

	if (!declaration || plugin->session) {
		report_session(plugin, CHILD_SESSION_ENDED, message->session,
			declaration ? "another session is open" : "there is no configuration yet");
		return;
	}
	plugin->session_pre_starts = declaration_pre_starts(declaration);
	r = session_new(plugin->event, plugin->service, &parameters, TAKE_FD(message->fds[0]),
		&session_events, plugin, &plugin->session);
	if (r < 0)
		report_session(plugin, CHILD_SESSION_ENDED, message->session, strerror(-r));
}

static void handle_end_session(struct plugin *plugin, struct control_message *message)
{
	if (plugin->session && session_number(plugin->session) == message->session)
		end_session(plugin, "the supervisor asked for it");
	else
		report_session(plugin, CHILD_SESSION_ENDED, message->session, "it was not open");
}

static void handle_stop(struct plugin *plugin, struct control_message *message)
{
	(void)sd_event_exit(plugin->event, 0);
}

/* Devices waited for this message. */
static void on_answer(void *userdata)
{
	offer_again(userdata, 1);
}

static void handle_published(struct plugin *plugin, struct control_message *message)
{
	publish_answered(&plugin->publishing, message);
}

static void handle_owners(struct plugin *plugin, struct control_message *message)
{
	claiming_answered(&plugin->claiming, plugin->inventory, message);
}

static int on_readmission_end(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin *plugin = userdata;

	if (plugin->inventory)
		offer_again(plugin, 1);
	return 0;
}

static void note_kubelet(struct plugin *plugin, uint64_t restarted)
{
	uint64_t end = restarted > 0 ? restarted + READMISSION_MAX : 0;

	if (end == plugin->readmission_end)
		return;
	plugin->readmission_end = end;
	strings_done(&plugin->readmission_refused);
	(void)sd_event_source_set_time(plugin->readmission_source, end);
	(void)sd_event_source_set_enabled(
		plugin->readmission_source, end > 0 ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static void handle_booked(struct plugin *plugin, struct control_message *message)
{
	struct bookings *booked;
	_cleanup_free_ char *text = NULL;
	uint64_t before = plugin->booked_hash;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], BOOKED_MAX, &text, &size);
	if (r >= 0)
		r = bookings_read(text, size, &booked);
	if (r < 0) {
		log_error("cannot determine the devices that the kubelet has assigned: %s",
			strerror(-r));
		return;
	}
	(void)bookings_unref(plugin->booked);
	plugin->booked = booked;
	plugin->booked_hash = bookings_hash(booked, text, size);
	plugin->allocated_before = message->allocated_before;
	note_kubelet(plugin, message->kubelet_restarted);
	if (!plugin->inventory)
		return;
	r = inventory_set_booked(
		plugin->inventory, booked, message->gone_by, message->allocated_before);
	offer_again(plugin, r == 0 ? plugin->readmission_end > now_usec(CLOCK_MONOTONIC) : r);
	/* Containers may have other devices now. The same bookings may be the answer to a report.
	 */
	if (plugin->applied_config->declaration->metadata && plugin->booked_hash != before)
		plugin_report(plugin);
}

static void handle_list_again(struct plugin *plugin, struct control_message *message)
{
	if (plugin->service && service_list_again(plugin->service) < 0)
		log_warning("out of memory; the kubelet is not sent the list again");
}

static void handle_forget(struct plugin *plugin, struct control_message *message)
{
	if (plugin->inventory)
		offer_again(plugin, inventory_forget(plugin->inventory, message->text));
}

static void handle_release(struct plugin *plugin, struct control_message *message)
{
	bool begin = message->phase == CHILD_RELEASE_BEGIN;

	if (!plugin->inventory)
		return;
	(void)inventory_release(plugin->inventory, begin, message->text);
	if (!begin)
		(void)inventory_resume(
			plugin->inventory, message->text, message->phase == CHILD_RELEASE_UNTESTED);
}

static void handle_counters(struct plugin *plugin, struct control_message *message)
{
	int r = counters_use(message->fds[0]);

	if (r < 0)
		log_warning("the metrics do not include this process: %s", strerror(-r));
}

static void handle_edit(struct plugin *plugin, struct control_message *message)
{
	edits_begin(plugin, message);
}

static void on_scanned(struct inventory *inventory, void *userdata)
{
	plugin_report_scanned(userdata);
}

static void handle_used(struct plugin *plugin, struct control_message *message)
{
	device_use_answered(&plugin->uses, message);
}

static void handle_clean(struct plugin *plugin, struct control_message *message)
{
	_cleanup_offer_ struct offer *offer =
		plugin->service ? service_current(plugin->service) : NULL;

	device_use_clean(&plugin->uses, offer, message);
}

static void handle_dirty(struct plugin *plugin, struct control_message *message)
{
	int r = device_use_take_dirty(&plugin->uses, message);

	if (r >= 0 && plugin->inventory)
		r = inventory_set_dirty(plugin->inventory, plugin->uses.dirty);
	if (r < 0)
		log_error("cannot determine which devices are being cleaned: %s", strerror(-r));
	offer_again(plugin, r);
}

static void handle_scan(struct plugin *plugin, struct control_message *message)
{
	plugin->scan_owed = message->number;
	if (plugin->inventory)
		inventory_scan(plugin->inventory, on_scanned);
	else
		plugin_report_scanned(plugin);
}

static void handle_last_complete(struct plugin *plugin, struct control_message *message)
{
	expecting_take(&plugin->expecting, message->fds[0]);
}

static void (*const handlers[])(struct plugin *plugin, struct control_message *message) = {
	[CHILD_CONFIGURE] = handle_configure,
	[CHILD_SESSION] = handle_session,
	[CHILD_END_SESSION] = handle_end_session,
	[CONTROL_STOP] = handle_stop,
	[CHILD_PUBLISHED] = handle_published,
	[CHILD_OWNERS] = handle_owners,
	[CHILD_BOOKED] = handle_booked,
	[CHILD_LIST_AGAIN] = handle_list_again,
	[CHILD_FORGET] = handle_forget,
	[CHILD_RELEASE] = handle_release,
	[CHILD_COUNTERS] = handle_counters,
	[CHILD_EDIT] = handle_edit,
	[CHILD_SCAN] = handle_scan,
	[CHILD_LAST_COMPLETE] = handle_last_complete,
	[CHILD_USED] = handle_used,
	[CHILD_CLEAN] = handle_clean,
	[CHILD_DIRTY] = handle_dirty,
};

static int on_control(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct plugin *plugin = userdata;
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(0);
	int r;

	r = control_receive(fd, &control_child, &message);
	if (r == -EAGAIN)
		return 0;
	if (r < 0) {
		if (r != -ECONNRESET)
			log_error("the supervisor sent a malformed message; exiting");
		return sd_event_exit(plugin->event, r == -ECONNRESET ? 0 : r);
	}
	if ((size_t)message.type < ARRAY_SIZE(handlers) && handlers[message.type])
		handlers[message.type](plugin, &message);
	return 0;
}

static int on_alive_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin *plugin = userdata;
	const struct control_message message = CHILD_MESSAGE_INIT(CONTROL_ALIVE);
	uint64_t since = plugin->service ? service_busy_since(plugin->service) : 0;
	/* The heartbeat of this thread alone would not show a handler that hangs. */
	bool alive = since == 0 || now_usec(CLOCK_MONOTONIC) - since < HANDLER_MAX;

	/* If the socket is full, the supervisor has enough messages to read. */
	if (alive)
		(void)control_send(CONTROL_FD, &message);
	(void)sd_event_source_set_time_relative(
		source, alive ? CONTROL_ALIVE_INTERVAL : HANDLER_CHECK_AGAIN);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void reduce_footprint(void)
{
	pthread_attr_t attributes;

	/* Each of gRPC's threads would otherwise have an arena and, before Linux 6.7 with huge
	 * pages always on, a stack of 2 MiB. */
	(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	(void)mallopt(M_ARENA_MAX, 1);
	if (pthread_attr_init(&attributes) != 0)
		return;
	(void)pthread_attr_setstacksize(&attributes, 256 * 1024);
	(void)pthread_setattr_default_np(&attributes);
	(void)pthread_attr_destroy(&attributes);
}

static void on_housekeeping(void *userdata)
{
	struct plugin *plugin = userdata;

	plugin_report_overdue(plugin);
	if (plugin->service && rpc_is_held_up() && plugin->session)
		session_free_the_way(plugin->session);
}

static void connect_parts(struct plugin *plugin)
{
	plugin->service_events = &service_events;
	plugin->housekeeping.on_due = on_housekeeping;
	plugin->uses.event = plugin->allocates.event = plugin->claiming.event =
		plugin->publishing.event = plugin->event;
	plugin->allocates.uses = &plugin->uses;
	plugin->allocates.on_allocated = on_allocated;
	plugin->allocates.on_refused = on_refused;
	plugin->allocates.on_pending = on_pending;
	plugin->claiming.resource = plugin->resource;
	plugin->claiming.on_answer = plugin->publishing.on_answer = on_answer;
	plugin->housekeeping.userdata = plugin->allocates.userdata = plugin->claiming.userdata =
		plugin->publishing.userdata = plugin;
}

static int run(struct plugin *plugin)
{
	struct ucred supervisor = {};
	socklen_t size = sizeof(supervisor);
	int r;

	if (getsockopt(CONTROL_FD, SOL_SOCKET, SO_PEERCRED, &supervisor, &size) < 0) {
		log_error("descriptor %d is not a control socket; devplugd starts this program",
			CONTROL_FD);
		return -EBADF;
	}
	plugin->supervisor_uid = supervisor.uid;
	r = sd_event_default(&plugin->event);
	if (r >= 0)
		r = sd_event_add_io(plugin->event, NULL, CONTROL_FD, EPOLLIN, on_control, plugin);
	if (r >= 0)
		r = sd_event_add_time_relative(plugin->event, &plugin->alive_source,
			CLOCK_MONOTONIC, CONTROL_ALIVE_INTERVAL, USEC_PER_SEC, on_alive_due,
			plugin);
	if (r >= 0)
		r = sd_event_add_time(plugin->event, &plugin->readmission_source, CLOCK_MONOTONIC,
			0, USEC_PER_SEC, on_readmission_end, plugin);
	if (r >= 0)
		r = sd_event_source_set_enabled(plugin->readmission_source, SD_EVENT_OFF);
	connect_parts(plugin);
	if (r >= 0)
		r = housekeeping_start(&plugin->housekeeping, plugin->event);
	if (r < 0) {
		log_error("cannot set up the event loop: %s", strerror(-r));
		return r;
	}
	return sd_event_loop(plugin->event);
}

static void plugin_done(struct plugin *plugin)
{
	pre_starts_done(&plugin->pre_starts);
	edits_done(plugin);
	allocates_done(&plugin->allocates);
	device_uses_done(&plugin->uses);
	if (plugin->service)
		service_stop(plugin->service, STOP_GRACE);
	plugin->inventory = inventory_free(plugin->inventory);
	plugin->booked = bookings_unref(plugin->booked);
	plugin->applied_config = applied_config_unref(plugin->applied_config);
	snapshot_unref(plugin->logged);
	strings_done(&plugin->readmission_refused);
	claiming_done(&plugin->claiming);
	expecting_done(&plugin->expecting);
	labelling_done(&plugin->labelling);
	publish_done(&plugin->publishing);
	allocation_count_done(&plugin->allocation_count);
	sd_event_source_disable_unref(plugin->alive_source);
	housekeeping_done(&plugin->housekeeping);
	sd_event_source_disable_unref(plugin->readmission_source);
	sd_event_source_disable_unref(plugin->report_source);
	sd_event_unref(plugin->event);
}

int main(int argc, char *argv[])
{
	struct plugin plugin = { 0 };
	int r;

	log_setup("devplugd-plugin", LOG_TARGET_PARENT, LOG_INFO);
	if (argc == 3 && streq(argv[1], TEMPLATE_ARGUMENT)) {
		r = spawn_template_serve(argc, argv, &plugin.resource);
		if (r <= 0)
			return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	} else if (argc == 2) {
		plugin.resource = argv[1];
	} else {
		log_error(
			"usage: devplugd-plugin RESOURCE, with the control socket as descriptor %d; devplugd starts this program",
			CONTROL_FD);
		return 2;
	}
	(void)prctl(PR_SET_NAME, "devplugd-plugin");
	(void)signal(SIGPIPE, SIG_IGN);
	reduce_footprint();
	memory_limit_set();
	if (streq(plugin.resource, POD_READER_NAME))
		_exit(pod_reader_run() < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	if (streq(plugin.resource, KUBELET_CLIENT_NAME))
		_exit(kubelet_client_run() < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	r = run(&plugin);
	plugin_done(&plugin);
	/* The kernel closes connections and ends gRPC's threads faster than gRPC would, and the
	 * kubelet notices the same: the end of the stream. */
	if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check() != 0)
		r = -ENOTRECOVERABLE;
	_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
