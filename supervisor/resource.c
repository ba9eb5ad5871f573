/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state table below is the whole behaviour of a resource: each pair of state and event has one
 * action, and an empty one means that the event changes nothing there.
 */
#include <signal.h>

#include "common/control.h"
#include "common/log.h"
#include "common/message-id.h"
#include "resource-steps.h"

typedef void (*action)(struct resource *resource, const char *text);

static void finish(struct resource *resource)
{
	resource_forget_child(resource);
	resource_enter(resource, RESOURCE_STOPPED, USEC_INFINITY);
	resource_explain(resource, "stopped");
}

static void do_start(struct resource *resource, const char *text)
{
	resource_start_child(resource);
}

static void do_ready(struct resource *resource, const char *text)
{
	if (!resource->sent)
		return;
	free(resource->accepted);
	resource->accepted = TAKE_PTR(resource->sent);
	resource_set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	resource->refusals_said[REFUSAL_RETRY] = 0;
	if (streq(resource->accepted, resource->wanted)) {
		resource->refused = false;
		memset(resource->refusals_said, 0, sizeof(resource->refusals_said));
		if (resource->state == RESOURCE_SERVING)
			resource_explain(resource, "%s", "");
	}
	resource_catch_up(resource);
}

static void do_first_ready(struct resource *resource, const char *text)
{
	do_ready(resource, text);
	resource_set_timer(resource, RESOURCE_TIMER_WATCHDOG, CONTROL_ALIVE_TIMEOUT);
	resource_enter(resource, RESOURCE_WAITING, USEC_INFINITY);
	resource_try_session(resource);
}

static void do_first_refused(struct resource *resource, const char *text)
{
	_cleanup_free_ char *refused = TAKE_PTR(resource->sent);

	if (!refused)
		return;
	resource_set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	if (!streq(refused, resource->wanted) && !resource->refused) {
		if (resource_configure(resource, resource->wanted) >= 0)
			return;
	} else if (resource->accepted && !streq(refused, resource->accepted)) {
		resource->refused = true;
		resource_log_refusal(resource, text, REFUSAL_PREVIOUS_USED);
		if (resource_configure(resource, resource->accepted) >= 0)
			return;
	}
	resource_log_refusal(resource, text, REFUSAL_RETRY);
	resource_set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	resource_enter(resource, RESOURCE_FAILED, RESOURCE_REFUSED_RETRY);
	resource_explain(resource, "configuration refused: %s", text);
}

static void do_refused(struct resource *resource, const char *text)
{
	_cleanup_free_ char *refused = TAKE_PTR(resource->sent);

	if (!refused)
		return;
	resource_set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	if (!streq(refused, resource->wanted)) {
		resource_catch_up(resource);
		return;
	}
	resource->refused = true;
	resource_log_refusal(resource, text, REFUSAL_IN_FORCE_STAYS);
	resource_explain(resource, "new configuration refused, the one in force stays: %s", text);
}

static void do_configure(struct resource *resource, const char *text)
{
	resource_catch_up(resource);
}

static void do_retry(struct resource *resource, const char *text)
{
	resource->refused = false;
	if (!resource->child) {
		resource_start_child(resource);
		return;
	}
	if (resource_configure(resource, resource->wanted) < 0) {
		resource_kill_child(resource, SIGKILL, "the child cannot be configured");
		return;
	}
	resource_enter(resource, RESOURCE_STARTING, USEC_INFINITY);
}

static void do_session(struct resource *resource, const char *text)
{
	resource_try_session(resource);
}

static void do_new_kubelet(struct resource *resource, const char *text)
{
	resource->session_delay = resource->connect_delay = 0;
	resource_try_session(resource);
}

static void registration_step(struct resource *resource)
{
	struct log_fields fields = resource_fields(resource, MESSAGE_ID_SERVING);

	if (!resource->registered || !resource->watched)
		return;
	resource->serving_since = resource_now(resource);
	resource_enter(resource, RESOURCE_SERVING, USEC_INFINITY);
	resource_explain(resource, "%s", "");
	log_full(LOG_NOTICE, &fields, "serving %llu devices to the kubelet (session %llu)",
		(unsigned long long)resource->devices, (unsigned long long)resource->session);
}

static void do_registered(struct resource *resource, const char *text)
{
	resource->registered = true;
	if (!resource->watched)
		resource_set_timer(resource, RESOURCE_TIMER_STATE, RESOURCE_WATCH_TIMEOUT);
	registration_step(resource);
}

static void do_watched(struct resource *resource, const char *text)
{
	resource->watched = true;
	registration_step(resource);
}

static void do_end_stalled(struct resource *resource, const char *text)
{
	(void)resource_next_delay(resource, &resource->session_delay, RESOURCE_SESSION_DELAY_MIN,
		RESOURCE_SESSION_DELAY_MAX);
	resource_end_session(resource,
		resource->registered ? "the kubelet registered the resource but does not watch it"
				     : "the kubelet did not answer Register");
}

static void do_renew(struct resource *resource, const char *text)
{
	resource->session_delay = 0;
	resource_end_session(resource, "the plugin directory has changed");
}

static void do_registration_failed(struct resource *resource, const char *text)
{
	struct log_fields fields = resource_fields(resource, MESSAGE_ID_SESSION_ENDED);
	uint64_t delay = resource_next_delay(resource, &resource->session_delay,
		RESOURCE_SESSION_DELAY_MIN, RESOURCE_SESSION_DELAY_MAX);

	log_full(LOG_WARNING, &fields, "registration failed: %s; next try in %.1f s", text,
		(double)delay / USEC_PER_SEC);
	resource_forget_session(resource);
	resource_next_session(resource, delay, text);
}

/* A session that lasted is followed by the next at once. So is the first short one, but not the
 * second: a kubelet that accepts and drops us must not be kept busy. */
static void do_session_lost(struct resource *resource, const char *text)
{
	struct log_fields fields = resource_fields(resource, MESSAGE_ID_SESSION_ENDED);
	uint64_t served = resource_now(resource) - resource->serving_since, delay = 0;

	if (served >= RESOURCE_SESSION_PROVEN) {
		resource->session_delay = 0;
	} else {
		delay = resource->session_delay;
		(void)resource_next_delay(resource, &resource->session_delay,
			RESOURCE_SESSION_DELAY_MIN, RESOURCE_SESSION_DELAY_MAX);
	}
	log_full(LOG_NOTICE, &fields, "the session ended after %.1f s: %s",
		(double)served / USEC_PER_SEC, text);
	resource_forget_session(resource);
	resource_next_session(resource, delay, text);
}

static void do_session_closed(struct resource *resource, const char *text)
{
	_cleanup_free_ char *why = strdup(resource->reason);

	resource_forget_session(resource);
	resource_next_session(resource, resource->session_delay, why ?: text);
}

static void do_alive(struct resource *resource, const char *text)
{
	resource_set_timer(resource, RESOURCE_TIMER_WATCHDOG, CONTROL_ALIVE_TIMEOUT);
}

static void do_unanswered(struct resource *resource, const char *text)
{
	if (resource->sent)
		resource_kill_child(
			resource, SIGABRT, "the child did not answer its configuration in time");
	else
		resource_catch_up(resource);
}

static void do_silent(struct resource *resource, const char *text)
{
	resource_kill_child(resource, SIGABRT, "the child gave no sign of life");
}

static void do_end_overdue(struct resource *resource, const char *text)
{
	resource_kill_child(resource, SIGABRT, "the child did not end its session");
}

static void do_broken(struct resource *resource, const char *text)
{
	resource_kill_child(resource, SIGKILL, text);
}

static void do_hangup(struct resource *resource, const char *text)
{
	resource_set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	resource_set_timer(resource, RESOURCE_TIMER_WATCHDOG, USEC_INFINITY);
	resource_enter(resource, RESOURCE_DYING, RESOURCE_HANGUP_TIMEOUT);
	resource_explain(resource, "%s", "");
}

static void do_kill(struct resource *resource, const char *text)
{
	resource->operations->kill(SIGKILL, resource->userdata);
	resource_set_timer(resource, RESOURCE_TIMER_STATE, RESOURCE_END_TIMEOUT);
}

static void do_back_off(struct resource *resource, const char *text)
{
	resource_forget_child(resource);
	resource_back_off(resource, text);
}

/* The cause of a killing is worth more than the signal. */
static void do_dead(struct resource *resource, const char *text)
{
	char why[sizeof(resource->reason)];

	(void)snprintf(why, sizeof(why), "%.400s%s%.600s", resource->reason,
		resource->reason[0] ? "; " : "", text);
	resource_forget_child(resource);
	resource_back_off(resource, why);
}

static void do_exit_failed(struct resource *resource, const char *text)
{
	resource_forget_child(resource);
	resource_enter(resource, RESOURCE_FAILED, RESOURCE_REFUSED_RETRY);
}

static void do_stop(struct resource *resource, const char *text)
{
	if (resource->child)
		resource_stop_child(resource, RESOURCE_STOPPING);
	else
		finish(resource);
}

static void do_restart(struct resource *resource, const char *text)
{
	resource->refused = false;
	if (resource->child)
		resource_stop_child(resource, RESOURCE_RESTARTING);
	else
		resource_start_child(resource);
}

static void do_stop_dying(struct resource *resource, const char *text)
{
	resource->operations->kill(SIGKILL, resource->userdata);
	resource_enter(resource, RESOURCE_STOPPING, RESOURCE_END_TIMEOUT);
}

static void do_stop_after_all(struct resource *resource, const char *text)
{
	resource_enter(resource, RESOURCE_STOPPING, RESOURCE_END_TIMEOUT);
}

static void do_start_after_all(struct resource *resource, const char *text)
{
	resource_enter(resource, RESOURCE_RESTARTING, RESOURCE_END_TIMEOUT);
}

static void do_stopped(struct resource *resource, const char *text)
{
	finish(resource);
}

static void do_start_again(struct resource *resource, const char *text)
{
	resource_forget_child(resource);
	resource_start_child(resource);
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
		[RESOURCE_SESSION_ENDED] = do_registration_failed,
		[RESOURCE_TIMEOUT] = do_end_stalled,
		[RESOURCE_RENEW] = do_renew,
	},
	[RESOURCE_SERVING] = {
		CHILD_IS_READY,
		[RESOURCE_SESSION_ENDED] = do_session_lost,
		[RESOURCE_RENEW] = do_renew,
	},
	[RESOURCE_ENDING] = {
		CHILD_IS_READY,
		[RESOURCE_SESSION_ENDED] = do_session_closed,
		[RESOURCE_TIMEOUT] = do_end_overdue,
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

void resource_handle(struct resource *resource, enum resource_event event, const char *text)
{
	action act = actions[resource->state][event];

	if (act)
		act(resource, text ?: "");
}
