/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the child of a resource is started, configured, given a session, stopped and killed:
 * each pair of state and event has one action in the state table; an empty one means that the event
 * changes nothing there. Every visible change has a reason, as a sentence.
 */
#include "supervisor/children/resource.h"

#include <signal.h>

#include "common/control-child.h"
#include "common/log.h"
#include "common/message-id.h"
#include "supervisor/process/retry-delay.h"

/* --- steps: one that enters a state sets its timer, so that none waits without a limit --- */

static struct log_fields fields_of(const struct resource *resource, const char *message_id)
{
	return (struct log_fields){ .resource = resource->name, .message_id = message_id };
}

static uint64_t current_time(const struct resource *resource)
{
	return resource->operations->now(resource->userdata);
}

static void set_timer(struct resource *resource, enum resource_timer timer, uint64_t delay)
{
	uint64_t at = delay == USEC_INFINITY ? USEC_INFINITY : current_time(resource) + delay;

	resource->operations->set_timer(timer, at, resource->userdata);
}

static void expect_nothing(struct resource *resource)
{
	set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	set_timer(resource, RESOURCE_TIMER_WATCHDOG, USEC_INFINITY);
}

/* The longer a child has served, the sooner it is started again. */
static void credit_service(struct resource *resource)
{
	if (resource->state != RESOURCE_SERVING || resource->serving_since == 0)
		return;
	retry_delay_credit(
		&resource->child_delay, current_time(resource) - resource->serving_since);
	resource->serving_since = 0;
}

/* Leaves one state for another, with the time limit of the new one. */
static void enter(struct resource *resource, enum resource_state state, uint64_t timeout)
{
	const char *before = resource_state_name(resource);

	credit_service(resource);
	resource->state = state;
	if (!streq(before, resource_state_name(resource)))
		resource->since = now_usec(CLOCK_REALTIME);
	resource->next_try = (state == RESOURCE_BACKOFF || state == RESOURCE_FAILED ||
				     state == RESOURCE_WAITING) &&
			timeout != USEC_INFINITY
		? current_time(resource) + timeout
		: 0;
	set_timer(resource, RESOURCE_TIMER_STATE, timeout);
	resource->operations->changed(resource->userdata);
}

static void forget_session(struct resource *resource)
{
	resource->operations->remove_socket(resource->userdata);
	resource->session = 0;
	resource->registered = resource->watched = false;
}

static void forget_child(struct resource *resource)
{
	forget_session(resource);
	expect_nothing(resource);
	resource->sent = resource_config_unref(resource->sent);
	resource->child = false;
	resource->devices = resource->healthy = resource->ids = resource->healthy_ids = 0;
}

static uint64_t next_delay(
	struct resource *resource, uint64_t *delay, uint64_t minimum, uint64_t maximum)
{
	return retry_delay_next(
		delay, minimum, maximum, resource->operations->random(resource->userdata));
}

/* Waits without a child, longer each time. */
static void back_off(struct resource *resource, const char *why)
{
	uint64_t delay;

	credit_service(resource);
	delay = next_delay(
		resource, &resource->child_delay, RETRY_CHILD_DELAY_MIN, RETRY_CHILD_DELAY_MAX);
	enter(resource, RESOURCE_BACKOFF, delay);
	resource_explain(resource, "%s", why);
}

static void start_child(struct resource *resource)
{
	/* After a crash a refused configuration must not take the place of a good one. */
	const struct resource_config *config =
		resource->refused && resource->accepted ? resource->accepted : resource->wanted;
	const char *name = config->declaration.user;
	_cleanup_free_ char *user = name ? strdup(name) : NULL;
	struct error error = { 0 };
	struct log_fields fields = fields_of(resource, NULL);
	int r;

	r = name && !user ? error_set(&error, -ENOMEM, "out of memory")
			  : resource->operations->start(config, resource->userdata, &error);
	if (r < 0) {
		/* Each try fails in the same way until an administrator fixes the cause. */
		if (log_once_admits(&resource->starts_logged, error.message))
			log_full(LOG_ERR, &fields, "%s", error.message);
		back_off(resource, error.message);
		return;
	}
	(void)log_once_admits(&resource->starts_logged, NULL);
	resource->sent = resource_config_ref(config);
	free(resource->user);
	resource->user = TAKE_PTR(user);
	resource->confined = !declaration_runs_programs(&config->declaration);
	resource->child = true;
	if (resource->started)
		resource->restarts++;
	resource->started = true;
	set_timer(resource, RESOURCE_TIMER_ANSWER, RESOURCE_READY_TIMEOUT);
	enter(resource, RESOURCE_STARTING, USEC_INFINITY);
	resource_explain(resource, "the child is starting");
}

/* Sends a configuration to the live child. If that is impossible now, UNANSWERED will come. */
static int configure(struct resource *resource, const struct resource_config *config)
{
	struct error error = { 0 };
	struct log_fields fields = fields_of(resource, NULL);
	int r;

	r = resource->operations->configure(config, resource->userdata, &error);
	if (r < 0) {
		log_full(LOG_WARNING, &fields, "cannot send the configuration to the child: %s",
			error.message);
		set_timer(resource, RESOURCE_TIMER_ANSWER, RESOURCE_CONFIGURE_RETRY);
		return r;
	}
	/* A child that is not ready yet gives up programs for a text that runs none. */
	if (resource->state == RESOURCE_STARTING || resource->state == RESOURCE_FAILED)
		resource->confined |= !declaration_runs_programs(&config->declaration);
	resource->sent = resource_config_ref(config);
	set_timer(resource, RESOURCE_TIMER_ANSWER, RESOURCE_READY_TIMEOUT);
	return 0;
}

/* Once, although each try is refused for the same reason until an administrator fixes it. */
static void log_refusal(struct resource *resource, const char *text, enum refusal refusal)
{
	static const char *const consequences[_REFUSAL_MAX] = {
		[REFUSAL_PREVIOUS_USED] = "the previous configuration is used",
		[REFUSAL_IN_FORCE_STAYS] = "the applied configuration stays",
		[REFUSAL_RETRY] = "retried every 60 s and at the next reload",
	};
	struct log_fields fields = fields_of(resource, MESSAGE_ID_RESOURCE_REFUSED);

	if (log_once_admits(&resource->refusals_logged[refusal], text))
		log_full(LOG_ERR, &fields, "configuration refused: %s; %s", text,
			consequences[refusal]);
}

/* Brings the child to `wanted`, one configuration at a time. */
static void do_configure(struct resource *resource, const char *text)
{
	if (!resource->sent && !resource->refused &&
		!streq(resource->wanted->text, resource->accepted->text))
		(void)configure(resource, resource->wanted);
}

static void kill_child(struct resource *resource, int number, const char *why)
{
	struct log_fields fields = fields_of(resource, MESSAGE_ID_CHILD_HUNG);

	log_full(
		LOG_ERR, &fields, "%s; killing it with SIG%s", why, sigabbrev_np(number) ?: "KILL");
	resource->operations->kill(number, resource->userdata);
	expect_nothing(resource);
	enter(resource, RESOURCE_DYING, RESOURCE_END_TIMEOUT);
	resource_explain(resource, "%s", why);
}

/* Opens a session if the kubelet is there, and else decides when to try again. */
static void do_session(struct resource *resource, const char *text)
{
	struct error error = { 0 };
	struct log_fields fields = fields_of(resource, NULL);
	uint64_t delay = USEC_INFINITY;
	int r;

	r = resource->operations->open_session(resource->userdata, &resource->session, &error);
	if (r >= 0) {
		resource->connect_delay = 0;
		resource->by_watcher = r > 0;
		(void)log_once_admits(&resource->sessions_logged, NULL);
		enter(resource, RESOURCE_REGISTERING, RESOURCE_REGISTER_TIMEOUT);
		resource_explain(resource,
			r > 0 ? "the kubelet's plugin watcher has not registered the socket yet"
			      : "the kubelet has not completed the registration yet");
		return;
	}
	if (r == -ECONNREFUSED || r == -EAGAIN) {
		delay = next_delay(resource, &resource->connect_delay, RESOURCE_CONNECT_DELAY_MIN,
			RESOURCE_CONNECT_DELAY_MAX);
	} else if (r != -ENOENT) {
		delay = next_delay(resource, &resource->session_delay, RESOURCE_SESSION_DELAY_MIN,
			RESOURCE_SESSION_DELAY_MAX);
		if (log_once_admits(&resource->sessions_logged, error.message))
			log_full(LOG_WARNING, &fields, "%s", error.message);
	}
	enter(resource, RESOURCE_WAITING, delay);
	resource_explain(resource, "%s", error.message);
}

static void next_session(struct resource *resource, uint64_t delay, const char *why)
{
	enter(resource, RESOURCE_WAITING, delay);
	resource_explain(resource, "%s", why);
	if (delay == 0)
		do_session(resource, NULL);
}

static void end_session(struct resource *resource, const char *why)
{
	if (resource->operations->end_session(resource->session, resource->userdata) < 0) {
		kill_child(resource, SIGABRT, "the child does not read its control socket");
		return;
	}
	enter(resource, RESOURCE_ENDING, RESOURCE_END_TIMEOUT);
	resource_explain(resource, "%s", why);
}

static void stop_child(struct resource *resource, enum resource_state state)
{
	expect_nothing(resource);
	if (resource->operations->stop(resource->userdata) < 0)
		resource->operations->kill(SIGKILL, resource->userdata);
	enter(resource, state, RESOURCE_END_TIMEOUT);
	resource_explain(resource, "the child is stopping");
}

/* --- actions --- */

typedef void (*action)(struct resource *resource, const char *text);

static void do_stopped(struct resource *resource, const char *text)
{
	forget_child(resource);
	enter(resource, RESOURCE_STOPPED, USEC_INFINITY);
	resource_explain(resource, "stopped");
}

static void do_start(struct resource *resource, const char *text)
{
	start_child(resource);
}

static void do_ready(struct resource *resource, const char *text)
{
	if (!resource->sent)
		return;
	resource_accept(resource, resource->sent);
	resource->sent = resource_config_unref(resource->sent);
	set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	(void)log_once_admits(&resource->refusals_logged[REFUSAL_RETRY], NULL);
	if (streq(resource->accepted->text, resource->wanted->text)) {
		resource->refused = false;
		memset(resource->refusals_logged, 0, sizeof(resource->refusals_logged));
		if (resource->state == RESOURCE_SERVING)
			resource_explain(resource, "%s", "");
	}
	do_configure(resource, text);
}

static void do_first_ready(struct resource *resource, const char *text)
{
	do_ready(resource, text);
	set_timer(resource, RESOURCE_TIMER_WATCHDOG, CONTROL_ALIVE_TIMEOUT);
	enter(resource, RESOURCE_WAITING, USEC_INFINITY);
	do_session(resource, NULL);
}

static void do_first_refused(struct resource *resource, const char *text)
{
	_cleanup_resource_config_ const struct resource_config *refused = TAKE_PTR(resource->sent);

	if (!refused)
		return;
	set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	if (!streq(refused->text, resource->wanted->text) && !resource->refused) {
		if (configure(resource, resource->wanted) >= 0)
			return;
	} else if (resource->accepted && !streq(refused->text, resource->accepted->text)) {
		resource->refused = true;
		log_refusal(resource, text, REFUSAL_PREVIOUS_USED);
		if (resource_needs_process(resource, resource->accepted)) {
			stop_child(resource, RESOURCE_RESTARTING);
			return;
		}
		if (configure(resource, resource->accepted) >= 0)
			return;
	}
	log_refusal(resource, text, REFUSAL_RETRY);
	set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	enter(resource, RESOURCE_FAILED, RESOURCE_REFUSED_RETRY);
	resource_explain(resource, "configuration refused: %s", text);
}

static void do_refused(struct resource *resource, const char *text)
{
	_cleanup_resource_config_ const struct resource_config *refused = TAKE_PTR(resource->sent);

	if (!refused)
		return;
	set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	if (!streq(refused->text, resource->wanted->text)) {
		do_configure(resource, text);
		return;
	}
	resource->refused = true;
	log_refusal(resource, text, REFUSAL_IN_FORCE_STAYS);
	resource_explain(
		resource, "new configuration refused, the previous one stays applied: %s", text);
}

static void do_retry(struct resource *resource, const char *text)
{
	resource->refused = false;
	if (!resource->child) {
		start_child(resource);
		return;
	}
	if (resource_needs_process(resource, resource->wanted)) {
		stop_child(resource, RESOURCE_RESTARTING);
		return;
	}
	if (configure(resource, resource->wanted) < 0) {
		kill_child(resource, SIGKILL, "the child cannot be configured");
		return;
	}
	enter(resource, RESOURCE_STARTING, USEC_INFINITY);
}

static void do_new_kubelet(struct resource *resource, const char *text)
{
	resource->session_delay = resource->connect_delay = 0;
	do_session(resource, NULL);
}

/* The session with the last kubelet has not ended yet. */
static void do_note_kubelet(struct resource *resource, const char *text)
{
	resource->session_delay = resource->connect_delay = 0;
}

static void registration_step(struct resource *resource)
{
	struct log_fields fields = fields_of(resource, MESSAGE_ID_SERVING);
	char ids[48] = "";

	if (!resource->registered || !resource->watched)
		return;
	resource->serving_since = current_time(resource);
	enter(resource, RESOURCE_SERVING, USEC_INFINITY);
	resource_explain(resource, "%s", "");
	if (resource->ids != resource->devices)
		(void)snprintf(ids, sizeof(ids), " as %llu id%s", (unsigned long long)resource->ids,
			resource->ids == 1 ? "" : "s");
	log_full(LOG_NOTICE, &fields, "serves %llu device%s%s to the kubelet (session %llu)",
		(unsigned long long)resource->devices, resource->devices == 1 ? "" : "s", ids,
		(unsigned long long)resource->session);
}

static void do_registered(struct resource *resource, const char *text)
{
	resource->registered = true;
	resource->counts.registrations++;
	resource->counts.last_registration = now_usec(CLOCK_REALTIME);
	if (!resource->watched)
		set_timer(resource, RESOURCE_TIMER_STATE, RESOURCE_WATCH_TIMEOUT);
	registration_step(resource);
}

static void do_watched(struct resource *resource, const char *text)
{
	resource->watched = true;
	registration_step(resource);
}

static void grow_session_delay(struct resource *resource)
{
	resource->counts.registration_failures++;
	(void)next_delay(resource, &resource->session_delay, RESOURCE_SESSION_DELAY_MIN,
		RESOURCE_SESSION_DELAY_MAX);
}

/* Up to 1.35 the plugin watcher never retries a socket that failed, so a new one is made at once: a
 * kubelet that starts later must find one. */
static void do_end_stalled(struct resource *resource, const char *text)
{
	const char *why = resource->registered
		? "the kubelet registered the resource but does not watch it"
		: resource->by_watcher
		? "the kubelet's plugin watcher has not registered the socket yet"
		: "the kubelet did not answer Register";

	if (resource->by_watcher && !resource->registered)
		resource->session_delay = 0;
	else
		grow_session_delay(resource);
	if (!resource->by_watcher)
		failure_note_registration(resource->failures, why);
	end_session(resource, why);
}

static void renew_session(struct resource *resource, const char *why)
{
	struct log_fields fields = fields_of(resource, MESSAGE_ID_SESSION_ENDED);

	log_full(LOG_NOTICE, &fields, "%s; registering again", why);
	end_session(resource, why);
}

static void do_kubelet_replaced(struct resource *resource, const char *text)
{
	resource->session_delay = resource->connect_delay = 0;
	renew_session(resource, "kubelet.sock now belongs to another kubelet");
}

/* Not at once if that happens again and again. */
static void do_socket_lost(struct resource *resource, const char *text)
{
	if (resource->state == RESOURCE_SERVING &&
		current_time(resource) - resource->serving_since >= RESOURCE_SESSION_PROVEN)
		resource->session_delay = 0;
	else
		grow_session_delay(resource);
	renew_session(resource, "another process removed the socket of the session");
}

static void do_renew(struct resource *resource, const char *text)
{
	resource->session_delay = 0;
	end_session(resource, "the plugin directory has changed");
}

static void do_not_offered(struct resource *resource, const char *text)
{
	resource->session_delay = 0;
	end_session(resource, "the kubelet does not offer the healthy devices");
}

static uint64_t note_registration_failure(struct resource *resource, const char *text)
{
	struct log_fields fields = fields_of(resource, MESSAGE_ID_SESSION_ENDED);
	uint64_t delay = next_delay(resource, &resource->session_delay, RESOURCE_SESSION_DELAY_MIN,
		RESOURCE_SESSION_DELAY_MAX);

	resource->counts.registration_failures++;
	failure_note_registration(resource->failures, text);
	log_full(LOG_WARNING, &fields, "registration failed: %s; next automatic retry in %.1f s",
		text, (double)delay / USEC_PER_SEC);
	return delay;
}

/* The child still has the session. */
static void do_registration_failed(struct resource *resource, const char *text)
{
	(void)note_registration_failure(resource, text);
	end_session(resource, text);
}

/* A session that lasted is followed by the next at once. So is the first short one, but not the
 * second: a kubelet that accepts and drops us must not be kept busy. */
static void do_session_lost(struct resource *resource, const char *text)
{
	struct log_fields fields = fields_of(resource, MESSAGE_ID_SESSION_ENDED);
	uint64_t served =
		resource->serving_since == 0 ? 0 : current_time(resource) - resource->serving_since;
	uint64_t delay = 0;

	if (served >= RESOURCE_SESSION_PROVEN) {
		resource->session_delay = 0;
	} else {
		delay = resource->session_delay;
		grow_session_delay(resource);
	}
	log_full(LOG_NOTICE, &fields, "the session ended after %.1f s: %s",
		(double)served / USEC_PER_SEC, text);
	forget_session(resource);
	next_session(resource, delay, text);
}

/* A kubelet that watched has registered the resource, even if the kubelet client has not reported
 * it yet. */
static void do_session_failed(struct resource *resource, const char *text)
{
	uint64_t delay;

	if (resource->watched) {
		do_session_lost(resource, text);
		return;
	}
	delay = note_registration_failure(resource, text);
	forget_session(resource);
	next_session(resource, delay, text);
}

static void do_session_closed(struct resource *resource, const char *text)
{
	_cleanup_free_ char *why = strdup(resource->reason);

	forget_session(resource);
	next_session(resource, resource->session_delay, why ?: text);
}

static void do_alive(struct resource *resource, const char *text)
{
	set_timer(resource, RESOURCE_TIMER_WATCHDOG, CONTROL_ALIVE_TIMEOUT);
}

static void do_unanswered(struct resource *resource, const char *text)
{
	if (resource->sent)
		kill_child(
			resource, SIGABRT, "the child did not confirm its configuration in time");
	else
		do_configure(resource, text);
}

static void do_silent(struct resource *resource, const char *text)
{
	kill_child(resource, SIGABRT, "the child sent no heartbeat");
}

static void do_end_overdue(struct resource *resource, const char *text)
{
	kill_child(resource, SIGABRT, "the child did not end its session");
}

static void do_broken(struct resource *resource, const char *text)
{
	kill_child(resource, SIGKILL, text);
}

static void do_hangup(struct resource *resource, const char *text)
{
	expect_nothing(resource);
	enter(resource, RESOURCE_DYING, RESOURCE_HANGUP_TIMEOUT);
	resource_explain(resource, "%s", "");
}

static void do_kill(struct resource *resource, const char *text)
{
	resource->operations->kill(SIGKILL, resource->userdata);
	set_timer(resource, RESOURCE_TIMER_STATE, RESOURCE_END_TIMEOUT);
}

static void do_back_off(struct resource *resource, const char *text)
{
	forget_child(resource);
	back_off(resource, text);
}

/* The cause of a killing is worth more than the signal. */
static void do_dead(struct resource *resource, const char *text)
{
	char why[sizeof(resource->reason)];

	(void)snprintf(why, sizeof(why), "%.400s%s%.600s", resource->reason,
		resource->reason[0] ? "; " : "", text);
	forget_child(resource);
	back_off(resource, why);
}

static void do_exit_failed(struct resource *resource, const char *text)
{
	forget_child(resource);
	enter(resource, RESOURCE_FAILED, RESOURCE_REFUSED_RETRY);
}

static void do_stop(struct resource *resource, const char *text)
{
	if (resource->child)
		stop_child(resource, RESOURCE_STOPPING);
	else
		do_stopped(resource, text);
}

static void do_restart(struct resource *resource, const char *text)
{
	resource->refused = false;
	if (resource->child)
		stop_child(resource, RESOURCE_RESTARTING);
	else
		start_child(resource);
}

static void do_stop_dying(struct resource *resource, const char *text)
{
	resource->operations->kill(SIGKILL, resource->userdata);
	enter(resource, RESOURCE_STOPPING, RESOURCE_END_TIMEOUT);
}

static void do_stop_after_all(struct resource *resource, const char *text)
{
	enter(resource, RESOURCE_STOPPING, RESOURCE_END_TIMEOUT);
}

static void do_start_after_all(struct resource *resource, const char *text)
{
	enter(resource, RESOURCE_RESTARTING, RESOURCE_END_TIMEOUT);
}

static void do_start_again(struct resource *resource, const char *text)
{
	forget_child(resource);
	start_child(resource);
}

#define STOP_AND_RESTART [RESOURCE_STOP] = do_stop, [RESOURCE_RESTART] = do_restart

#define CHILD_MAY_DIE                                                         \
	[RESOURCE_UNANSWERED] = do_unanswered, [RESOURCE_BROKEN] = do_broken, \
	[RESOURCE_HANGUP] = do_hangup, [RESOURCE_EXIT] = do_back_off

#define CHILD_IS_READY                                                                           \
	STOP_AND_RESTART,                                                                        \
		CHILD_MAY_DIE, [RESOURCE_CONFIGURE] = do_configure, [RESOURCE_READY] = do_ready, \
			       [RESOURCE_REFUSED] = do_refused, [RESOURCE_ALIVE] = do_alive,     \
			       [RESOURCE_SILENT] = do_silent

/* clang-format off */
static const action actions[_RESOURCE_STATE_MAX][_RESOURCE_EVENT_MAX] = {
	[RESOURCE_STOPPED] = {
		[RESOURCE_START] = do_start,
	},
	[RESOURCE_STARTING] = {
		STOP_AND_RESTART, CHILD_MAY_DIE,
		[RESOURCE_READY] = do_first_ready,
		[RESOURCE_REFUSED] = do_first_refused,
	},
	[RESOURCE_WAITING] = {
		CHILD_IS_READY,
		[RESOURCE_TIMEOUT] = do_session,
		[RESOURCE_KUBELET] = do_new_kubelet,
		[RESOURCE_RENEW] = do_new_kubelet,
	},
	[RESOURCE_REGISTERING] = {
		CHILD_IS_READY,
		[RESOURCE_REGISTERED] = do_registered,
		[RESOURCE_WATCHED] = do_watched,
		[RESOURCE_REGISTRATION_FAILED] = do_registration_failed,
		[RESOURCE_SESSION_ENDED] = do_session_failed,
		[RESOURCE_TIMEOUT] = do_end_stalled,
		[RESOURCE_KUBELET] = do_note_kubelet,
		[RESOURCE_RENEW] = do_renew,
		[RESOURCE_KUBELET_REPLACED] = do_kubelet_replaced,
		[RESOURCE_SOCKET_LOST] = do_socket_lost,
	},
	[RESOURCE_SERVING] = {
		CHILD_IS_READY,
		[RESOURCE_REGISTRATION_FAILED] = do_registration_failed,
		[RESOURCE_SESSION_ENDED] = do_session_lost,
		[RESOURCE_NOT_OFFERED] = do_not_offered,
		[RESOURCE_KUBELET] = do_note_kubelet,
		[RESOURCE_RENEW] = do_renew,
		[RESOURCE_KUBELET_REPLACED] = do_kubelet_replaced,
		[RESOURCE_SOCKET_LOST] = do_socket_lost,
	},
	[RESOURCE_ENDING] = {
		CHILD_IS_READY,
		[RESOURCE_SESSION_ENDED] = do_session_closed,
		[RESOURCE_TIMEOUT] = do_end_overdue,
		[RESOURCE_KUBELET] = do_note_kubelet,
		[RESOURCE_RENEW] = do_note_kubelet,
	},
	[RESOURCE_FAILED] = {
		STOP_AND_RESTART,
		[RESOURCE_TIMEOUT] = do_retry,
		[RESOURCE_CONFIGURE] = do_retry,
		[RESOURCE_BROKEN] = do_broken,
		[RESOURCE_EXIT] = do_exit_failed,
	},
	[RESOURCE_BACKOFF] = {
		STOP_AND_RESTART,
		[RESOURCE_TIMEOUT] = do_start,
		[RESOURCE_CONFIGURE] = do_retry,
	},
	[RESOURCE_DYING] = {
		[RESOURCE_TIMEOUT] = do_kill,
		[RESOURCE_EXIT] = do_dead,
		[RESOURCE_STOP] = do_stop_dying,
	},
	[RESOURCE_RESTARTING] = {
		[RESOURCE_TIMEOUT] = do_kill,
		[RESOURCE_BROKEN] = do_kill,
		[RESOURCE_EXIT] = do_start_again,
		[RESOURCE_STOP] = do_stop_after_all,
	},
	[RESOURCE_STOPPING] = {
		[RESOURCE_TIMEOUT] = do_kill,
		[RESOURCE_BROKEN] = do_kill,
		[RESOURCE_EXIT] = do_stopped,
		[RESOURCE_START] = do_start_after_all,
	},
};
/* clang-format on */

bool resource_reopen(struct resource *resource)
{
	if (!resource->accepted || resource->sent ||
		(resource->state != RESOURCE_WAITING && resource->state != RESOURCE_REGISTERING &&
			resource->state != RESOURCE_SERVING))
		return false;
	return configure(resource, resource->accepted) >= 0;
}

void resource_handle(struct resource *resource, enum resource_event event, const char *text)
{
	action act = actions[resource->state][event];

	if (act)
		act(resource, text ?: "");
}
