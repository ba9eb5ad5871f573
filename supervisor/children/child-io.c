/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out what resource-lifecycle.c decides about a child, and receives its messages and exit.
 * Decides only whether a message is acceptable.
 */
#include "common/control-child.h"
#include "common/counters.h"
#include "common/foreign.h"
#include "common/log.h"
#include "common/message-id.h"
#include "common/sealed.h"
#include "drivers/inventory/complete-list.h"
#include "drivers/model/driver.h"
#include "drivers/model/node-label.h"
#include "supervisor/children/child.h"
#include "supervisor/files/published-files.h"
#include "supervisor/process/retry-delay.h"

/* The minimum time between two writes of the health of one child's devices, and of its complete
 * list. */
#define SAVE_INTERVAL (100 * USEC_PER_MSEC)
#define LIST_INTERVAL USEC_PER_SEC
/* The same for labels, and the time until they are written again after a failure. */
#define LABELS_INTERVAL USEC_PER_SEC
#define LABELS_RETRY    (10 * USEC_PER_SEC)

static struct log_fields fields_of(const struct child *child, const char *message_id)
{
	return (struct log_fields){
		.resource = child->resource->name,
		.child_pid = child->process.pid,
		.message_id = message_id,
		.generation = *child->host->generation,
	};
}

static void forget_process(struct child *child)
{
	process_done(&child->process);
	child->gone = child->booked_sent = child->dirty_sent = 0;
	claimant_end_process(child->claimant);
	proposal_end_process(child->proposal);
	child->devices_fd = foreign_close(child->devices_fd);
	child->devices_version = 0;
	child->host->on_edits(child, NULL, child->host->userdata);
	(void)child->host->on_cleaning(child, NULL, child->host->userdata);
}

/* --- messages --- */

static void on_broken(const char *what, void *userdata)
{
	struct child *child = userdata;
	char why[128];

	(void)snprintf(why, sizeof(why), "the child %s", what);
	process_ignore(&child->process);
	resource_handle(child->resource, RESOURCE_BROKEN, why);
}

/* Keeps the document with the devices for clients, who can rely on it from here on. */
static int take_document(struct child *child, struct control_message *message)
{
	const struct log_fields fields = fields_of(child, NULL);
	size_t size;
	int r;

	r = sealed_check(message->fds[0], CONTROL_DEVICES_MAX, &size);
	if (r == -EBADMSG)
		return r;
	if (r == -EFBIG && !child->devices_too_large)
		log_full(LOG_WARNING, &fields,
			"the description of the devices is larger than %u MiB, so devplugctl, metrics and DRA do not include these devices; match fewer devices",
			CONTROL_DEVICES_MAX >> 20);
	child->devices_too_large = r == -EFBIG;
	child->devices_fd = foreign_close(child->devices_fd);
	if (!child->devices_too_large)
		child->devices_fd = TAKE_FD(message->fds[0]);
	if (message->number != child->devices_version)
		child->devices_passed_on = false;
	child->devices_version = message->number;
	return 0;
}

static void on_devices(struct child *child, struct control_message *message)
{
	if (take_document(child, message) < 0) {
		on_broken("sent an invalid inventory", child);
		return;
	}
	if (message->fds[1] >= 0)
		saved_health_take(&child->health, TAKE_FD(message->fds[1]));
	/* What is shown is saved, unless changes come fast. */
	(void)child_save(child);
	child->reported = true;
	child->counts_changed = message->devices != child->resource->devices ||
		message->healthy != child->resource->healthy;
	child->resource->devices = message->devices;
	child->resource->healthy = message->healthy;
	child->resource->ids = message->ids;
	child->offer.reported_at = now_usec(CLOCK_MONOTONIC);
	if (message->healthy_ids != child->resource->healthy_ids)
		child->offer.changed_at = child->offer.reported_at;
	child->resource->healthy_ids = message->healthy_ids;
	child->host->on_devices(child, child->host->userdata);
}

/* A child can have only a list saved that its configuration calls complete; of another number, it
 * is of the configuration before. */
static void on_complete(struct child *child, struct control_message *message)
{
	const struct declaration *declaration = child_declaration(child);
	_cleanup_complete_list_ struct complete_list list = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], COMPLETE_LIST_SIZE_MAX, &text, &size);
	if (r >= 0)
		r = complete_list_read(text, size, &list);
	if (r < 0 && r != -ENOMEM) {
		on_broken("sent an invalid list of devices", child);
		return;
	}
	if (r < 0 || !declaration || list.ids.count == 0 ||
		list.ids.count != (size_t)declaration->expect ||
		hash_string(text) == child->list_hash)
		return;
	child->list_hash = hash_string(text);
	saved_health_take(&child->list, TAKE_FD(message->fds[0]));
	(void)child_save(child);
}

/* Labels are of the configuration that the child has accepted. */
static void on_labels(struct child *child, struct control_message *message)
{
	const struct declaration *declaration = child_declaration(child);
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], NODE_LABELS_SIZE_MAX, &text, &size);
	if (r >= 0 && declaration)
		r = strlen(text) == size
			? node_labels_check(text, &declaration->labels, declaration->name)
			: -EBADMSG;
	if (r < 0 && r != -ENOMEM) {
		on_broken("sent invalid labels", child);
		return;
	}
	if (r < 0 || !declaration)
		return;
	free(child->labels);
	child->labels = TAKE_PTR(text);
	child->labels_pending = true;
	(void)child_save(child);
}

static void on_ready(struct child *child, struct control_message *message)
{
	enum registration_way before = child_registration(child);
	bool first = child->resource->state == RESOURCE_STARTING;

	child->reported = false;
	resource_handle(child->resource, RESOURCE_READY, NULL);
	if (!first && child_registration(child) != before)
		resource_handle(child->resource, RESOURCE_RENEW, NULL);
}

static void on_publish(struct child *child, struct control_message *message)
{
	/* Its files have been removed. */
	if (child->leaving)
		return;
	resource_publishes(child->resource);
	proposal_submit(child->proposal, TAKE_FD(message->fds[0]), message->number);
}

static void on_failures(struct child *child, struct control_message *message)
{
	if (child->host->on_failures(child, message->fds[0], child->host->userdata) < 0)
		on_broken("sent invalid failures", child);
}

static void on_attributes(struct child *child, struct control_message *message)
{
	if (child->host->on_attributes(child, message->fds[0], child->host->userdata) == -EBADMSG)
		on_broken("sent invalid attributes", child);
}

static void on_gone(struct child *child, struct control_message *message)
{
	child->gone = message->removed;
	child->host->on_gone(child->host->userdata);
}

static void on_call_failed(struct child *child, struct control_message *message)
{
	if (failure_take(
		    child->resource->failures, child->resource->name, message, &child->log_budget))
		child->host->on_changed(child->host->userdata);
	else
		on_broken("sent a malformed message", child);
}

static void on_claims(struct child *child, struct control_message *message)
{
	claimant_submit(child->claimant, TAKE_FD(message->fds[0]), message->number);
}

static void on_scanned(struct child *child, struct control_message *message)
{
	claimant_scanned(child->claimant, message->number);
}

static void on_edits(struct child *child, struct control_message *message)
{
	child->host->on_edits(child, message, child->host->userdata);
}

static void on_cleaning(struct child *child, struct control_message *message)
{
	if (!child->host->on_cleaning(child, message, child->host->userdata))
		on_broken("sent a malformed message", child);
}

/* Each message that a child may send: what handles it, or what it means to the state table. */
static const struct {
	void (*handle)(struct child *child, struct control_message *message);
	enum resource_event event;
	bool session; /* about a session, which may be over */
} message_types[] = {
	[CONTROL_ALIVE] = { .event = RESOURCE_ALIVE },
	[CHILD_READY] = { .handle = on_ready },
	[CHILD_REFUSED] = { .event = RESOURCE_REFUSED },
	[CHILD_SERVING] = { .event = RESOURCE_WATCHED, .session = true },
	[CHILD_SESSION_ENDED] = { .event = RESOURCE_SESSION_ENDED, .session = true },
	[CHILD_DEVICES] = { .handle = on_devices },
	[CHILD_COMPLETE] = { .handle = on_complete },
	[CHILD_LABELS] = { .handle = on_labels },
	[CHILD_FAILURES] = { .handle = on_failures },
	[CHILD_GONE] = { .handle = on_gone },
	[CHILD_PUBLISH] = { .handle = on_publish },
	[CHILD_CLAIMS] = { .handle = on_claims },
	[CHILD_SCANNED] = { .handle = on_scanned },
	[CHILD_CALL_FAILED] = { .handle = on_call_failed },
	[CHILD_EDITS] = { .handle = on_edits },
	[CHILD_EDITS_CHANGED] = { .handle = on_edits },
	[CHILD_USE] = { .handle = on_cleaning },
	[CHILD_CLEANED] = { .handle = on_cleaning },
	[CHILD_ATTRIBUTES] = { .handle = on_attributes },
};

static void on_message(struct control_message *message, void *userdata)
{
	struct child *child = userdata;

	if (message_types[message->type].handle)
		message_types[message->type].handle(child, message);
	else if (!message_types[message->type].session ||
		message->session == child->resource->session)
		resource_handle(child->resource, message_types[message->type].event,
			message->text[0] ? message->text : "the child gave no reason");
}

static void on_hangup(void *userdata)
{
	struct child *child = userdata;

	resource_handle(child->resource, RESOURCE_HANGUP, NULL);
}

/* --- the end of a process --- */

static enum exit_cause exit_cause(const struct child *child, const siginfo_t *info)
{
	if (child->process.killed)
		return EXIT_CAUSE_HANG;
	return info->si_code == CLD_KILLED && info->si_status == SIGKILL ? EXIT_CAUSE_KILLED
									 : EXIT_CAUSE_CRASH;
}

static void on_child_exit(const siginfo_t *info, void *userdata)
{
	struct child *child = userdata;
	struct log_fields fields = fields_of(child, MESSAGE_ID_CHILD_DIED);
	bool wanted;
	char how[704], exit_text[768];

	(void)process_receive(&child->process);
	wanted = (child->resource->state == RESOURCE_STOPPING ||
			 child->resource->state == RESOURCE_RESTARTING) &&
		info->si_code == CLD_EXITED && info->si_status == 0;
	if (!wanted)
		child->resource->counts.exits[exit_cause(child, info)]++;
	process_exit_text(&child->process, info, how, sizeof(how));
	(void)snprintf(exit_text, sizeof(exit_text), "the child %s", how);
	log_full(wanted ? LOG_INFO : LOG_ERR, &fields, "%s", exit_text);
	forget_process(child);
	resource_handle(child->resource, RESOURCE_EXIT, exit_text);
}

static const struct process_events process_events = {
	.on_message = on_message,
	.on_broken = on_broken,
	.on_hangup = on_hangup,
	.on_exit = on_child_exit,
};

/* --- the operations of the state table --- */

/* Without it, no missing device can be named. */
static void send_list(const struct child *child, const struct resource_config *config)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_LAST_COMPLETE);

	message.fds[0] = child->list.fd;
	if (child->list.fd >= 0 && config->declaration.expect > 0)
		(void)control_send(child->process.control_fd, &message);
}

static int op_configure(const struct resource_config *config, void *userdata, struct error *error)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_CONFIGURE);
	struct child *child = userdata;
	int r;

	r = sealed_new("devplugd-resource", config->text, strlen(config->text));
	if (r < 0)
		return error_set(
			error, r, "cannot create a memfd for the configuration: %s", strerror(-r));
	message.fds[0] = r;
	/* First, so that even the first list has what is booked. */
	r = child->host->send_booked(child, child->host->userdata);
	if (r < 0)
		return error_set(error, r, "cannot send the assigned devices to the child: %s",
			strerror(-r));
	send_list(child, config);
	/* It stays ours. A copy would be missing where there are no free descriptors, and the child
	 * would take failed devices for healthy ones. */
	message.fds[1] = child->health.fd;
	r = control_send(child->process.control_fd, &message);
	message.fds[1] = -EBADF;
	if (r < 0)
		return error_set(error, r, "cannot send to the child: %s", strerror(-r));
	return 0;
}

/* Without it the process is missing in metrics. */
static void send_counters(const struct child *child)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_COUNTERS);

	message.fds[0] = child->counters_fd;
	if (child->counters_fd >= 0)
		(void)control_send(child->process.control_fd, &message);
}

static int op_start(const struct resource_config *config, void *userdata, struct error *error)
{
	struct child *child = userdata;
	struct log_fields fields;
	struct spawn_options options = child->host->program;
	int r;

	options.resource = child->resource->name;
	options.user = config->declaration.user;
	r = process_start(&child->process, &options, error);
	if (r < 0)
		return r;
	send_counters(child);
	r = op_configure(config, child, error);
	/* One that has ended already has a reason, which follows with its exit. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET) {
		forget_process(child);
		return r;
	}
	fields = fields_of(child, MESSAGE_ID_CHILD_STARTED);
	log_full(LOG_INFO, &fields, "child started (pid %d)", (int)child->process.pid);
	return 0;
}

static void op_applied(const struct resource_config *before, void *userdata)
{
	struct child *child = userdata;

	/* The child proposes files again, and does not wait for an earlier answer. */
	proposal_drop_pending(child->proposal);
	child->host->on_applied(child, before, child->host->userdata);
}

static void end_registration(struct child *child)
{
	struct registration *registration = TAKE_PTR(child->registration);

	if (registration)
		child->host->end_registration(registration, child->host->userdata);
}

static void close_session(struct child *child)
{
	end_registration(child);
	session_done(&child->session);
}

void child_registered(struct child *child, const char *why)
{
	resource_handle(
		child->resource, why ? RESOURCE_REGISTRATION_FAILED : RESOURCE_REGISTERED, why);
}

static int send_session(struct child *child)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_SESSION);
	struct session *session = &child->session;
	int r;

	message.session = session->number;
	message.peer = (uint64_t)session_peer_pid(session->kubelet_fd);
	message.fds[0] = session->socket.fd;
	r = control_send(child->process.control_fd, &message);
	/* The child has its own. */
	session->socket.fd = close_fd(session->socket.fd);
	return r;
}

static int op_open_session(void *userdata, uint64_t *ret_number, struct error *error)
{
	struct child *child = userdata;
	const struct child_host *host = child->host;
	struct session *session = &child->session;
	enum registration_way way = child_registration(child);
	int r;

	close_session(child);
	r = host->open_session(way, child->resource->name, session, host->userdata, error);
	if (r < 0)
		return r;
	*ret_number = session->number;
	if (session_has_no_socket(session))
		return 0;
	r = send_session(child);
	if (r >= 0)
		r = host->begin_registration(child, &child->registration, host->userdata);
	if (r < 0) {
		close_session(child);
		return error_set(
			error, -EIO, "cannot send a session to the child: %s", strerror(-r));
	}
	return way == REGISTRATION_WATCHER;
}

static int op_end_session(uint64_t number, void *userdata)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_END_SESSION);
	struct child *child = userdata;

	if (session_has_no_socket(&child->session)) {
		child->host->end_session(child->host->userdata);
		return 0;
	}
	end_registration(child);
	message.session = number;
	return control_send(child->process.control_fd, &message);
}

static int op_stop(void *userdata)
{
	const struct control_message message = CHILD_MESSAGE_INIT(CONTROL_STOP);
	struct child *child = userdata;

	return control_send(child->process.control_fd, &message);
}

static void op_kill(int signal, void *userdata)
{
	struct child *child = userdata;

	process_kill(&child->process, signal);
}

static void op_remove_socket(void *userdata)
{
	close_session(userdata);
}

static void op_set_timer(enum resource_timer timer, uint64_t at, void *userdata)
{
	struct child *child = userdata;
	static const bool limits[_RESOURCE_STATE_MAX] = {
		[RESOURCE_REGISTERING] = true,
		[RESOURCE_ENDING] = true,
		[RESOURCE_DYING] = true,
	};
	bool limit = timer != RESOURCE_TIMER_STATE || limits[child->resource->state];

	process_timer_set(&child->timers[timer],
		at == USEC_INFINITY ? at : at - MIN_OF(at, now_usec(CLOCK_MONOTONIC)), limit);
}

static uint64_t op_now(void *userdata)
{
	return now_usec(CLOCK_MONOTONIC);
}

static uint32_t op_random(void *userdata)
{
	return retry_delay_random();
}

static void op_changed(void *userdata)
{
	struct child *child = userdata;

	child->host->on_changed(child->host->userdata);
}

static const struct resource_operations operations = {
	.start = op_start,
	.configure = op_configure,
	.applied = op_applied,
	.open_session = op_open_session,
	.end_session = op_end_session,
	.stop = op_stop,
	.kill = op_kill,
	.remove_socket = op_remove_socket,
	.set_timer = op_set_timer,
	.now = op_now,
	.random = op_random,
	.changed = op_changed,
};

/* --- whose its devices are --- */

static int answer_claims(uint64_t number, int fd, const char *refusal, void *userdata)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_OWNERS);
	struct child *child = userdata;
	int r;

	message.number = number;
	message.fds[0] = fd;
	(void)snprintf(message.text, sizeof(message.text), "%s", refusal);
	r = control_send(child->process.control_fd, &message);
	if (r >= 0 && claimant_is_waiting(child->claimant))
		child->reported = false;
	return r;
}

/* A resource of the driver static has no claims, and no other resource waits for it. */
static bool has_claims(const struct child *child)
{
	return resource_applied(child->resource)->declaration.driver != &static_driver;
}

static int scan(uint64_t number, void *userdata)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_SCAN);
	const struct child *child = userdata;

	if (!has_claims(child))
		return -EOPNOTSUPP;
	message.number = number;
	return control_send(child->process.control_fd, &message);
}

static bool is_starting(void *userdata)
{
	const struct child *child = userdata;

	if (!has_claims(child))
		return false;
	return child->resource->state == RESOURCE_STARTING ||
		child->resource->state == RESOURCE_RESTARTING;
}

static const char *root_of(void *userdata)
{
	const struct child *child = userdata;

	return declaration_root(&resource_applied(child->resource)->declaration);
}

static void on_malformed_claims(void *userdata)
{
	on_broken("sent invalid claims", userdata);
}

static void on_replays(void *userdata)
{
	struct child *child = userdata;

	child->host->on_gone(child->host->userdata);
}

static void name_user(const void *userdata, const char *id, char ret[static USER_NAME_MAX])
{
	const struct child *child = userdata;

	child->host->name_user(child, id, ret, child->host->userdata);
}

static const struct claimant_operations claimant_operations = {
	.answer = answer_claims,
	.scan = scan,
	.is_starting = is_starting,
	.root = root_of,
	.name_user = name_user,
	.on_malformed = on_malformed_claims,
	.on_note = op_changed,
	.on_replays = on_replays,
};

static int answer_proposal(uint64_t number, const char *why, void *userdata)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_PUBLISHED);
	struct child *child = userdata;

	op_changed(child);
	message.number = number;
	(void)snprintf(message.text, sizeof(message.text), "%s", why);
	return control_send(child->process.control_fd, &message);
}

/* --- what is saved --- */

/* Writes the file if that is pending and due. Returns as child_save(). */
static uint64_t save(struct child *child, struct saved_health *saved, struct pace *pace,
	uint64_t interval, int *failure, const char *what)
{
	const struct log_fields fields = fields_of(child, NULL);
	int r;

	if (!saved->pending)
		return USEC_INFINITY;
	if (now_usec(CLOCK_MONOTONIC) < pace->not_before)
		return pace->not_before;
	pace_begin(pace);
	r = saved_health_write(saved);
	if (r < 0 && r != *failure)
		log_full(LOG_WARNING, &fields,
			"cannot save %s: %s; it will be lost when devplugd restarts", what,
			strerror(-r));
	*failure = r;
	(void)pace_end_of_writing(pace, saved->pending ? SAVED_HEALTH_RETRY : interval);
	return saved->pending ? pace->not_before : USEC_INFINITY;
}

/* Each change has node-feature-discovery change the Node. */
static uint64_t write_labels(struct child *child)
{
	const struct log_fields fields = fields_of(child, NULL);
	const struct declaration *declaration = child_declaration(child);
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	_cleanup_free_ char *before = NULL;
	struct error error;
	int r;

	if (!child->labels_pending || !declaration)
		return USEC_INFINITY;
	if (now < child->labels_not_before)
		return child->labels_not_before;
	r = published_put_labels(child->host->published, declaration, child->labels, &error);
	before = TAKE_PTR(child->labels_failure);
	child->labels_failure = r < 0 ? strdup(error.message) : NULL;
	if (r < 0 && !(before && streq(before, error.message)))
		log_full(LOG_WARNING, &fields,
			"the labels of the node cannot be written: %s; devplugd tries again every %llu s",
			error.message, LABELS_RETRY / USEC_PER_SEC);
	if (r == 0 && before)
		log_full(LOG_NOTICE, &fields, "the labels of the node are written");
	child->labels_pending = r < 0;
	child->labels_not_before = now + (r < 0 ? LABELS_RETRY : LABELS_INTERVAL);
	return r < 0 ? child->labels_not_before : USEC_INFINITY;
}

void child_write_labels_again(struct child *child)
{
	child->labels_pending = child->labels;
	child->labels_not_before = 0;
}

uint64_t child_save(struct child *child)
{
	uint64_t health = save(child, &child->health, &child->saving, SAVE_INTERVAL,
		&child->save_failure, "the health of the devices");
	uint64_t list = save(child, &child->list, &child->list_saving, LIST_INTERVAL,
		&child->list_failure, "the complete list of devices");
	uint64_t labels = write_labels(child);

	return MIN_OF(labels, MIN_OF(health, list));
}

void child_forget_saved(struct child *child)
{
	saved_health_remove(&child->health);
	saved_health_remove(&child->list);
}

/* --- --- */

static void on_timer(struct process_timer *timer, void *userdata)
{
	static const enum resource_event events[_RESOURCE_TIMER_MAX] = {
		[RESOURCE_TIMER_STATE] = RESOURCE_TIMEOUT,
		[RESOURCE_TIMER_ANSWER] = RESOURCE_UNANSWERED,
		[RESOURCE_TIMER_WATCHDOG] = RESOURCE_SILENT,
	};
	struct child *child = userdata;

	resource_handle(child->resource, events[timer - child->timers], NULL);
}

const struct declaration *child_declaration(const struct child *child)
{
	return child->leaving ? NULL : &resource_applied(child->resource)->declaration;
}

enum registration_way child_registration(const struct child *child)
{
	return resource_applied(child->resource)->registration;
}

int child_new(
	const struct child_host *host, const struct resource_config *config, struct child **ret)
{
	_cleanup_(child_freep) struct child *child = calloc(1, sizeof(*child));
	int r;

	if (!child)
		return -ENOMEM;
	child->host = host;
	child->devices_fd = -EBADF;
	child->counters_fd = counters_new();
	child->session = SESSION_INIT;
	child->health.fd = child->list.fd = -EBADF;
	r = resource_new(config, &operations, child, &child->resource);
	if (r < 0)
		return r;
	process_init(&child->process, host->event, &control_child, child->resource->name,
		&process_events, child);
	for (unsigned i = 0; i < _RESOURCE_TIMER_MAX && r >= 0; i++)
		r = process_timer_init(&child->timers[i], &child->process, on_timer, child);
	if (r >= 0)
		r = arbiter_add(host->arbiter, child->resource->name, &claimant_operations, child,
			&child->claimant);
	if (r >= 0)
		r = proposal_new(host->event, host->published, child->resource, answer_proposal,
			child, &child->proposal);
	if (r < 0)
		return r;
	claimant_set_overlap(child->claimant, config->declaration.overlap);
	r = saved_health_open(&child->health, host->files, SAVED_HEALTH, config->declaration.name);
	if (r >= 0)
		r = saved_health_open(
			&child->list, host->files, SAVED_LIST, config->declaration.name);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(child);
	return 0;
}

struct child *child_free(struct child *child)
{
	if (!child)
		return NULL;
	op_kill(SIGKILL, child);
	close_session(child);
	(void)close_fd(child->counters_fd);
	saved_health_close(&child->health);
	saved_health_close(&child->list);
	free(child->labels);
	free(child->labels_failure);
	for (unsigned i = 0; i < _RESOURCE_TIMER_MAX; i++)
		process_timer_done(&child->timers[i]);
	if (child->claimant && child->proposal)
		forget_process(child);
	(void)proposal_free(child->proposal);
	(void)claimant_free(child->claimant);
	resource_free(child->resource);
	free(child);
	return NULL;
}
