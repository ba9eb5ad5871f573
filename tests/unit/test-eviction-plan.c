/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When pods of failed devices are evicted, and what holds that: each rule alone, across restarts,
 * and random failures against the rules that must always hold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "supervisor/eviction/eviction-plan.h"

#define AFTER (300 * USEC_PER_SEC)
#define START (1000000 * USEC_PER_SEC)

static struct eviction_plan plan;
static struct eviction_report reports[16];
static size_t n_reports;
static unsigned n_devices;
static uint64_t now;

/* A plan whose configuration has settled. */
static int setup(void **state)
{
	eviction_plan_done(&plan);
	now = START;
	n_devices = 8;
	n_reports = 0;
	assert_true(eviction_plan_configure(&plan, 1, now));
	now += EVICTION_SETTLING;
	return 0;
}

static int teardown(void **state)
{
	eviction_plan_done(&plan);
	return 0;
}

static void count_change(const struct eviction_failure *failure, void *userdata)
{
	unsigned *n = userdata;

	(*n)++;
}

static const char *name_of(unsigned device)
{
	static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i" };

	return names[device];
}

/* What a device reports: '-' nothing, 'x' a failure, 'n' a probe that could not run. Returns how
 * many changes there were. */
static unsigned step(const char *devices)
{
	unsigned n = 0;

	n_reports = 0;
	for (unsigned i = 0; devices[i]; i++)
		if (devices[i] != '-')
			reports[n_reports++] = (struct eviction_report){
				.device = name_of(i),
				.text = devices[i] == 'n' ? "no program" : "broken",
				.evict_after = AFTER,
				.could_not_run = devices[i] == 'n',
			};
	assert_int_equal(
		eviction_plan_take(&plan, reports, n_reports, n_devices, n_reports, now), 0);
	(void)eviction_plan_run(&plan, now, count_change, &n);
	return n;
}

static void restart(void)
{
	json_auto_t *saved = eviction_plan_save(&plan), *again = NULL;

	assert_non_null(saved);
	eviction_plan_done(&plan);
	assert_int_equal(eviction_plan_load(saved, now, &plan), 0);
	again = eviction_plan_save(&plan);
	assert_true(json_equal(saved, again));
}

static void expect(const char *device, enum eviction_state state, enum eviction_hold hold)
{
	const struct eviction_failure *failure = eviction_plan_find(&plan, device);

	assert_non_null(failure);
	assert_int_equal(failure->state, state);
	assert_int_equal(failure->hold, hold);
}

static void test_after_the_time(void **state)
{
	unsigned n = 0;

	step("x-------");
	expect("a", EVICTION_WAITING, EVICTION_HOLD_NONE);
	assert_int_equal(eviction_plan_run(&plan, now, count_change, &n), now + AFTER);
	now += AFTER - 1;
	assert_int_equal(step("x-------"), 0);
	restart();
	now += 1;
	assert_int_equal(step("x-------"), 1);
	expect("a", EVICTION_ACTIVE, EVICTION_HOLD_NONE);
	assert_int_equal(eviction_plan_find(&plan, "a")->begun, now);
	assert_int_equal(eviction_plan_run(&plan, now, count_change, &n), USEC_INFINITY);
	assert_int_equal(n, 0);
	/* One that recovers begins again. */
	step("--------");
	assert_null(eviction_plan_find(&plan, "a"));
	step("x-------");
	expect("a", EVICTION_WAITING, EVICTION_HOLD_NONE);
	assert_int_equal(eviction_plan_count(&plan, EVICTION_WAITING), 1);
}

static void test_probe_that_could_not_run(void **state)
{
	step("n-------");
	expect("a", EVICTION_HELD, EVICTION_HOLD_NOT_RUN);
	now += 10 * AFTER;
	step("n-------");
	expect("a", EVICTION_HELD, EVICTION_HOLD_NOT_RUN);
	/* From now on it proves something about the device. */
	step("x-------");
	expect("a", EVICTION_WAITING, EVICTION_HOLD_NONE);
	now += AFTER;
	step("x-------");
	expect("a", EVICTION_ACTIVE, EVICTION_HOLD_NONE);
	step("n-------");
	expect("a", EVICTION_HELD, EVICTION_HOLD_NOT_RUN);
	restart();
	assert_int_equal(eviction_plan_confirm(&plan), 1);
	assert_int_equal(eviction_plan_confirm(&plan), 0);
	step("n-------");
	expect("a", EVICTION_ACTIVE, EVICTION_HOLD_NONE);
}

static void test_new_configuration(void **state)
{
	assert_false(eviction_plan_configure(&plan, 1, now));
	assert_true(eviction_plan_configure(&plan, 2, now));
	now += EVICTION_SETTLING - 1;
	step("x-------");
	expect("a", EVICTION_HELD, EVICTION_HOLD_CONFIGURATION);
	now += 10 * AFTER;
	restart();
	step("xx------");
	/* A failure that begins later is not the new configuration's. */
	expect("a", EVICTION_HELD, EVICTION_HOLD_CONFIGURATION);
	expect("b", EVICTION_WAITING, EVICTION_HOLD_NONE);
	now += AFTER;
	step("xx------");
	expect("b", EVICTION_ACTIVE, EVICTION_HOLD_NONE);
	/* A change also stops an eviction. */
	assert_true(eviction_plan_configure(&plan, 3, now));
	step("xx------");
	expect("b", EVICTION_HELD, EVICTION_HOLD_CONFIGURATION);
	assert_int_equal(eviction_plan_confirm(&plan), 2);
	step("xx------");
	expect("a", EVICTION_ACTIVE, EVICTION_HOLD_NONE);
	expect("b", EVICTION_ACTIVE, EVICTION_HOLD_NONE);
	assert_true(eviction_plan_configure(&plan, 4, now));
	step("xx------");
	expect("a", EVICTION_ACTIVE, EVICTION_HOLD_NONE);
}

static void test_half_of_the_devices(void **state)
{
	step("xxxx----");
	now += AFTER;
	step("xxxx----");
	assert_int_equal(eviction_plan_count(&plan, EVICTION_ACTIVE), 4);
	/* Two of them recover, but they were hit within the hour. */
	step("--xxx---");
	now += AFTER;
	step("--xxx---");
	expect("e", EVICTION_HELD, EVICTION_HOLD_MANY);
	now += EVICTION_WINDOW;
	step("--xxx---");
	expect("e", EVICTION_HELD, EVICTION_HOLD_MANY);
	/* The same failure an hour later is not too many. */
	step("--xx----");
	step("--xxx---");
	now += AFTER;
	step("--xxx---");
	expect("e", EVICTION_ACTIVE, EVICTION_HOLD_NONE);
	restart();
	step("--xxx---");
	assert_int_equal(plan.n_hits, 1);
}

static void test_too_many_at_once(void **state)
{
	step("xxxxx---");
	now += AFTER;
	assert_int_equal(step("xxxxx---"), 5);
	assert_int_equal(eviction_plan_count(&plan, EVICTION_HELD), 5);
	/* What holds them is not over because one has recovered. */
	step("xxxx----");
	assert_int_equal(eviction_plan_count(&plan, EVICTION_HELD), 4);
	assert_int_equal(eviction_plan_confirm(&plan), 4);
	step("xxxx----");
	assert_int_equal(eviction_plan_count(&plan, EVICTION_ACTIVE), 4);
}

/* Failures that are not due yet count, too. */
static void test_many_that_follow(void **state)
{
	step("x-------");
	now += AFTER / 2;
	step("xxxxx---");
	now += AFTER / 2;
	step("xxxxx---");
	expect("a", EVICTION_HELD, EVICTION_HOLD_MANY);
	expect("b", EVICTION_WAITING, EVICTION_HOLD_NONE);
}

static void test_probes_that_could_not_run_do_not_count(void **state)
{
	step("xnnnn---");
	now += AFTER;
	step("xnnnn---");
	expect("a", EVICTION_ACTIVE, EVICTION_HOLD_NONE);
}

static void test_failures_that_do_not_fit_the_list(void **state)
{
	step("x-------");
	now += AFTER;
	assert_int_equal(eviction_plan_take(&plan, reports, 1, 8, 5, now), 0);
	(void)eviction_plan_run(&plan, now, count_change, &(unsigned){ 0 });
	expect("a", EVICTION_HELD, EVICTION_HOLD_MANY);
}

static void test_few_devices(void **state)
{
	static const struct {
		unsigned devices;
		const char *failures;
		enum eviction_state state;
	} cases[] = {
		{ 0, "x", EVICTION_HELD },
		{ 1, "x", EVICTION_HELD },
		{ 2, "x-", EVICTION_ACTIVE },
		{ 2, "xx", EVICTION_HELD },
		{ 3, "x--", EVICTION_ACTIVE },
		{ 3, "xx-", EVICTION_HELD },
		{ 4, "xx--", EVICTION_ACTIVE },
		{ 4, "xxx-", EVICTION_HELD },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		(void)setup(state);
		n_devices = cases[i].devices;
		step(cases[i].failures);
		now += AFTER;
		step(cases[i].failures);
		expect("a", cases[i].state,
			cases[i].state == EVICTION_HELD ? EVICTION_HOLD_MANY : EVICTION_HOLD_NONE);
	}
}

static void test_invalid_saved_plans(void **state)
{
	static const char *const members[][2] = {
		{ "since", "-1" },
		{ "since", "9000000000000000" },
		{ "begun", "9000000000000000" },
		{ "evict_after", "-1" },
		{ "state", "\"other\"" },
		{ "hold", "\"other\"" },
		{ "hold", "\"many\"" },
	};
	struct eviction_plan loaded;

	step("x-------");
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		json_auto_t *saved = eviction_plan_save(&plan);
		json_t *failure = json_array_get(json_object_get(saved, "failures"), 0);

		(void)json_object_set_new(
			failure, members[i][0], json_loads(members[i][1], JSON_DECODE_ANY, NULL));
		assert_int_equal(eviction_plan_load(saved, now, &loaded), -EBADMSG);
		assert_int_equal(loaded.n_failures, 0);
		assert_null(loaded.failures);
	}
	assert_int_equal(eviction_plan_load(NULL, now, &loaded), 0);
	assert_int_equal(loaded.configuration, 0);
}

/* --- random failures --- */

struct history {
	char state[9];
	uint64_t failing_since[9]; /* 0: it does not fail, or its probe could not run */
	uint64_t hit_at[9];        /* without a confirmation; 0: never */
	bool confirmed[9], was_held[9];
};

static void check_activation(const struct history *history, unsigned device)
{
	const struct eviction_failure *failure = eviction_plan_find(&plan, name_of(device));
	unsigned n = 0;

	if (history->confirmed[device])
		return;
	assert_true(failure->since + AFTER <= now);
	assert_int_equal(history->state[device], 'x');
	assert_true(history->failing_since[device] + AFTER <= now);
	assert_false(history->was_held[device]);
	assert_true(plan.changed_at + EVICTION_SETTLING <= now);
	assert_true(history->failing_since[device] < plan.changed_at ||
		history->failing_since[device] >= plan.changed_at + EVICTION_SETTLING);
	for (unsigned i = 0; i < n_devices; i++)
		n += i == device ||
			(history->hit_at[i] > 0 && history->hit_at[i] + EVICTION_WINDOW > now);
	assert_true(n_devices <= 2 ? n < n_devices : 2 * n <= n_devices);
}

static void change_devices(struct history *history)
{
	for (unsigned i = 0; i < n_devices; i++) {
		char before = history->state[i];

		if (rand() % 8 == 0)
			history->state[i] = "---xxn"[rand() % 6];
		if (history->state[i] == '-')
			history->confirmed[i] = history->was_held[i] = false;
		if (history->state[i] != 'x')
			history->failing_since[i] = 0;
		else if (before != 'x')
			history->failing_since[i] = now;
	}
}

static void compare(struct history *history, const bool *was_active)
{
	for (unsigned i = 0; i < n_devices; i++) {
		const struct eviction_failure *failure = eviction_plan_find(&plan, name_of(i));

		assert_int_equal(failure != NULL, history->state[i] != '-');
		if (!failure)
			continue;
		if (failure->state == EVICTION_ACTIVE && !was_active[i]) {
			check_activation(history, i);
			history->hit_at[i] = now;
		}
		/* A probe that runs again begins a new failure. */
		history->was_held[i] =
			failure->state == EVICTION_HELD && failure->hold != EVICTION_HOLD_NOT_RUN;
	}
}

static void confirm(struct history *history)
{
	for (unsigned i = 0; i < n_devices; i++) {
		const struct eviction_failure *failure = eviction_plan_find(&plan, name_of(i));

		history->confirmed[i] |= failure && failure->state == EVICTION_HELD;
	}
	(void)eviction_plan_confirm(&plan);
}

static void run_random(unsigned seed)
{
	struct history history = { .state = "---------" };

	(void)setup(NULL);
	srand(seed);
	n_devices = 1 + seed % 9;
	for (unsigned i = 0; i < 500; i++) {
		bool was_active[9] = { false };
		char devices[10];

		now += (uint64_t)(rand() % 200) * USEC_PER_SEC;
		if (rand() % 100 == 0)
			(void)eviction_plan_configure(&plan, 2 + (uint64_t)rand(), now);
		if (rand() % 50 == 0)
			confirm(&history);
		if (rand() % 10 == 0)
			restart();
		for (unsigned k = 0; k < n_devices; k++) {
			const struct eviction_failure *failure =
				eviction_plan_find(&plan, name_of(k));

			was_active[k] = failure && failure->state == EVICTION_ACTIVE;
		}
		change_devices(&history);
		(void)snprintf(devices, sizeof(devices), "%.*s", (int)n_devices, history.state);
		(void)step(devices);
		for (unsigned k = 0; k < n_devices; k++)
			was_active[k] &= history.state[k] != '-';
		compare(&history, was_active);
	}
}

static void test_random(void **state)
{
	for (unsigned seed = 0; seed < 90; seed++)
		run_random(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_after_the_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_probe_that_could_not_run, setup, teardown),
		cmocka_unit_test_setup_teardown(test_new_configuration, setup, teardown),
		cmocka_unit_test_setup_teardown(test_half_of_the_devices, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_many_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_that_follow, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_probes_that_could_not_run_do_not_count, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_failures_that_do_not_fit_the_list, setup, teardown),
		cmocka_unit_test_setup_teardown(test_few_devices, setup, teardown),
		cmocka_unit_test_setup_teardown(test_invalid_saved_plans, setup, teardown),
		cmocka_unit_test_setup_teardown(test_random, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
