/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a probe's program runs, and whether its result counts. A few run at a time, and
 * their starts are spread evenly over an interval, so that probing a hundred devices does not start
 * a hundred processes at once. First results only wait for a free slot. A run lasts until the
 * program exits or its time limit, also if the device changes or is removed: the program may reset
 * it, or remove it and have the kernel find it again.
 */
#include <inttypes.h>

#include "common/counters.h"
#include "drivers/health/probe-check.h"
#include "drivers/model/driver.h"
#include "drivers/model/template.h"

/* It belongs to the resource, and outlives a unit that leaves the list. If its device was removed,
 * replaced or has failed meanwhile, or the command would have other words now, the result does not
 * count, and the program runs once more. The result of that run counts even so: then the program
 * itself makes the device change, or the device changes all the time. */
struct program_run {
	struct program_run *next; /* of the resource */
	struct check *check;      /* NULL: its unit left the list */
	struct check_queue *queue;
	struct device *device; /* as it was at the start */
	char **argv;
	struct command *command;
	uint64_t started; /* CLOCK_MONOTONIC */
};

static void arm_all(struct health *health)
{
	for (size_t i = 0; i < health->n_queues; i++)
		check_queue_arm(&health->queues[i]);
}

/* Kills the program if it runs. */
static struct program_run *run_free(struct program_run *run)
{
	struct health *health;

	if (!run)
		return NULL;
	health = run->queue->health;
	for (struct program_run **r = &health->runs; *r; r = &(*r)->next)
		if (*r == run) {
			*r = run->next;
			break;
		}
	if (run->check)
		run->check->run = NULL;
	if (run->command)
		health->n_running--;
	(void)command_free(run->command);
	(void)device_unref(run->device);
	template_words_freep(&run->argv);
	free(run);
	return NULL;
}
DEFINE_CLEANUP(struct program_run *, run_free)

/* Whether the program has initialised the device. */
static bool is_done(const struct check *check)
{
	return check->queue->probe->once && check->result.known && check->result.healthy;
}

/* Has the program run as soon as possible. */
static void queue_now(struct check *check)
{
	if (check->result.known) {
		check_wait(check, 0);
		return;
	}
	check_move(check, &check->queue->fresh, 0);
	check_queue_arm(check->queue);
}

/* `status` and `failure`: of the command; NULL: the program has exited 0. */
static void take_result(struct check *check, int status, const char *failure)
{
	enum probe_outcome outcome = !failure ? PROBE_HEALTHY
		: status == -EIO              ? PROBE_UNHEALTHY
					      : PROBE_NOT_RUN;

	check->dropped = false;
	if (check->queue->probe->on_recovery && status == -EBUSY) {
		recovery_delay(check, failure);
		return;
	}
	if (check->queue->probe->on_recovery) {
		recovery_result(check, failure);
		return;
	}
	if (check->unit->device)
		check_wait(check, check->queue->probe->interval);
	check_result(check, outcome, failure);
}

/* The device is tested again when probe-recovery.c finds it well and free. */
static void drop_result(struct check *check)
{
	struct health_unit *unit = check->unit;

	check->dropped = true;
	if (check->queue->probe->on_recovery && check->result.known)
		unit->health->handler(unit->userdata);
	else if (unit->device)
		queue_now(check);
}

static bool is_same_hardware(
	const struct driver *driver, const struct device *a, const struct device *b)
{
	for (const struct driver_variable *v = driver->variables; v && v->name; v++) {
		const char *before = v->permanent ? device_variable(a, v->name) : NULL;
		const char *after = before ? device_variable(b, v->name) : NULL;

		if (before && after && *before && *after && !streq(before, after))
			return false;
	}
	return true;
}

static bool words_equal(char *const *a, char *const *b)
{
	while (*a && *b && streq(*a, *b)) {
		a++;
		b++;
	}
	return !*a && !*b;
}

static bool is_outdated(const struct program_run *run, const struct check *check)
{
	const struct health *health = run->queue->health;
	_cleanup_words_ char **argv = NULL;
	struct error error;

	return check->outdated || !check->unit->device ||
		!is_same_hardware(health->declaration->driver, run->device, check->unit->device) ||
		check_expand_words(check, &run->queue->probe->command, &argv, &error) < 0 ||
		!words_equal(run->argv, argv);
}

static void on_program_end(int status, const struct error *error, void *userdata)
{
	struct program_run *run = userdata;
	struct check *check = run->check;
	struct health *health = run->queue->health;
	bool drop = check && !check->dropped && is_outdated(run, check);

	counters_add_probe_time(
		(unsigned)run->queue->probe->kind, now_usec(CLOCK_MONOTONIC) - run->started);
	(void)run_free(run);
	arm_all(health);
	if (drop)
		drop_result(check);
	else if (check)
		take_result(check, status, status >= 0 ? NULL : error->message);
}

static int start_run(struct check *check, struct error *error)
{
	_cleanup_(run_freep) struct program_run *run = calloc(1, sizeof(*run));
	_cleanup_strings_ struct strings subjects = { 0 };
	struct health *health = check->unit->health;
	int r;

	if (!run)
		return error_set(error, -ENOMEM, "out of memory");
	*run = (struct program_run){
		.next = health->runs,
		.queue = check->queue,
		.device = device_ref(check->unit->device),
		.started = now_usec(CLOCK_MONOTONIC),
	};
	health->runs = run;
	r = check_expand_words(check, &check->queue->probe->command, &run->argv, error);
	if (r >= 0 &&
		command_subject(&subjects, "probe %" PRIx64 " of %s", check->queue->key,
			run->device->id) < 0)
		r = error_set(error, -ENOMEM, "out of memory");
	if (r >= 0)
		r = command_start(health->event, run->argv, &subjects, check->queue->probe->timeout,
			on_program_end, run, &run->command, error);
	if (r < 0)
		return r;
	health->n_running++;
	run->check = check;
	check->run = TAKE_PTR(run);
	check->outdated = false;
	return 0;
}

static void exec_run(struct check *check)
{
	struct error error;
	int r = start_run(check, &error);

	check_leave(check);
	if (r < 0)
		take_result(check, r, error.message);
}

/* The program may still run for a unit of the same device that has left the list. */
static void adopt_run(struct check *check)
{
	const char *id = check->unit->device->id;

	for (struct program_run *run = check->unit->health->runs; run && !check->run;
		run = run->next)
		if (!run->check && run->queue == check->queue && streq(run->device->id, id)) {
			run->check = check;
			check->run = run;
			check->outdated = true;
		}
}

static int exec_attach(struct check *check)
{
	if (!check->run)
		adopt_run(check);
	if (check->queue->probe->on_recovery)
		recovery_attach(check);
	if (!check->run && !is_done(check) &&
		!(check->queue->probe->on_recovery && check->result.known))
		queue_now(check);
	return 0;
}

static void exec_detach(struct check *check)
{
	/* A device that was removed is initialised again when it returns. */
	if (check->queue->probe->once && !check->queue->probe->on_recovery && !check->unit->device)
		probe_result_done(&check->result);
	check->outdated = true;
}

/* The command is expanded when it runs. A check that is due keeps its place. */
static void exec_change(struct check *check)
{
	struct check_queue *queue = check->queue;

	if (check->run || is_done(check) || queue->probe->on_recovery)
		return;
	if (check->list == &queue->waiting && check->due > now_usec(CLOCK_MONOTONIC))
		check_wait(check, 0);
}

static void exec_stop(struct check *check)
{
	struct health *health = check->unit->health;

	if (!check->run)
		return;
	(void)run_free(check->run);
	arm_all(health);
}

void exec_leave(struct check *check)
{
	if (!check->run)
		return;
	check->run->check = NULL;
	check->run = NULL;
}

void exec_checks_done(struct health *health)
{
	while (health->runs)
		(void)run_free(health->runs);
}

static void exec_on_due(struct check_queue *queue, uint64_t now)
{
	struct health *health = queue->health;

	while (health->n_running < PROGRAMS_MAX && queue->fresh.first)
		exec_run(queue->fresh.first);
	while (health->n_running < PROGRAMS_MAX && queue->waiting.first &&
		queue->waiting.first->due <= now && queue->next_start <= now) {
		if (is_done(queue->waiting.first)) {
			check_leave(queue->waiting.first);
			continue;
		}
		queue->next_start = now + queue->probe->interval / (queue->n_checks + 1);
		exec_run(queue->waiting.first);
	}
}

const struct check_type exec_check_type = {
	.attach = exec_attach,
	.detach = exec_detach,
	.change = exec_change,
	.stop = exec_stop,
	.on_due = exec_on_due,
};
