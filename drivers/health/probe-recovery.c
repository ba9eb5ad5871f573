/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a device that has failed may be offered again, for the probes with `on_recovery`:
 * after their program has exited 0. The result of such a probe is bad from the failure on, so a
 * device is never offered between its recovery and its test, also after a restart, which restores
 * the result. The program runs only while the device is well otherwise, and free.
 */
#include "common/text.h"
#include "drivers/health/probe-check.h"
#include "drivers/health/probes.h"

#define NEEDS_ADMINISTRATOR "needs an administrator (devplugctl resume): "
#define HAS_FAILED          "has failed, and must pass its test before it is offered again"

static bool is_failed(const struct check *check)
{
	return check->result.known && !check->result.healthy;
}

static bool is_given_up(const struct check *check)
{
	return check->result.streak >= (uint64_t)check->queue->probe->attempts;
}

/* Returns 0 or -ENOMEM. */
static _printf_(2, 3) int set_reason(struct check *check, const char *format, ...)
{
	char reason[REASON_MAX], text[4 * REASON_MAX];
	va_list arguments;
	int r;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	reason_copy(text, reason);
	r = probe_result_set(&check->result, reason);
	return MIN_OF(r, 0);
}

void recovery_attach(struct check *check)
{
	if (check->result.known)
		return;
	if (check->run)
		(void)set_reason(check, HAS_FAILED);
	else if (!check->queue->probe->once)
		(void)probe_result_set(&check->result, NULL);
}

/* Passed; but a device that returns all the time is not repaired. */
static int count_return(struct check *check)
{
	const struct declared_probe *probe = check->queue->probe;
	struct probe_result *result = &check->result;
	uint64_t now = now_usec(CLOCK_BOOTTIME);

	if (result->returns == 0 || now - result->returned_at > probe->returns_within) {
		result->returns = 0;
		result->returned_at = now;
	}
	if (result->returns >= (uint64_t)probe->returns) {
		result->streak = (unsigned)probe->attempts;
		return set_reason(check,
			NEEDS_ADMINISTRATOR "it has failed again after %u returns within %llu s",
			result->returns,
			(unsigned long long)((now - result->returned_at) / USEC_PER_SEC));
	}
	result->returns++;
	result->streak = 0;
	return probe_result_set(result, NULL);
}

static int count_attempt(struct check *check, const char *message)
{
	const struct declared_probe *probe = check->queue->probe;

	check->result.streak++;
	if (is_given_up(check))
		return set_reason(check,
			NEEDS_ADMINISTRATOR "its test has failed, attempt %u of %" PRId64 ": %s",
			check->result.streak, probe->attempts, message);
	return set_reason(check, "its test has failed, attempt %u of %" PRId64 ": %s",
		check->result.streak, probe->attempts, message);
}

void recovery_result(struct check *check, const char *failure)
{
	bool was_failed = is_failed(check);
	int r;

	probe_result_count(check->queue->probe, !failure);
	if (failure)
		r = count_attempt(check, failure);
	else if (was_failed)
		r = count_return(check);
	else
		r = probe_result_set(&check->result, NULL);
	/* Without memory, the device stays as it is, and the next run counts. */
	if (r >= 0 && check->unit->ready)
		check->unit->health->handler(check->unit->userdata);
}

void recovery_delay(struct check *check, const char *reason)
{
	check_wait(check, check->queue->probe->interval);
	if (set_reason(check, "cannot be tested yet: %s", reason) >= 0 && check->unit->ready)
		check->unit->health->handler(check->unit->userdata);
}

static int note_failure(struct check *check)
{
	check_leave(check);
	check->outdated = true;
	if (is_failed(check))
		return 0;
	check->result.streak = 0;
	return set_reason(check, HAS_FAILED);
}

static int plan_test(struct check *check, bool may_test)
{
	if (!is_failed(check) || is_given_up(check) || check->run)
		return 0;
	if (!may_test) {
		check_leave(check);
		return 0;
	}
	if (check->list)
		return 0;
	if (check->result.streak > 0) {
		check_wait(check, check->queue->probe->interval);
		return 0;
	}
	check_move(check, &check->queue->fresh, 0);
	check_queue_arm(check->queue);
	return set_reason(check, "being tested after a failure");
}

int health_unit_recover(struct health_unit *unit, bool failed, bool may_test)
{
	int r = 0;

	for (size_t i = 0; i < unit->n_checks && r >= 0; i++) {
		struct check *check = &unit->checks[i];

		if (!check->queue->probe->on_recovery)
			continue;
		r = failed ? note_failure(check) : plan_test(check, may_test);
	}
	return r;
}

bool health_unit_resume(struct health_unit *unit, bool untested)
{
	bool found = false;

	for (size_t i = 0; i < unit->n_checks; i++) {
		struct check *check = &unit->checks[i];

		if (!check->queue->probe->on_recovery || !is_failed(check))
			continue;
		found = true;
		check->result.streak = 0;
		check->result.returns = 0;
		if (!untested)
			continue;
		check_leave(check);
		check->queue->type->stop(check);
		(void)probe_result_set(&check->result, NULL);
	}
	return found;
}
