/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the probes of a resource in order and in time, and combines their results for each unit. The
 * kinds of probes are in probe-file.c, probe-exec.c and probe-poll.c; probe-result.c decides when
 * results become a change. Whether a device is healthy as a whole is decided in
 * drivers/inventory/device-health.c.
 */
#include "drivers/health/probes.h"

#include "drivers/health/probe-check.h"

static const struct check_type *const check_types[] = {
	[PROBE_FILE] = &file_check_type,
	[PROBE_EXEC] = &exec_check_type,
	[PROBE_EXISTS] = &poll_check_type,
	[PROBE_SYSFS] = &poll_check_type,
	[PROBE_PCI] = &poll_check_type,
	[PROBE_NVML] = &poll_check_type,
};

static int on_queue_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct check_queue *queue = userdata;

	queue->type->on_due(queue, now_usec(CLOCK_MONOTONIC));
	check_queue_arm(queue);
	return 0;
}

int health_new(sd_event *event, const struct declaration *declaration, const char *root,
	struct watcher *watcher, health_handler handler, struct health **ret)
{
	_cleanup_(health_freep) struct health *health = NULL;
	size_t n = declaration->health.count;
	int r;

	health = calloc(1, sizeof(*health) + n * sizeof(health->queues[0]));
	if (!health)
		return -ENOMEM;
	health->event = sd_event_ref(event);
	health->declaration = declaration;
	health->root = root;
	health->watcher = watcher;
	health->handler = handler;
	for (size_t i = 0; i < n; i++) {
		struct check_queue *queue = &health->queues[i];

		queue->health = health;
		queue->probe = groups_get(&declaration->health, i);
		queue->key = probe_key(queue->probe);
		queue->type = check_types[queue->probe->kind];
		r = sd_event_add_time(event, &queue->timer, CLOCK_MONOTONIC, 0,
			MAX_OF(queue->probe->interval / 10, (uint64_t)1), on_queue_due, queue);
		if (r < 0)
			return r;
		health->n_queues++;
		r = sd_event_source_set_enabled(queue->timer, SD_EVENT_OFF);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(health);
	return 0;
}

struct health *health_free(struct health *health)
{
	if (!health)
		return NULL;
	for (size_t i = 0; i < health->n_queues; i++) {
		assert(health->queues[i].n_checks == 0);
		(void)sd_event_source_disable_unref(health->queues[i].timer);
	}
	exec_checks_done(health);
	file_checks_done(health);
	sd_event_unref(health->event);
	free(health);
	return NULL;
}

static int unit_attach(struct health_unit *unit)
{
	int r;

	for (size_t i = 0; i < unit->n_checks; i++) {
		r = unit->checks[i].queue->type->attach(&unit->checks[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

static void check_detach(struct check *check)
{
	check_leave(check);
	if (check->queue->type->detach)
		check->queue->type->detach(check);
}

static void unit_detach(struct health_unit *unit)
{
	for (size_t i = 0; i < unit->n_checks; i++)
		check_detach(&unit->checks[i]);
}

static int unit_change(struct health_unit *unit)
{
	int r = 0;

	for (size_t i = 0; i < unit->n_checks && r >= 0; i++) {
		struct check *check = &unit->checks[i];

		if (check->queue->type->change) {
			check->queue->type->change(check);
			continue;
		}
		check_detach(check);
		r = check->queue->type->attach(check);
	}
	return r;
}

/* Results from before a reset do not count. */
static uint64_t saved_key(const struct check *check)
{
	return check->queue->key == 0 ? 0 : check->queue->key ^ check->period;
}

static int restore_result(struct check *check, const struct saved_unit *saved)
{
	const struct probe_result *result = saved_state_result(saved, saved_key(check));
	char *reason = NULL;

	if (!result)
		return 0;
	if (result->reason) {
		reason = strdup(result->reason);
		if (!reason)
			return -ENOMEM;
	}
	check->result = *result;
	check->result.reason = reason;
	return 0;
}

size_t health_unit_results(const struct health_unit *unit, struct saved_result *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < unit->n_checks; i++)
		if (unit->checks[i].result.known)
			ret[n++] = (struct saved_result){
				.probe = saved_key(&unit->checks[i]),
				.result = unit->checks[i].result,
			};
	return n;
}

int health_unit_new(struct health *health, struct device *device, size_t index,
	const struct saved_unit *saved, void *userdata, struct health_unit **ret)
{
	_cleanup_(health_unit_freep) struct health_unit *unit = NULL;
	int r;

	unit = calloc(1, sizeof(*unit) + health->n_queues * sizeof(unit->checks[0]));
	if (!unit)
		return -ENOMEM;
	unit->health = health;
	unit->device = device_ref(device);
	unit->index = index;
	unit->userdata = userdata;
	for (; unit->n_checks < health->n_queues; unit->n_checks++) {
		unit->checks[unit->n_checks] = (struct check){
			.unit = unit,
			.queue = &health->queues[unit->n_checks],
		};
		if (health->queues[unit->n_checks].probe->kind == PROBE_NVML)
			unit->checks[unit->n_checks].period = device->finding_period;
		health->queues[unit->n_checks].n_checks++;
	}
	for (size_t i = 0; saved && i < unit->n_checks; i++) {
		r = restore_result(&unit->checks[i], saved);
		if (r < 0)
			return r;
	}
	r = unit_attach(unit);
	if (r < 0)
		return r;
	unit->ready = true;
	*ret = TAKE_PTR(unit);
	return 0;
}

struct health_unit *health_unit_free(struct health_unit *unit)
{
	if (!unit)
		return NULL;
	unit_detach(unit);
	for (size_t i = 0; i < unit->n_checks; i++) {
		exec_leave(&unit->checks[i]);
		unit->checks[i].queue->n_checks--;
		probe_result_done(&unit->checks[i].result);
	}
	(void)device_unref(unit->device);
	free(unit);
	return NULL;
}

/* Whether the target of a check depends on the place in the list; commands are expanded when
 * run. */
static bool uses_index(const struct health_unit *unit)
{
	for (size_t i = 0; i < unit->n_checks; i++) {
		const struct declared_probe *probe = unit->checks[i].queue->probe;

		if (probe->kind == PROBE_FILE && strstr(probe->path, "${index}"))
			return true;
	}
	return false;
}

int health_unit_update(struct health_unit *unit, struct device *device, size_t index)
{
	bool moved = unit->index != index && uses_index(unit), existed = unit->device;
	int r = 0;

	unit->index = index;
	if (unit->device == device && (!moved || !device))
		return 0;
	if (device)
		(void)device_ref(device);
	(void)device_unref(unit->device);
	unit->device = device;
	if (!device) {
		unit_detach(unit);
		return 0;
	}
	unit->ready = false;
	r = existed ? unit_change(unit) : unit_attach(unit);
	unit->ready = true;
	return r;
}

static bool is_notice(const struct check *check)
{
	return check->queue->probe->severity == SEVERITY_NOTICE;
}

static bool has_failed(const struct check *check)
{
	return check->result.known && !check->result.healthy;
}

/* A probe with on_recovery fails because of another failure, and is shown after it. */
enum rank { RANK_FAILURE, RANK_RECOVERY, RANK_NOTICE, _RANK_MAX };

static enum rank rank_of(const struct check *check)
{
	if (is_notice(check))
		return RANK_NOTICE;
	return check->queue->probe->on_recovery ? RANK_RECOVERY : RANK_FAILURE;
}

/* The first check of that rank that has failed, or NULL. */
static const struct check *find_failed(const struct health_unit *unit, enum rank rank)
{
	for (size_t i = 0; i < unit->n_checks; i++)
		if (rank_of(&unit->checks[i]) == rank && has_failed(&unit->checks[i]))
			return &unit->checks[i];
	return NULL;
}

bool health_unit_failed(const struct health_unit *unit)
{
	return find_failed(unit, RANK_FAILURE);
}

bool health_unit_healthy(const struct health_unit *unit, bool *ret_known, const char **ret_reason)
{
	const struct check *failed =
		find_failed(unit, RANK_FAILURE) ?: find_failed(unit, RANK_RECOVERY);
	bool known = true;

	if (failed) {
		*ret_known = true;
		*ret_reason = failed->result.reason;
		return false;
	}
	for (size_t i = 0; i < unit->n_checks; i++)
		known &= is_notice(&unit->checks[i]) || unit->checks[i].result.known;
	*ret_known = known;
	if (!known)
		*ret_reason = "not probed yet";
	return known;
}

size_t health_unit_findings(const struct health_unit *unit, struct finding ret[static FINDINGS_MAX])
{
	size_t n = 0;

	for (enum rank rank = 0; rank < _RANK_MAX; rank++)
		for (size_t i = 0; i < unit->n_checks && n < FINDINGS_MAX; i++) {
			const struct check *check = &unit->checks[i];

			if (has_failed(check) && rank_of(check) == rank)
				ret[n++] = (struct finding){
					.reason = check->queue->probe->reason,
					.severity =
						(enum probe_severity)check->queue->probe->severity,
					.text = check->result.reason ?: "",
					.could_not_run = check->result.could_not_run,
					.probe = i,
				};
		}
	return n;
}
