/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state table of a resource, every state against every event, with a world that is made of
 * numbers: the clock, the child, the kubelet and chance are all set by the test.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/control.h"
#include "common/log.h"
#include "resource.h"

static struct {
	uint64_t now;
	uint32_t random;
	uint64_t timers[_RESOURCE_TIMER_MAX];
	int start_result, configure_result, session_result, send_result;
	uint64_t sessions;
	bool child_runs, session_open;
	unsigned starts, configures, ends, stops, kills;
	int last_signal;
	char text[256]; /* the last configuration sent */
	struct resource *resource;
} world;

static int fake_start(const char *text, void *userdata, struct error *error)
{
	assert_false(world.child_runs);
	assert_false(world.session_open);
	if (world.start_result < 0)
		return error_set(error, world.start_result, "cannot start");
	world.starts++;
	world.child_runs = true;
	(void)snprintf(world.text, sizeof(world.text), "%s", text);
	return 0;
}

static int fake_configure(const char *text, void *userdata, struct error *error)
{
	assert_true(world.child_runs);
	if (world.configure_result < 0)
		return error_set(error, world.configure_result, "cannot configure");
	world.configures++;
	(void)snprintf(world.text, sizeof(world.text), "%s", text);
	return 0;
}

static int fake_open_session(void *userdata, uint64_t *ret_number, struct error *error)
{
	assert_true(world.child_runs);
	assert_false(world.session_open); /* never two at once */
	if (world.session_result < 0)
		return error_set(error, world.session_result, "no session");
	world.session_open = true;
	*ret_number = ++world.sessions;
	return world.session_result;
}

static int fake_end_session(uint64_t number, void *userdata)
{
	assert_true(world.session_open);
	assert_int_equal(number, world.sessions);
	world.ends++;
	return world.send_result;
}

static int fake_stop(void *userdata)
{
	assert_true(world.child_runs);
	world.stops++;
	return world.send_result;
}

static void fake_kill(int number, void *userdata)
{
	assert_true(world.child_runs);
	world.kills++;
	world.last_signal = number;
}

static void fake_remove_socket(void *userdata)
{
	world.session_open = false;
}

static void fake_set_timer(enum resource_timer timer, uint64_t at, void *userdata)
{
	world.timers[timer] = at;
}

static uint64_t fake_now(void *userdata)
{
	return world.now;
}

static uint32_t fake_random(void *userdata)
{
	return world.random;
}

static void fake_changed(void *userdata)
{
}

static const struct resource_operations operations = {
	.start = fake_start,
	.configure = fake_configure,
	.open_session = fake_open_session,
	.end_session = fake_end_session,
	.stop = fake_stop,
	.kill = fake_kill,
	.remove_socket = fake_remove_socket,
	.set_timer = fake_set_timer,
	.now = fake_now,
	.random = fake_random,
	.changed = fake_changed,
};

static struct resource_config config_of(const char *text, const char *user)
{
	return (struct resource_config){
		.declaration = {
			.name = (char *)"vendor.example/gpu",
			.driver_name = (char *)"static",
			.user = (char *)user,
		},
		.text = (char *)text,
	};
}

static void begin(void)
{
	const struct resource_config config = config_of("one", NULL);

	memset(&world, 0, sizeof(world));
	world.now = 1000 * USEC_PER_SEC;
	world.random = UINT32_MAX / 2;
	for (size_t i = 0; i < _RESOURCE_TIMER_MAX; i++)
		world.timers[i] = USEC_INFINITY;
	assert_int_equal(resource_new(&config, &operations, NULL, &world.resource), 0);
}

static void end(void)
{
	world.resource = resource_free(world.resource);
}

static void tell(enum resource_event event)
{
	if (event == RESOURCE_EXIT)
		world.child_runs = false;
	resource_handle(world.resource, event, "because");
}

/* Lets a timer fire at its time. */
static void fire(enum resource_timer timer)
{
	static const enum resource_event events[] = {
		[RESOURCE_TIMER_STATE] = RESOURCE_TIMEOUT,
		[RESOURCE_TIMER_ANSWER] = RESOURCE_UNANSWERED,
		[RESOURCE_TIMER_WATCHDOG] = RESOURCE_SILENT,
	};

	assert_int_not_equal(world.timers[timer], USEC_INFINITY);
	world.now = MAX_OF(world.now, world.timers[timer]);
	world.timers[timer] = USEC_INFINITY;
	tell(events[timer]);
}

static uint64_t wait_of(enum resource_timer timer)
{
	return world.timers[timer] == USEC_INFINITY ? USEC_INFINITY
						    : world.timers[timer] - world.now;
}

static void expect(enum resource_state state)
{
	assert_int_equal(world.resource->state, state);
}

static void update(const char *text, const char *user)
{
	const struct resource_config config = config_of(text, user);
	int event = resource_update(world.resource, &config);

	assert_true(event >= 0);
	if (event != _RESOURCE_EVENT_MAX)
		tell((enum resource_event)event);
}

/* The shortest way to each state. */
static void bring_to(enum resource_state state)
{
	static const enum resource_event ways[_RESOURCE_STATE_MAX][6] = {
		[RESOURCE_STARTING] = { RESOURCE_START, _RESOURCE_EVENT_MAX },
		[RESOURCE_WAITING] = { RESOURCE_START, RESOURCE_READY, _RESOURCE_EVENT_MAX },
		[RESOURCE_REGISTERING] = { RESOURCE_START, RESOURCE_READY, _RESOURCE_EVENT_MAX },
		[RESOURCE_SERVING] = { RESOURCE_START, RESOURCE_READY, RESOURCE_REGISTERED,
			RESOURCE_WATCHED, _RESOURCE_EVENT_MAX },
		[RESOURCE_ENDING] = { RESOURCE_START, RESOURCE_READY, RESOURCE_TIMEOUT,
			_RESOURCE_EVENT_MAX },
		[RESOURCE_FAILED] = { RESOURCE_START, RESOURCE_REFUSED, _RESOURCE_EVENT_MAX },
		[RESOURCE_BACKOFF] = { RESOURCE_START, RESOURCE_EXIT, _RESOURCE_EVENT_MAX },
		[RESOURCE_DYING] = { RESOURCE_START, RESOURCE_BROKEN, _RESOURCE_EVENT_MAX },
		[RESOURCE_RESTARTING] = { RESOURCE_START, RESOURCE_RESTART, _RESOURCE_EVENT_MAX },
		[RESOURCE_STOPPING] = { RESOURCE_START, RESOURCE_STOP, _RESOURCE_EVENT_MAX },
	};

	begin();
	world.session_result = state == RESOURCE_WAITING ? -ENOENT : 0;
	if (state != RESOURCE_STOPPED)
		for (size_t i = 0; ways[state][i] != _RESOURCE_EVENT_MAX; i++)
			tell(ways[state][i]);
	world.session_result = 0;
	expect(state);
}

/* Where each event leads; what is not listed must change nothing at all. */
static const struct {
	enum resource_state from;
	enum resource_event event;
	enum resource_state to;
} moves[] = {
	{ RESOURCE_STOPPED, RESOURCE_START, RESOURCE_STARTING },

	{ RESOURCE_STARTING, RESOURCE_STOP, RESOURCE_STOPPING },
	{ RESOURCE_STARTING, RESOURCE_RESTART, RESOURCE_RESTARTING },
	{ RESOURCE_STARTING, RESOURCE_READY, RESOURCE_REGISTERING },
	{ RESOURCE_STARTING, RESOURCE_REFUSED, RESOURCE_FAILED },
	{ RESOURCE_STARTING, RESOURCE_UNANSWERED, RESOURCE_DYING },
	{ RESOURCE_STARTING, RESOURCE_BROKEN, RESOURCE_DYING },
	{ RESOURCE_STARTING, RESOURCE_HANGUP, RESOURCE_DYING },
	{ RESOURCE_STARTING, RESOURCE_EXIT, RESOURCE_BACKOFF },

	{ RESOURCE_WAITING, RESOURCE_STOP, RESOURCE_STOPPING },
	{ RESOURCE_WAITING, RESOURCE_RESTART, RESOURCE_RESTARTING },
	{ RESOURCE_WAITING, RESOURCE_KUBELET, RESOURCE_REGISTERING },
	{ RESOURCE_WAITING, RESOURCE_TIMEOUT, RESOURCE_REGISTERING },
	{ RESOURCE_WAITING, RESOURCE_RENEW, RESOURCE_REGISTERING },
	{ RESOURCE_WAITING, RESOURCE_SILENT, RESOURCE_DYING },
	{ RESOURCE_WAITING, RESOURCE_BROKEN, RESOURCE_DYING },
	{ RESOURCE_WAITING, RESOURCE_HANGUP, RESOURCE_DYING },
	{ RESOURCE_WAITING, RESOURCE_EXIT, RESOURCE_BACKOFF },

	{ RESOURCE_REGISTERING, RESOURCE_STOP, RESOURCE_STOPPING },
	{ RESOURCE_REGISTERING, RESOURCE_RESTART, RESOURCE_RESTARTING },
	{ RESOURCE_REGISTERING, RESOURCE_SESSION_ENDED, RESOURCE_WAITING },
	{ RESOURCE_REGISTERING, RESOURCE_TIMEOUT, RESOURCE_ENDING },
	{ RESOURCE_REGISTERING, RESOURCE_RENEW, RESOURCE_ENDING },
	{ RESOURCE_REGISTERING, RESOURCE_SILENT, RESOURCE_DYING },
	{ RESOURCE_REGISTERING, RESOURCE_BROKEN, RESOURCE_DYING },
	{ RESOURCE_REGISTERING, RESOURCE_HANGUP, RESOURCE_DYING },
	{ RESOURCE_REGISTERING, RESOURCE_EXIT, RESOURCE_BACKOFF },

	{ RESOURCE_SERVING, RESOURCE_STOP, RESOURCE_STOPPING },
	{ RESOURCE_SERVING, RESOURCE_RESTART, RESOURCE_RESTARTING },
	{ RESOURCE_SERVING, RESOURCE_SESSION_ENDED, RESOURCE_REGISTERING },
	{ RESOURCE_SERVING, RESOURCE_RENEW, RESOURCE_ENDING },
	{ RESOURCE_SERVING, RESOURCE_SILENT, RESOURCE_DYING },
	{ RESOURCE_SERVING, RESOURCE_BROKEN, RESOURCE_DYING },
	{ RESOURCE_SERVING, RESOURCE_HANGUP, RESOURCE_DYING },
	{ RESOURCE_SERVING, RESOURCE_EXIT, RESOURCE_BACKOFF },

	{ RESOURCE_ENDING, RESOURCE_STOP, RESOURCE_STOPPING },
	{ RESOURCE_ENDING, RESOURCE_RESTART, RESOURCE_RESTARTING },
	{ RESOURCE_ENDING, RESOURCE_SESSION_ENDED, RESOURCE_WAITING },
	{ RESOURCE_ENDING, RESOURCE_TIMEOUT, RESOURCE_DYING },
	{ RESOURCE_ENDING, RESOURCE_SILENT, RESOURCE_DYING },
	{ RESOURCE_ENDING, RESOURCE_BROKEN, RESOURCE_DYING },
	{ RESOURCE_ENDING, RESOURCE_HANGUP, RESOURCE_DYING },
	{ RESOURCE_ENDING, RESOURCE_EXIT, RESOURCE_BACKOFF },

	{ RESOURCE_FAILED, RESOURCE_STOP, RESOURCE_STOPPING },
	{ RESOURCE_FAILED, RESOURCE_RESTART, RESOURCE_RESTARTING },
	{ RESOURCE_FAILED, RESOURCE_TIMEOUT, RESOURCE_STARTING },
	{ RESOURCE_FAILED, RESOURCE_CONFIGURE, RESOURCE_STARTING },
	{ RESOURCE_FAILED, RESOURCE_BROKEN, RESOURCE_DYING },

	{ RESOURCE_BACKOFF, RESOURCE_STOP, RESOURCE_STOPPED },
	{ RESOURCE_BACKOFF, RESOURCE_RESTART, RESOURCE_STARTING },
	{ RESOURCE_BACKOFF, RESOURCE_TIMEOUT, RESOURCE_STARTING },
	{ RESOURCE_BACKOFF, RESOURCE_CONFIGURE, RESOURCE_STARTING },

	{ RESOURCE_DYING, RESOURCE_STOP, RESOURCE_STOPPING },
	{ RESOURCE_DYING, RESOURCE_EXIT, RESOURCE_BACKOFF },

	{ RESOURCE_RESTARTING, RESOURCE_STOP, RESOURCE_STOPPING },
	{ RESOURCE_RESTARTING, RESOURCE_EXIT, RESOURCE_STARTING },

	{ RESOURCE_STOPPING, RESOURCE_START, RESOURCE_RESTARTING },
	{ RESOURCE_STOPPING, RESOURCE_EXIT, RESOURCE_STOPPED },
};

static enum resource_state destination(enum resource_state from, enum resource_event event)
{
	for (size_t i = 0; i < ARRAY_SIZE(moves); i++)
		if (moves[i].from == from && moves[i].event == event)
			return moves[i].to;
	return from;
}

/* Without a child nobody says anything, and nobody dies. */
static bool possible(enum resource_event event)
{
	return world.child_runs || event < RESOURCE_READY;
}

static void test_every_state_and_event(void **state)
{
	for (int from = 0; from < _RESOURCE_STATE_MAX; from++)
		for (int event = 0; event < _RESOURCE_EVENT_MAX; event++) {
			enum resource_state to;

			bring_to((enum resource_state)from);
			if (!possible((enum resource_event)event)) {
				end();
				continue;
			}
			to = destination((enum resource_state)from, (enum resource_event)event);
			tell((enum resource_event)event);
			if (world.resource->state != to)
				fail_msg("state %d, event %d: went to %d, not to %d", from, event,
					world.resource->state, to);
			assert_int_equal(world.resource->child, world.child_runs);
			assert_int_equal(world.resource->session != 0, world.session_open);
			end();
		}
}

/* No state that waits for somebody else may be without a limit. */
static void test_every_wait_is_bounded(void **state)
{
	static const struct {
		enum resource_state state;
		enum resource_timer timer;
		uint64_t limit;
	} limits[] = {
		{ RESOURCE_STARTING, RESOURCE_TIMER_ANSWER, 30 * USEC_PER_SEC },
		{ RESOURCE_WAITING, RESOURCE_TIMER_WATCHDOG, 10 * USEC_PER_SEC },
		{ RESOURCE_REGISTERING, RESOURCE_TIMER_STATE, 30 * USEC_PER_SEC },
		{ RESOURCE_REGISTERING, RESOURCE_TIMER_WATCHDOG, 10 * USEC_PER_SEC },
		{ RESOURCE_SERVING, RESOURCE_TIMER_WATCHDOG, 10 * USEC_PER_SEC },
		{ RESOURCE_ENDING, RESOURCE_TIMER_STATE, 5 * USEC_PER_SEC },
		{ RESOURCE_FAILED, RESOURCE_TIMER_STATE, 60 * USEC_PER_SEC },
		{ RESOURCE_BACKOFF, RESOURCE_TIMER_STATE, 100 * USEC_PER_MSEC },
		{ RESOURCE_DYING, RESOURCE_TIMER_STATE, 5 * USEC_PER_SEC },
		{ RESOURCE_RESTARTING, RESOURCE_TIMER_STATE, 5 * USEC_PER_SEC },
		{ RESOURCE_STOPPING, RESOURCE_TIMER_STATE, 5 * USEC_PER_SEC },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		bring_to(limits[i].state);
		/* The jitter in the middle of its range rounds by a microsecond. */
		assert_true(wait_of(limits[i].timer) <= limits[i].limit &&
			wait_of(limits[i].timer) + 2 >= limits[i].limit);
		end();
	}
	bring_to(RESOURCE_SERVING);
	assert_int_equal(world.timers[RESOURCE_TIMER_STATE], USEC_INFINITY);
	assert_int_equal(world.timers[RESOURCE_TIMER_ANSWER], USEC_INFINITY);
	end();
	bring_to(RESOURCE_DYING);
	fire(RESOURCE_TIMER_STATE);
	assert_int_equal(world.last_signal, SIGKILL);
	assert_true(wait_of(RESOURCE_TIMER_STATE) <= 5 * USEC_PER_SEC);
	end();
}

static void test_delay_law(void **state)
{
	uint64_t delay = 0, expected = 100;

	for (unsigned i = 0; i < 20; i++) {
		uint64_t low = delay, high = delay, least, most;

		least = resource_delay_next(&low, 100, 60000, 0);
		most = resource_delay_next(&high, 100, 60000, UINT32_MAX);
		(void)resource_delay_next(&delay, 100, 60000, 12345);
		assert_int_equal(delay, expected);
		assert_int_equal(least, expected * 9 / 10);
		assert_int_equal(most, expected * 9 / 10 + expected / 5);
		expected = MIN_OF(expected * 2, 60000U);
	}
	assert_int_equal(expected, 60000);
}

static void test_crash_backoff(void **state)
{
	uint64_t expected = 100 * USEC_PER_MSEC;

	begin();
	tell(RESOURCE_START);
	for (unsigned i = 0; i < 15; i++) {
		uint64_t delay;

		tell(RESOURCE_EXIT);
		expect(RESOURCE_BACKOFF);
		delay = wait_of(RESOURCE_TIMER_STATE);
		assert_true(delay >= expected * 9 / 10 && delay <= expected * 11 / 10);
		assert_int_equal(world.resource->next_try, world.timers[RESOURCE_TIMER_STATE]);
		fire(RESOURCE_TIMER_STATE);
		assert_int_equal(world.resource->restarts, i + 1);
		expected = MIN_OF(expected * 2, 60 * USEC_PER_SEC);
	}
	/* Not quite a minute of service proves nothing. */
	for (unsigned proven = 0; proven < 2; proven++) {
		tell(RESOURCE_READY);
		tell(RESOURCE_REGISTERED);
		tell(RESOURCE_WATCHED);
		world.now += 60 * USEC_PER_SEC - (proven ? 0 : 1);
		tell(RESOURCE_EXIT);
		assert_int_equal(wait_of(RESOURCE_TIMER_STATE) <= 110 * USEC_PER_MSEC, proven == 1);
		fire(RESOURCE_TIMER_STATE);
	}
	end();
}

static void test_start_failure_backs_off(void **state)
{
	begin();
	world.start_result = -EAGAIN;
	tell(RESOURCE_START);
	expect(RESOURCE_BACKOFF);
	assert_string_equal(world.resource->reason, "cannot start");
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_BACKOFF);
	assert_true(wait_of(RESOURCE_TIMER_STATE) >= 180 * USEC_PER_MSEC);
	world.start_result = 0;
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_STARTING);
	assert_int_equal(world.resource->restarts, 0);
	end();
}

static void test_registration_backoff(void **state)
{
	uint64_t expected = 100 * USEC_PER_MSEC;

	bring_to(RESOURCE_REGISTERING);
	for (unsigned i = 0; i < 12; i++) {
		uint64_t delay;

		tell(RESOURCE_SESSION_ENDED);
		expect(RESOURCE_WAITING);
		delay = wait_of(RESOURCE_TIMER_STATE);
		assert_true(delay >= expected * 9 / 10 && delay <= expected * 11 / 10);
		fire(RESOURCE_TIMER_STATE);
		expect(RESOURCE_REGISTERING);
		expected = MIN_OF(expected * 2, 10 * USEC_PER_SEC);
	}
	tell(RESOURCE_REGISTERED);
	tell(RESOURCE_WATCHED);
	world.now += 2 * USEC_PER_SEC;
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_REGISTERING); /* at once */
	tell(RESOURCE_SESSION_ENDED);
	assert_true(wait_of(RESOURCE_TIMER_STATE) <= 110 * USEC_PER_MSEC);
	assert_int_equal(world.starts, 1);
	end();
}

/* A kubelet that takes us and drops us again must not be kept busy; a new one is greeted at once.
 */
static void test_short_sessions(void **state)
{
	bring_to(RESOURCE_SERVING);
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_REGISTERING);
	for (unsigned i = 0; i < 5; i++) {
		tell(RESOURCE_REGISTERED);
		tell(RESOURCE_WATCHED);
		tell(RESOURCE_SESSION_ENDED);
		expect(RESOURCE_WAITING);
		assert_true(wait_of(RESOURCE_TIMER_STATE) >= 90 * USEC_PER_MSEC << i);
		fire(RESOURCE_TIMER_STATE);
	}
	tell(RESOURCE_SESSION_ENDED);
	tell(RESOURCE_KUBELET);
	expect(RESOURCE_REGISTERING);
	tell(RESOURCE_SESSION_ENDED);
	assert_true(wait_of(RESOURCE_TIMER_STATE) <= 110 * USEC_PER_MSEC);
	end();
}

static void test_kubelet_away(void **state)
{
	uint64_t expected = USEC_PER_MSEC;

	bring_to(RESOURCE_WAITING);
	world.session_result = -ENOENT;
	tell(RESOURCE_KUBELET);
	expect(RESOURCE_WAITING);
	assert_int_equal(world.timers[RESOURCE_TIMER_STATE], USEC_INFINITY);
	world.session_result = -ECONNREFUSED;
	tell(RESOURCE_KUBELET);
	for (unsigned i = 0; i < 15; i++) {
		uint64_t delay = wait_of(RESOURCE_TIMER_STATE);

		assert_true(delay >= expected * 9 / 10 && delay <= expected * 11 / 10);
		fire(RESOURCE_TIMER_STATE);
		expected = MIN_OF(expected * 2, USEC_PER_SEC);
	}
	tell(RESOURCE_KUBELET);
	assert_true(wait_of(RESOURCE_TIMER_STATE) <= 2 * USEC_PER_MSEC);
	world.session_result = -EACCES;
	fire(RESOURCE_TIMER_STATE);
	assert_true(wait_of(RESOURCE_TIMER_STATE) >= 90 * USEC_PER_MSEC);
	assert_string_equal(world.resource->reason, "no session");
	end();
}

static void test_kubelet_never_disturbs(void **state)
{
	bring_to(RESOURCE_SERVING);
	for (unsigned i = 0; i < 100; i++)
		tell(RESOURCE_KUBELET);
	expect(RESOURCE_SERVING);
	assert_int_equal(world.sessions, 1);
	assert_int_equal(world.ends, 0);
	end();
}

/* A kubelet that comes by itself may come in an hour. */
static void test_watched_session_waits(void **state)
{
	begin();
	world.session_result = 1;
	tell(RESOURCE_START);
	tell(RESOURCE_READY);
	expect(RESOURCE_REGISTERING);
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), USEC_INFINITY);
	tell(RESOURCE_WATCHED);
	expect(RESOURCE_REGISTERING);
	tell(RESOURCE_REGISTERED);
	expect(RESOURCE_SERVING);
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_REGISTERING);
	assert_int_equal(world.sessions, 2);
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), USEC_INFINITY);
	/* Registered, but not watched: that has a limit. */
	tell(RESOURCE_REGISTERED);
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), RESOURCE_WATCH_TIMEOUT);
	end();
}

static void test_both_orders_of_registration(void **state)
{
	bring_to(RESOURCE_REGISTERING);
	tell(RESOURCE_WATCHED);
	expect(RESOURCE_REGISTERING);
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), 30 * USEC_PER_SEC);
	tell(RESOURCE_REGISTERED);
	expect(RESOURCE_SERVING);
	assert_string_equal(resource_state_name(world.resource), "serving");
	assert_string_equal(world.resource->reason, "");
	end();

	bring_to(RESOURCE_REGISTERING);
	tell(RESOURCE_REGISTERED);
	expect(RESOURCE_REGISTERING);
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), 15 * USEC_PER_SEC);
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_ENDING);
	assert_int_equal(world.ends, 1);
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_WAITING);
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), 100 * USEC_PER_MSEC);
	fire(RESOURCE_TIMER_STATE);
	assert_false(world.resource->registered); /* nothing of the last session is left */
	tell(RESOURCE_WATCHED);
	expect(RESOURCE_REGISTERING);
	end();
}

static void test_hung_child(void **state)
{
	bring_to(RESOURCE_SERVING);
	world.now += 9 * USEC_PER_SEC;
	tell(RESOURCE_ALIVE);
	assert_int_equal(wait_of(RESOURCE_TIMER_WATCHDOG), 10 * USEC_PER_SEC);
	fire(RESOURCE_TIMER_WATCHDOG);
	expect(RESOURCE_DYING);
	assert_int_equal(world.last_signal, SIGABRT);
	fire(RESOURCE_TIMER_STATE);
	assert_int_equal(world.last_signal, SIGKILL);
	tell(RESOURCE_EXIT);
	expect(RESOURCE_BACKOFF);
	assert_non_null(strstr(world.resource->reason, "no sign of life; because"));
	assert_false(world.session_open);
	end();

	bring_to(RESOURCE_ENDING);
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_DYING);
	assert_int_equal(world.last_signal, SIGABRT);
	end();

	bring_to(RESOURCE_SERVING);
	world.send_result = -EAGAIN;
	tell(RESOURCE_RENEW);
	expect(RESOURCE_DYING);
	end();
}

static void test_reload_keeps_the_child(void **state)
{
	bring_to(RESOURCE_SERVING);
	update("one", NULL);
	assert_int_equal(world.configures, 0);
	update("two", NULL);
	update("three", NULL);
	update("four", NULL);
	assert_int_equal(world.configures, 1); /* one at a time */
	assert_string_equal(world.text, "two");
	assert_int_equal(wait_of(RESOURCE_TIMER_ANSWER), 30 * USEC_PER_SEC);
	tell(RESOURCE_READY);
	assert_string_equal(world.text, "four"); /* the newest only */
	tell(RESOURCE_READY);
	assert_int_equal(world.timers[RESOURCE_TIMER_ANSWER], USEC_INFINITY);
	expect(RESOURCE_SERVING);
	assert_int_equal(world.starts, 1);
	assert_int_equal(world.sessions, 1);
	tell(RESOURCE_READY); /* unasked */
	assert_int_equal(world.configures, 2);
	update("five", NULL);
	fire(RESOURCE_TIMER_ANSWER);
	expect(RESOURCE_DYING);
	end();
}

static void test_refused_reload_keeps_the_old(void **state)
{
	bring_to(RESOURCE_SERVING);
	update("bad", NULL);
	tell(RESOURCE_REFUSED);
	expect(RESOURCE_SERVING);
	assert_non_null(strstr(world.resource->reason, "because"));
	tell(RESOURCE_EXIT);
	fire(RESOURCE_TIMER_STATE);
	assert_string_equal(world.text, "one"); /* also after a crash */
	tell(RESOURCE_READY);
	assert_int_equal(world.configures, 1);
	update("bad", NULL); /* tried again at each reload */
	assert_string_equal(world.text, "bad");
	tell(RESOURCE_READY);
	assert_false(world.resource->refused);
	end();

	bring_to(RESOURCE_SERVING);
	update("bad", NULL);
	update("good", NULL);
	tell(RESOURCE_REFUSED); /* of what is not wanted any more */
	assert_string_equal(world.text, "good");
	tell(RESOURCE_READY);
	assert_string_equal(world.resource->reason, "");
	end();
}

/* The child dies before it could answer: the new text must not displace one that was accepted. */
static void test_refused_after_a_crash(void **state)
{
	bring_to(RESOURCE_SERVING);
	update("bad", NULL);
	tell(RESOURCE_EXIT);
	fire(RESOURCE_TIMER_STATE);
	assert_string_equal(world.text, "bad");
	tell(RESOURCE_REFUSED);
	expect(RESOURCE_STARTING);
	assert_string_equal(world.text, "one");
	tell(RESOURCE_REFUSED); /* the hardware is gone, too */
	expect(RESOURCE_FAILED);
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_STARTING);
	assert_string_equal(world.text, "bad");
	end();
}

static void test_refused_start(void **state)
{
	bring_to(RESOURCE_FAILED);
	assert_string_equal(resource_state_name(world.resource), "failed");
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), 60 * USEC_PER_SEC);
	tell(RESOURCE_EXIT); /* a child may end after it has refused */
	expect(RESOURCE_FAILED);
	assert_non_null(strstr(world.resource->reason, "because"));
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_STARTING);
	assert_int_equal(world.starts, 2);
	tell(RESOURCE_REFUSED);
	update("one", NULL); /* a reload tries again, with the same text, too */
	expect(RESOURCE_STARTING);
	assert_int_equal(world.configures, 1);
	end();
}

static void test_configuration_cannot_be_sent(void **state)
{
	bring_to(RESOURCE_SERVING);
	world.configure_result = -EMFILE;
	update("two", NULL);
	expect(RESOURCE_SERVING);
	assert_int_equal(wait_of(RESOURCE_TIMER_ANSWER), 10 * USEC_PER_SEC);
	fire(RESOURCE_TIMER_ANSWER);
	expect(RESOURCE_SERVING);
	world.configure_result = 0;
	fire(RESOURCE_TIMER_ANSWER);
	assert_string_equal(world.text, "two");
	tell(RESOURCE_READY);
	expect(RESOURCE_SERVING);
	end();
}

static void test_another_user_needs_another_process(void **state)
{
	bring_to(RESOURCE_SERVING);
	update("one", "nobody");
	expect(RESOURCE_RESTARTING);
	assert_int_equal(world.stops, 1);
	tell(RESOURCE_EXIT);
	expect(RESOURCE_STARTING); /* at once */
	assert_string_equal(world.resource->user, "nobody");
	assert_int_equal(world.resource->restarts, 1);
	end();
}

static void test_stop(void **state)
{
	bring_to(RESOURCE_SERVING);
	tell(RESOURCE_STOP);
	assert_int_equal(world.stops, 1);
	assert_true(world.session_open); /* the child still serves until it is gone */
	fire(RESOURCE_TIMER_STATE);
	assert_int_equal(world.last_signal, SIGKILL);
	tell(RESOURCE_EXIT);
	expect(RESOURCE_STOPPED);
	assert_false(world.session_open);
	for (size_t i = 0; i < _RESOURCE_TIMER_MAX; i++)
		assert_int_equal(world.timers[i], USEC_INFINITY);
	end();

	bring_to(RESOURCE_SERVING);
	world.send_result = -EAGAIN;
	tell(RESOURCE_STOP);
	assert_int_equal(world.last_signal, SIGKILL); /* it does not read */
	end();
}

static void test_removed_and_added_again(void **state)
{
	bring_to(RESOURCE_STOPPING);
	tell(RESOURCE_START);
	tell(RESOURCE_EXIT);
	expect(RESOURCE_STARTING);
	end();
}

static void test_new_directory(void **state)
{
	bring_to(RESOURCE_SERVING);
	tell(RESOURCE_RENEW);
	expect(RESOURCE_ENDING);
	assert_int_equal(world.sessions, 1);
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_REGISTERING); /* at once */
	assert_int_equal(world.sessions, 2);
	assert_int_equal(world.starts, 1);
	end();
}

/* Any order of events whatever: the checks are in the fake operations. */
static void test_random_walk(void **state)
{
	unsigned seed = 1;

	begin();
	tell(RESOURCE_START);
	for (unsigned i = 0; i < 200000; i++) {
		enum resource_event event;

		seed = seed * 1103515245U + 12345U;
		event = (enum resource_event)(seed >> 16) % _RESOURCE_EVENT_MAX;
		if (!possible(event))
			continue;
		world.now += seed % 100000;
		world.session_result = seed & 0x100 ? 0 : -ECONNREFUSED;
		world.start_result = seed & 0x200 ? 0 : -EAGAIN;
		world.configure_result = seed & 0x400 ? 0 : -EPIPE;
		world.send_result = seed & 0x800 ? 0 : -EAGAIN;
		if (event == RESOURCE_CONFIGURE)
			update(seed & 0x1000 ? "one" : "two", NULL);
		else
			tell(event);
		assert_int_equal(world.resource->child, world.child_runs);
		if (world.resource->state == RESOURCE_STOPPED)
			tell(RESOURCE_START);
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_state_and_event),
		cmocka_unit_test(test_every_wait_is_bounded),
		cmocka_unit_test(test_delay_law),
		cmocka_unit_test(test_crash_backoff),
		cmocka_unit_test(test_start_failure_backs_off),
		cmocka_unit_test(test_registration_backoff),
		cmocka_unit_test(test_short_sessions),
		cmocka_unit_test(test_kubelet_away),
		cmocka_unit_test(test_kubelet_never_disturbs),
		cmocka_unit_test(test_watched_session_waits),
		cmocka_unit_test(test_both_orders_of_registration),
		cmocka_unit_test(test_hung_child),
		cmocka_unit_test(test_reload_keeps_the_child),
		cmocka_unit_test(test_refused_reload_keeps_the_old),
		cmocka_unit_test(test_refused_after_a_crash),
		cmocka_unit_test(test_refused_start),
		cmocka_unit_test(test_configuration_cannot_be_sent),
		cmocka_unit_test(test_another_user_needs_another_process),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_removed_and_added_again),
		cmocka_unit_test(test_new_directory),
		cmocka_unit_test(test_random_walk),
	};

	log_setup("test-resource", LOG_TARGET_TEXT, LOG_CRIT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
