/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state table of a resource, every state against every event.
 */
#include "resource-fixture.h"

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
	{ RESOURCE_REGISTERING, RESOURCE_REGISTRATION_FAILED, RESOURCE_ENDING },
	{ RESOURCE_REGISTERING, RESOURCE_TIMEOUT, RESOURCE_ENDING },
	{ RESOURCE_REGISTERING, RESOURCE_RENEW, RESOURCE_ENDING },
	{ RESOURCE_REGISTERING, RESOURCE_KUBELET_REPLACED, RESOURCE_ENDING },
	{ RESOURCE_REGISTERING, RESOURCE_SOCKET_LOST, RESOURCE_ENDING },
	{ RESOURCE_REGISTERING, RESOURCE_SILENT, RESOURCE_DYING },
	{ RESOURCE_REGISTERING, RESOURCE_BROKEN, RESOURCE_DYING },
	{ RESOURCE_REGISTERING, RESOURCE_HANGUP, RESOURCE_DYING },
	{ RESOURCE_REGISTERING, RESOURCE_EXIT, RESOURCE_BACKOFF },

	{ RESOURCE_SERVING, RESOURCE_STOP, RESOURCE_STOPPING },
	{ RESOURCE_SERVING, RESOURCE_RESTART, RESOURCE_RESTARTING },
	{ RESOURCE_SERVING, RESOURCE_SESSION_ENDED, RESOURCE_REGISTERING },
	{ RESOURCE_SERVING, RESOURCE_REGISTRATION_FAILED, RESOURCE_ENDING },
	{ RESOURCE_SERVING, RESOURCE_RENEW, RESOURCE_ENDING },
	{ RESOURCE_SERVING, RESOURCE_NOT_OFFERED, RESOURCE_ENDING },
	{ RESOURCE_SERVING, RESOURCE_KUBELET_REPLACED, RESOURCE_ENDING },
	{ RESOURCE_SERVING, RESOURCE_SOCKET_LOST, RESOURCE_ENDING },
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

/* Every state that waits for another process has a limit. */
static void test_every_wait_is_bounded(void **state)
{
	static const struct {
		enum resource_state state;
		enum resource_timer timer;
		uint64_t limit;
	} limits[] = {
		{ RESOURCE_STARTING, RESOURCE_TIMER_ANSWER, 30 * USEC_PER_SEC },
		{ RESOURCE_WAITING, RESOURCE_TIMER_WATCHDOG, 30 * USEC_PER_SEC },
		{ RESOURCE_REGISTERING, RESOURCE_TIMER_STATE, 30 * USEC_PER_SEC },
		{ RESOURCE_REGISTERING, RESOURCE_TIMER_WATCHDOG, 30 * USEC_PER_SEC },
		{ RESOURCE_SERVING, RESOURCE_TIMER_WATCHDOG, 30 * USEC_PER_SEC },
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

/* Events in any order: the checks are in the fake operations. */
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
		cmocka_unit_test(test_random_walk),
	};

	log_setup("test-resource", LOG_TARGET_TEXT, LOG_CRIT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
