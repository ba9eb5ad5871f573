/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits until devices are clean and runs the resource's command before a container starts, and
 * decides what the pod shows if that fails. Each call keeps the offer that was current when it
 * arrived, so a later reload does not affect it. The kubelet calls for several pods at once; a
 * command is never shared between calls.
 */
#include "proto/plugin/pre-start.h"

#include "common/counters.h"
#include "common/log.h"
#include "deviceplugin.pb-c.h"
#include "drivers/host/command.h"
#include "drivers/host/device-values.h"
#include "drivers/model/template.h"
#include "proto/message.h"
#include "proto/plugin/call-failed.h"

/* The kubelet waits 30 s. The supervisor answers earlier whether devices are clean. */
#define ANSWER_TIMEOUT (28 * USEC_PER_SEC)

struct pre_start {
	struct pre_start *next;
	struct pre_starts *running;
	sd_event *event;
	struct offer *offer;
	struct claim_values values;
	pre_start_handler on_end; /* NULL after the call */
	void *userdata;
	struct command *command;
	struct device_use *use; /* the question whether the devices are clean */
	char *text;             /* of `ids`, which wait for the answer */
	const char **ids;
	size_t n_ids;
	uint64_t since;    /* CLOCK_MONOTONIC microseconds */
	uint64_t deadline; /* of the command */
	const struct device **devices;
	size_t *units; /* positions in the snapshot, each once */
	size_t n_units, n_done;
	bool per_device;
};

static struct pre_start *pre_start_free(struct pre_start *run)
{
	if (!run)
		return NULL;
	for (struct pre_start **r = &run->running->first; *r; r = &(*r)->next)
		if (*r == run) {
			*r = run->next;
			break;
		}
	command_free(run->command);
	device_use_free(run->use);
	free(run->text);
	free(run->ids);
	offer_unref(run->offer);
	free(run->devices);
	free(run->units);
	free(run);
	return NULL;
}
DEFINE_CLEANUP(struct pre_start *, pre_start_free)

static void finish(struct pre_start *run, int status, const struct error *error)
{
	pre_start_handler on_end = TAKE_PTR(run->on_end);

	on_end(status, error, run->userdata);
}

static void succeed(struct pre_start *run)
{
	if (run->offer->applied_config->declaration->prestart.command.count > 0)
		counters_add(COUNTER_PRESTARTS_OK, 1);
	finish(run, 0, NULL);
}

static void report_failure(const struct pre_start *run, const char *text)
{
	_cleanup_free_ const char **ids = calloc(run->n_units + 1, sizeof(*ids));

	for (size_t i = 0; ids && i < run->n_units; i++)
		ids[i] = run->devices[i]->id;
	call_failed(CHILD_CALL_PRESTART, ids, ids ? run->n_units : 0, text);
}

static void fail(struct pre_start *run, struct error *error)
{
	error_prefix(error, "prestart of %s", run->offer->applied_config->declaration->name);
	counters_add(COUNTER_PRESTARTS_FAILED, 1);
	report_failure(run, error->message);
	finish(run, error->code, error);
}

static int expand(struct pre_start *run, char ***ret_argv, struct error *error)
{
	const struct declaration *declaration = run->offer->applied_config->declaration;
	struct device_values values = {
		.root = declaration_root(declaration),
		.amounts = run->values.amounts,
	};
	struct template_context context = {
		.name = declaration->name,
		.parameters = &declaration->parameters,
		.parameter_values = run->values.parameters,
		.devices = run->devices,
		.n_devices = run->n_units,
		.userdata = &values,
	};

	if (run->per_device) {
		values.index = run->units[run->n_done];
		values.position = run->n_done;
		values.device = run->offer->snapshot->units[values.index].device;
		context.device_value = device_values_get;
	}
	return template_expand_words(&declaration->prestart.command, &context, ret_argv, error);
}

static int name_subjects(const struct pre_start *run, struct strings *subjects)
{
	size_t end = run->per_device ? run->n_done + 1 : run->n_units;
	int r = 0;

	for (size_t i = run->n_done; i < end && r >= 0; i++)
		r = command_subject(subjects, "prestart of %s", run->devices[i]->id);
	return r;
}

static void on_command_end(int status, const struct error *error, void *userdata);

static int start_next(struct pre_start *run, struct error *error)
{
	_cleanup_strings_ struct strings subjects = { 0 };
	_cleanup_words_ char **argv = NULL;
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	int r;

	if (now >= run->deadline)
		return error_set(error, -ETIMEDOUT,
			"the time limit passed before device \"%s\" was prepared",
			run->devices[run->n_done]->id);
	r = expand(run, &argv, error);
	if (r < 0)
		return r;
	if (name_subjects(run, &subjects) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return command_start(run->event, argv, &subjects, run->deadline - now, on_command_end, run,
		&run->command, error);
}

static void on_command_end(int status, const struct error *error, void *userdata)
{
	_cleanup_(pre_start_freep) struct pre_start *run = userdata;
	struct error next_error = {};

	run->command = command_free(run->command);
	run->n_done++;
	if (status < 0) {
		next_error = *error;
		fail(run, &next_error);
		return;
	}
	if (!run->per_device || run->n_done == run->n_units) {
		succeed(run);
		return;
	}
	if (start_next(run, &next_error) < 0) {
		fail(run, &next_error);
		return;
	}
	TAKE_PTR(run);
}

static int find_units(
	struct pre_start *run, const char *const *ids, size_t n_ids, struct error *error)
{
	const struct snapshot *snapshot = run->offer->snapshot;

	run->units = calloc(n_ids + 1, sizeof(run->units[0]));
	run->devices = calloc(n_ids + 1, sizeof(run->devices[0]));
	if (!run->units || !run->devices)
		return error_set(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n_ids; i++) {
		size_t unit, k = 0;
		unsigned replica;

		if (snapshot_find(snapshot, ids[i], &unit, &replica) < 0)
			return error_set(error, -ENOENT, "device \"%s\" does not exist", ids[i]);
		while (k < run->n_units && run->units[k] != unit)
			k++;
		if (k < run->n_units)
			continue;
		run->units[run->n_units] = unit;
		run->devices[run->n_units++] = snapshot->units[unit].device;
	}
	if (run->n_units == 0)
		return error_set(error, -EINVAL, "the request names no device");
	return 0;
}

static struct pre_start *pre_start_new(struct pre_starts *running, sd_event *event,
	struct offer *offer, pre_start_handler on_end, void *userdata)
{
	struct pre_start *run = calloc(1, sizeof(*run));

	if (!run) {
		on_end(-ENOMEM, &(const struct error){ -ENOMEM, "out of memory" }, userdata);
		return NULL;
	}
	*run = (struct pre_start){
		.running = running,
		.next = running->first,
		.event = event,
		.offer = offer_ref(offer),
		.on_end = on_end,
		.userdata = userdata,
		.since = now_usec(CLOCK_MONOTONIC),
	};
	running->first = run;
	return run;
}

/* Runs the command, if there is one. */
static void begin(struct pre_start *begun, const char *const *ids, size_t n_ids)
{
	_cleanup_(pre_start_freep) struct pre_start *run = begun;
	const struct prestart *prestart = &run->offer->applied_config->declaration->prestart;
	struct error error = {};
	int r;

	run->deadline = now_usec(CLOCK_MONOTONIC) + prestart->timeout;
	/* There is none, or a reload has removed it while the call was on its way here. */
	if (prestart->command.count == 0) {
		succeed(run);
		return;
	}
	for (size_t i = 0; i < prestart->command.count; i++)
		run->per_device |= template_is_per_device(prestart->command.items[i]);
	r = find_units(run, ids, n_ids, &error);
	if (r >= 0)
		r = start_next(run, &error);
	if (r < 0) {
		fail(run, &error);
		return;
	}
	TAKE_PTR(run);
}

void pre_start_run(struct pre_starts *running, sd_event *event, struct offer *offer,
	const char *const *ids, size_t n_ids, const struct claim_values *values,
	pre_start_handler on_end, void *userdata)
{
	struct pre_start *run = pre_start_new(running, event, offer, on_end, userdata);

	if (!run)
		return;
	if (values)
		run->values = *values;
	begin(run, ids, n_ids);
}

/* --- the wait until the devices are clean --- */

static void refuse(struct pre_start *run, const struct error *error)
{
	call_failed(CHILD_CALL_PRESTART, run->ids, run->ids ? run->n_ids : 0, error->message);
	finish(run, error->code, error);
	pre_start_free(run);
}

/* Whether the command may still run for as long as it may. */
static bool has_time(const struct pre_start *run)
{
	const struct prestart *prestart = &run->offer->applied_config->declaration->prestart;

	return prestart->command.count == 0 ||
		now_usec(CLOCK_MONOTONIC) + prestart->timeout <= run->since + ANSWER_TIMEOUT;
}

static void on_clean(int status, int metadata_fd, const struct error *error, void *userdata)
{
	struct pre_start *run = userdata;
	struct error late = {};

	run->use = device_use_free(run->use);
	if (status >= 0 && !has_time(run)) {
		status = error_set(&late, -EAGAIN,
			"the devices are clean now, but too little time is left for prestart; the kubelet will retry");
		error = &late;
	}
	if (status < 0)
		refuse(run, error);
	else
		begin(run, run->ids, run->n_ids);
}

static int keep_ids(struct pre_start *run, const char *const *ids, size_t n_ids)
{
	size_t bytes = 0;
	char *end;

	for (size_t i = 0; i < n_ids; i++)
		bytes += strlen(ids[i]) + 1;
	run->ids = calloc(n_ids + 1, sizeof(*run->ids));
	end = run->text = malloc(bytes + 1);
	if (!run->ids || !run->text)
		return -ENOMEM;
	for (run->n_ids = 0; run->n_ids < n_ids; run->n_ids++) {
		run->ids[run->n_ids] = end;
		end = stpcpy(end, ids[run->n_ids]) + 1;
	}
	return 0;
}

static void await_clean(
	struct pre_start *run, struct device_uses *uses, const char *const *ids, size_t n_ids)
{
	struct error error = { 0 };
	int r = keep_ids(run, ids, n_ids);

	if (r < 0)
		(void)error_set(&error, r, "out of memory");
	else
		r = device_use_ask(uses, CHILD_USE_STARTED, ids, n_ids, -EBADF, ANSWER_TIMEOUT,
			on_clean, run, &run->use, &error);
	if (r < 0)
		refuse(run, &error);
}

static void answer(int status, const struct error *error, void *userdata)
{
	V1beta1__PreStartContainerResponse response = V1BETA1__PRE_START_CONTAINER_RESPONSE__INIT;
	struct rpc_call *call = userdata;

	if (status >= 0)
		message_reply(call, &response.base);
	else
		rpc_fail(call,
			status == -ENOMEM              ? RPC_RESOURCE_EXHAUSTED
				: status == -ESHUTDOWN ? RPC_UNAVAILABLE
						       : RPC_FAILED_PRECONDITION,
			error->message);
}

void pre_start_answer(struct pre_starts *running, struct device_uses *uses, struct offer *offer,
	struct rpc_call *call, const char *const *ids, size_t n_ids)
{
	struct pre_start *run = pre_start_new(running, uses->event, offer, answer, call);

	if (!run)
		return;
	if (declaration_cleans(offer->applied_config->declaration))
		await_clean(run, uses, ids, n_ids);
	else
		begin(run, ids, n_ids);
}

void pre_starts_cancel(struct pre_starts *running, const struct rpc_call *call)
{
	struct pre_start *run = running->first;

	while (run && (run->on_end != answer || run->userdata != call))
		run = run->next;
	if (!run)
		return;
	log_info("the kubelet cancelled the start of a container; prestart is killed if it runs");
	if (run->command)
		counters_add(COUNTER_PRESTARTS_FAILED, 1);
	rpc_fail(run->userdata, RPC_CANCELLED, "cancelled");
	pre_start_free(run);
}

void pre_starts_done(struct pre_starts *running)
{
	struct error error = { 0 };

	(void)error_set(&error, -ESHUTDOWN, "the plugin is stopping; the kubelet will retry");
	while (running->first) {
		finish(running->first, error.code, &error);
		pre_start_free(running->first);
	}
}
