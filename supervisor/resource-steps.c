/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps that actions are made of. A step that enters a state sets the timer of that state, so
 * that none is ever left waiting without a limit, and says why in a sentence that people are shown.
 */
#include <signal.h>

#include "common/log.h"
#include "common/message-id.h"
#include "resource-steps.h"

static const char *const state_names[_RESOURCE_STATE_MAX] = {
	[RESOURCE_STOPPED] = "stopping",
	[RESOURCE_STARTING] = "waiting",
	[RESOURCE_WAITING] = "waiting",
	[RESOURCE_REGISTERING] = "registering",
	[RESOURCE_SERVING] = "serving",
	[RESOURCE_ENDING] = "registering",
	[RESOURCE_FAILED] = "failed",
	[RESOURCE_BACKOFF] = "backoff",
	[RESOURCE_DYING] = "backoff",
	[RESOURCE_RESTARTING] = "stopping",
	[RESOURCE_STOPPING] = "stopping",
};

struct log_fields resource_fields(const struct resource *resource, const char *message_id)
{
	return (struct log_fields){ .resource = resource->name, .message_id = message_id };
}

uint64_t resource_now(const struct resource *resource)
{
	return resource->operations->now(resource->userdata);
}

void resource_set_timer(struct resource *resource, enum resource_timer timer, uint64_t delay)
{
	uint64_t at = delay == USEC_INFINITY ? USEC_INFINITY : resource_now(resource) + delay;

	resource->operations->set_timer(timer, at, resource->userdata);
}

void resource_explain(struct resource *resource, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(resource->reason, sizeof(resource->reason), format, ap);
	va_end(ap);
	resource->operations->changed(resource->userdata);
}

/* A child that has served long enough has earned a quick restart. */
static void credit_service(struct resource *resource)
{
	if (resource->state == RESOURCE_SERVING &&
		resource_now(resource) - resource->serving_since >= RESOURCE_CHILD_PROVEN)
		resource->child_delay = 0;
}

void resource_enter(struct resource *resource, enum resource_state state, uint64_t timeout)
{
	credit_service(resource);
	if (state_names[state] != state_names[resource->state])
		resource->since = now_usec(CLOCK_REALTIME);
	resource->state = state;
	resource->next_try = (state == RESOURCE_BACKOFF || state == RESOURCE_FAILED ||
				     state == RESOURCE_WAITING) &&
			timeout != USEC_INFINITY
		? resource_now(resource) + timeout
		: 0;
	resource_set_timer(resource, RESOURCE_TIMER_STATE, timeout);
	resource->operations->changed(resource->userdata);
}

void resource_forget_session(struct resource *resource)
{
	resource->operations->remove_socket(resource->userdata);
	resource->session = 0;
	resource->registered = resource->watched = false;
}

void resource_forget_child(struct resource *resource)
{
	resource_forget_session(resource);
	resource_set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	resource_set_timer(resource, RESOURCE_TIMER_WATCHDOG, USEC_INFINITY);
	free(resource->sent);
	resource->sent = NULL;
	resource->child = false;
	resource->devices = resource->healthy = 0;
}

uint64_t resource_delay_next(
	uint64_t *delay, uint64_t minimum, uint64_t maximum, uint32_t random_number)
{
	*delay = *delay == 0 ? minimum : MIN_OF(*delay * 2, maximum);
	return *delay * 9 / 10 + (uint64_t)((double)*delay / 5 * random_number / UINT32_MAX);
}

uint64_t resource_next_delay(
	struct resource *resource, uint64_t *delay, uint64_t minimum, uint64_t maximum)
{
	return resource_delay_next(
		delay, minimum, maximum, resource->operations->random(resource->userdata));
}

void resource_back_off(struct resource *resource, const char *why)
{
	uint64_t delay;

	credit_service(resource);
	delay = resource_next_delay(resource, &resource->child_delay, RESOURCE_CHILD_DELAY_MIN,
		RESOURCE_CHILD_DELAY_MAX);
	resource_enter(resource, RESOURCE_BACKOFF, delay);
	resource_explain(resource, "%s", why);
}

void resource_start_child(struct resource *resource)
{
	/* After a crash a refused configuration must not take the place of a good one. */
	const char *text =
		resource->refused && resource->accepted ? resource->accepted : resource->wanted;
	_cleanup_free_ char *copy = strdup(text);
	struct error error = { 0 };
	struct log_fields fields = resource_fields(resource, NULL);
	int r;

	r = copy ? resource->operations->start(copy, resource->userdata, &error)
		 : error_set(&error, -ENOMEM, "out of memory");
	if (r < 0) {
		/* Each try fails in the same way until somebody mends it. */
		if (resource->state != RESOURCE_BACKOFF || !streq(resource->reason, error.message))
			log_full(LOG_ERR, &fields, "%s", error.message);
		resource_back_off(resource, error.message);
		return;
	}
	resource->sent = TAKE_PTR(copy);
	resource->child = true;
	if (resource->started)
		resource->restarts++;
	resource->started = true;
	resource_set_timer(resource, RESOURCE_TIMER_ANSWER, RESOURCE_READY_TIMEOUT);
	resource_enter(resource, RESOURCE_STARTING, USEC_INFINITY);
	resource_explain(resource, "the child is starting");
}

/* Sends a configuration to the live child. If that is impossible now, it is tried again later. */
int resource_configure(struct resource *resource, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	struct error error = { 0 };
	struct log_fields fields = resource_fields(resource, NULL);
	int r;

	r = copy ? resource->operations->configure(copy, resource->userdata, &error)
		 : error_set(&error, -ENOMEM, "out of memory");
	if (r < 0) {
		log_full(LOG_WARNING, &fields, "cannot send the configuration to the child: %s",
			error.message);
		resource_set_timer(resource, RESOURCE_TIMER_ANSWER, RESOURCE_CONFIGURE_RETRY);
		return r;
	}
	resource->sent = TAKE_PTR(copy);
	resource_set_timer(resource, RESOURCE_TIMER_ANSWER, RESOURCE_READY_TIMEOUT);
	return 0;
}

void resource_log_refusal(struct resource *resource, const char *text, enum refusal refusal)
{
	static const char *const consequences[_REFUSAL_MAX] = {
		[REFUSAL_PREVIOUS_USED] = "the previous one is used",
		[REFUSAL_IN_FORCE_STAYS] = "the one in force stays",
		[REFUSAL_RETRY] = "tried again every 60 s and at the next reload",
	};
	struct log_fields fields = resource_fields(resource, MESSAGE_ID_RESOURCE_REFUSED);
	uint64_t said = hash_string(text);

	if (resource->refusals_said[refusal] == said)
		return;
	resource->refusals_said[refusal] = said;
	log_full(LOG_ERR, &fields, "configuration refused: %s; %s", text, consequences[refusal]);
}

/* Brings the child to `wanted`, one configuration at a time. */
void resource_catch_up(struct resource *resource)
{
	if (!resource->sent && !resource->refused && !streq(resource->wanted, resource->accepted))
		(void)resource_configure(resource, resource->wanted);
}

void resource_kill_child(struct resource *resource, int number, const char *why)
{
	struct log_fields fields = resource_fields(resource, MESSAGE_ID_CHILD_HUNG);

	log_full(LOG_ERR, &fields, "%s; it is sent %s", why, sigabbrev_np(number) ?: "a signal");
	resource->operations->kill(number, resource->userdata);
	resource_set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	resource_set_timer(resource, RESOURCE_TIMER_WATCHDOG, USEC_INFINITY);
	resource_enter(resource, RESOURCE_DYING, RESOURCE_END_TIMEOUT);
	resource_explain(resource, "%s", why);
}

void resource_try_session(struct resource *resource)
{
	struct error error = { 0 };
	struct log_fields fields = resource_fields(resource, NULL);
	uint64_t delay = USEC_INFINITY;
	int r;

	r = resource->operations->open_session(resource->userdata, &resource->session, &error);
	if (r >= 0) {
		resource->connect_delay = 0;
		resource_enter(resource, RESOURCE_REGISTERING,
			r > 0 ? USEC_INFINITY : RESOURCE_REGISTER_TIMEOUT);
		resource_explain(resource,
			r > 0 ? "the kubelet's plugin watcher has not registered the socket yet"
			      : "the kubelet has not completed the registration yet");
		return;
	}
	if (r == -ECONNREFUSED || r == -EAGAIN) {
		delay = resource_next_delay(resource, &resource->connect_delay,
			RESOURCE_CONNECT_DELAY_MIN, RESOURCE_CONNECT_DELAY_MAX);
	} else if (r != -ENOENT) {
		delay = resource_next_delay(resource, &resource->session_delay,
			RESOURCE_SESSION_DELAY_MIN, RESOURCE_SESSION_DELAY_MAX);
		if (!streq(resource->reason, error.message))
			log_full(LOG_WARNING, &fields, "%s", error.message);
	}
	resource_enter(resource, RESOURCE_WAITING, delay);
	resource_explain(resource, "%s", error.message);
}

void resource_next_session(struct resource *resource, uint64_t delay, const char *why)
{
	resource_enter(resource, RESOURCE_WAITING, delay);
	resource_explain(resource, "%s", why);
	if (delay == 0)
		resource_try_session(resource);
}

void resource_end_session(struct resource *resource, const char *why)
{
	if (resource->operations->end_session(resource->session, resource->userdata) < 0) {
		resource_kill_child(
			resource, SIGABRT, "the child does not read its control socket");
		return;
	}
	resource_enter(resource, RESOURCE_ENDING, RESOURCE_END_TIMEOUT);
	resource_explain(resource, "%s", why);
}

void resource_stop_child(struct resource *resource, enum resource_state state)
{
	resource_set_timer(resource, RESOURCE_TIMER_ANSWER, USEC_INFINITY);
	resource_set_timer(resource, RESOURCE_TIMER_WATCHDOG, USEC_INFINITY);
	if (resource->operations->stop(resource->userdata) < 0)
		resource->operations->kill(SIGKILL, resource->userdata);
	resource_enter(resource, state, RESOURCE_END_TIMEOUT);
	resource_explain(resource, "the child is stopping");
}

const char *resource_state_name(const struct resource *resource)
{
	return state_names[resource->state];
}
