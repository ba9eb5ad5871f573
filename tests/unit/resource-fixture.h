/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A resource in a simulated world: the clock, the child, the kubelet and chance are all set by the
 * test. The fake operations check the invariants: one child, one session.
 */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/control-child.h"
#include "common/log.h"
#include "supervisor/children/resource.h"

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
	unsigned applied;
	struct resource_config configs[4]; /* the resource refers to three of them at most */
	struct resource *resource;
} world;

static inline int fake_start(
	const struct resource_config *config, void *userdata, struct error *error)
{
	assert_false(world.child_runs);
	assert_false(world.session_open);
	if (world.start_result < 0)
		return error_set(error, world.start_result, "cannot start");
	world.starts++;
	world.child_runs = true;
	(void)snprintf(world.text, sizeof(world.text), "%s", config->text);
	return 0;
}

static inline int fake_configure(
	const struct resource_config *config, void *userdata, struct error *error)
{
	assert_true(world.child_runs);
	if (world.configure_result < 0)
		return error_set(error, world.configure_result, "cannot configure");
	world.configures++;
	(void)snprintf(world.text, sizeof(world.text), "%s", config->text);
	return 0;
}

static inline void fake_applied(const struct resource_config *before, void *userdata)
{
	assert_non_null(before);
	world.applied++;
}

static inline int fake_open_session(void *userdata, uint64_t *ret_number, struct error *error)
{
	assert_true(world.child_runs);
	assert_false(world.session_open); /* never two at once */
	if (world.session_result < 0)
		return error_set(error, world.session_result, "no session");
	world.session_open = true;
	*ret_number = ++world.sessions;
	return world.session_result;
}

static inline int fake_end_session(uint64_t number, void *userdata)
{
	assert_true(world.session_open);
	assert_int_equal(number, world.sessions);
	world.ends++;
	return world.send_result;
}

static inline int fake_stop(void *userdata)
{
	assert_true(world.child_runs);
	world.stops++;
	return world.send_result;
}

static inline void fake_kill(int number, void *userdata)
{
	assert_true(world.child_runs);
	world.kills++;
	world.last_signal = number;
}

static inline void fake_remove_socket(void *userdata)
{
	world.session_open = false;
}

static inline void fake_set_timer(enum resource_timer timer, uint64_t at, void *userdata)
{
	world.timers[timer] = at;
}

static inline uint64_t fake_now(void *userdata)
{
	return world.now;
}

static inline uint32_t fake_random(void *userdata)
{
	return world.random;
}

static inline void fake_changed(void *userdata)
{
}

static const struct resource_operations operations = {
	.start = fake_start,
	.configure = fake_configure,
	.applied = fake_applied,
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

static inline struct resource_config *config_of(const char *text, const char *user)
{
	const struct resource *resource = world.resource;
	struct resource_config *config = world.configs;

	while (resource &&
		(config == resource->wanted || config == resource->sent ||
			config == resource->accepted))
		config++;
	*config = (struct resource_config){
		.declaration = {
			.name = (char *)"vendor.example/gpu",
			.driver_name = (char *)"static",
			.user = (char *)user,
		},
		.text = (char *)text,
	};
	return config;
}

static inline void begin(void)
{
	memset(&world, 0, sizeof(world));
	world.now = 1000 * USEC_PER_SEC;
	world.random = UINT32_MAX / 2;
	for (size_t i = 0; i < _RESOURCE_TIMER_MAX; i++)
		world.timers[i] = USEC_INFINITY;
	assert_int_equal(
		resource_new(config_of("one", NULL), &operations, NULL, &world.resource), 0);
}

static inline void end(void)
{
	world.resource = resource_free(world.resource);
}

static inline void tell(enum resource_event event)
{
	if (event == RESOURCE_EXIT)
		world.child_runs = false;
	resource_handle(world.resource, event, "because");
}

/* Lets a timer fire at its time. */
static inline void fire(enum resource_timer timer)
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

static inline uint64_t wait_of(enum resource_timer timer)
{
	return world.timers[timer] == USEC_INFINITY ? USEC_INFINITY
						    : world.timers[timer] - world.now;
}

static inline void expect(enum resource_state state)
{
	assert_int_equal(world.resource->state, state);
}

static inline void update(const char *text, const char *user)
{
	enum resource_event event = resource_update(world.resource, config_of(text, user));

	if (event != _RESOURCE_EVENT_MAX)
		tell(event);
}

/* The shortest way to each state. */
static inline void bring_to(enum resource_state state)
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

/* Without a child there is no message and no exit. */
static inline bool possible(enum resource_event event)
{
	return world.child_runs || event < RESOURCE_READY;
}
