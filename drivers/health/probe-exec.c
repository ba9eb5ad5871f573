/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a probe's program runs. A few run at a time, and their starts are spread evenly over
 * an interval, so that probing a hundred devices does not start a hundred processes at once. First
 * results are wanted as soon as possible and only wait for a free slot.
 */
#include "common/counters.h"
#include "drivers/health/probe-check.h"
#include "drivers/model/template.h"

static void arm_all(struct health *health)
{
	for (size_t i = 0; i < health->n_queues; i++)
		check_queue_arm(&health->queues[i]);
}

/* Whether the program has initialised the device. */
static bool is_done(const struct check *check)
{
	return check->queue->probe->once && check->result.known && check->result.healthy;
}

/* `status` and `failure`: of the command; NULL: the program has exited 0. */
static void take_result(struct check *check, int status, const char *failure)
{
	enum probe_outcome outcome = !failure ? PROBE_HEALTHY
		: status == -EIO              ? PROBE_UNHEALTHY
					      : PROBE_NOT_RUN;

	if (check->queue->probe->on_recovery) {
		recovery_result(check, failure);
		return;
	}
	check_wait(check, check->queue->probe->interval);
	check_result(check, outcome, failure);
}

static void on_program_end(int status, const struct error *error, void *userdata)
{
	struct check *check = userdata;
	struct health *health = check->unit->health;

	check->command = command_free(check->command);
	health->n_running--;
	counters_add_probe_time(
		(unsigned)check->queue->probe->kind, now_usec(CLOCK_MONOTONIC) - check->started);
	arm_all(health);
	take_result(check, status, status >= 0 ? NULL : error->message);
}

static void exec_run(struct check *check)
{
	struct health *health = check->unit->health;
	_cleanup_words_ char **argv = NULL;
	struct error error;
	int r;

	r = check_expand_words(check, &check->queue->probe->command, &argv, &error);
	check->started = now_usec(CLOCK_MONOTONIC);
	if (r >= 0)
		r = command_start(health->event, argv, check->queue->probe->timeout, on_program_end,
			check, &check->command, &error);
	check_leave(check);
	if (r < 0) {
		take_result(check, r, error.message);
		return;
	}
	health->n_running++;
}

static int exec_attach(struct check *check)
{
	if (check->queue->probe->on_recovery)
		recovery_attach(check);
	if (is_done(check) || (check->queue->probe->on_recovery && check->result.known))
		return 0;
	if (check->result.known)
		check_wait(check, 0);
	else {
		check_move(check, &check->queue->fresh, 0);
		check_queue_arm(check->queue);
	}
	return 0;
}

static void exec_detach(struct check *check)
{
	struct health *health = check->unit->health;

	/* A device that was removed is initialised again when it returns. */
	if (check->queue->probe->once && !check->queue->probe->on_recovery && !check->unit->device)
		probe_result_done(&check->result);
	if (!check->command)
		return;
	check->command = command_free(check->command);
	health->n_running--;
	arm_all(health);
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
	.on_due = exec_on_due,
};
