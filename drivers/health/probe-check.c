/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves checks from list to list, sets the timer of a queue by its first check, decides how long
 * files may be read before other events are handled, and passes a result on if it changes
 * something.
 */
#include "drivers/health/probe-check.h"

#include "drivers/host/device-values.h"
#include "drivers/model/template.h"

/* The time for reading in one turn of the event loop. */
#define READING_MAX USEC_PER_SEC

bool health_may_read(struct health *health)
{
	uint64_t turn = 0, now = now_usec(CLOCK_MONOTONIC);

	(void)sd_event_get_iteration(health->event, &turn);
	if (turn != health->turn) {
		health->turn = turn;
		health->reading = 0;
	}
	return health->reading + (health->read_at > 0 ? now - health->read_at : 0) < READING_MAX;
}

void health_read_begin(struct health *health)
{
	health->read_at = now_usec(CLOCK_MONOTONIC);
}

void health_read_end(struct health *health)
{
	health->reading += now_usec(CLOCK_MONOTONIC) - health->read_at;
	health->read_at = 0;
}

void check_leave(struct check *check)
{
	if (!check->list)
		return;
	if (check->previous)
		check->previous->next = check->next;
	else
		check->list->first = check->next;
	if (check->next)
		check->next->previous = check->previous;
	else
		check->list->last = check->previous;
	check->previous = check->next = NULL;
	check->list = NULL;
}

void check_move(struct check *check, struct check_list *list, uint64_t due)
{
	struct check *before;

	check_leave(check);
	/* Delays within a list are equal but for rare cases, so this ends at once. */
	before = list->last;
	while (before && before->due > due)
		before = before->previous;
	check->due = due;
	check->list = list;
	check->previous = before;
	check->next = before ? before->next : list->first;
	if (check->next)
		check->next->previous = check;
	else
		list->last = check;
	if (before)
		before->next = check;
	else
		list->first = check;
}

void check_wait(struct check *check, uint64_t delay)
{
	check_move(check, &check->queue->waiting, now_usec(CLOCK_MONOTONIC) + delay);
	check_queue_arm(check->queue);
}

void check_rest(struct check *check, uint64_t delay)
{
	check_move(check, &check->queue->resting, now_usec(CLOCK_MONOTONIC) + delay);
	check_queue_arm(check->queue);
}

void check_queue_arm(struct check_queue *queue)
{
	const struct check *first = queue->waiting.first;
	bool exec = queue->probe->kind == PROBE_EXEC;
	uint64_t next;

	if (exec && queue->health->n_running >= PROGRAMS_MAX)
		next = USEC_INFINITY;
	else if (queue->fresh.first)
		next = 0;
	else if (first)
		next = exec ? MAX_OF(first->due, queue->next_start) : first->due;
	else
		next = USEC_INFINITY;
	if (queue->resting.first)
		next = MIN_OF(next, queue->resting.first->due);
	/* The accuracy of the timer would delay what is due. */
	if (next <= now_usec(CLOCK_MONOTONIC))
		next = 0;
	(void)sd_event_source_set_time(queue->timer, next);
	(void)sd_event_source_set_enabled(
		queue->timer, next == USEC_INFINITY ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

void check_result(struct check *check, enum probe_outcome outcome, const char *reason)
{
	struct health_unit *unit = check->unit;
	unsigned streak = check->result.streak;
	int r;

	/* Without memory, the result is dropped and the next one counts. */
	r = probe_result_feed(&check->result, check->queue->probe, outcome, reason);
	if ((r > 0 || check->result.streak != streak) && unit->ready)
		unit->health->handler(unit->userdata);
}

static struct template_context context_of(const struct check *check, struct device_values *values)
{
	const struct health *health = check->unit->health;

	*values = (struct device_values){
		.root = health->root,
		.device = check->unit->device,
		.index = check->unit->index,
	};
	return (struct template_context){
		.name = health->declaration->name,
		.device_value = device_values_get,
		.userdata = values,
	};
}

int check_expand(const struct check *check, const char *text, char **ret, struct error *error)
{
	struct device_values values;
	const struct template_context context = context_of(check, &values);

	return template_expand(text, &context, ret, error);
}

int check_expand_words(
	const struct check *check, const struct strings *words, char ***ret, struct error *error)
{
	struct device_values values;
	const struct template_context context = context_of(check, &values);

	return template_expand_words(words, &context, ret, error);
}
