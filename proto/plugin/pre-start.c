/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each call keeps the offer it came with, so a reload meanwhile changes nothing about it. The
 * kubelet calls for several pods at once; a command is never shared between calls.
 */
#include "proto/plugin/pre-start.h"

#include "common/log.h"
#include "deviceplugin.pb-c.h"
#include "drivers/command.h"
#include "drivers/template.h"
#include "drivers/values.h"
#include "proto/message.h"

struct pre_start {
	struct pre_start *next;
	struct pre_starts *running;
	sd_event *event;
	struct offer *offer;
	struct rpc_call *call; /* NULL once answered */
	struct command *command;
	uint64_t deadline; /* CLOCK_MONOTONIC microseconds */
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
	if (run->call)
		rpc_fail(run->call, RPC_UNAVAILABLE, "the plugin stops; the kubelet tries again");
	offer_unref(run->offer);
	free(run->devices);
	free(run->units);
	free(run);
	return NULL;
}
DEFINE_CLEANUP(struct pre_start *, pre_start_free)

static void succeed(struct pre_start *run)
{
	V1beta1__PreStartContainerResponse response = V1BETA1__PRE_START_CONTAINER_RESPONSE__INIT;

	message_reply(TAKE_PTR(run->call), &response.base);
}

static void fail(struct pre_start *run, struct error *error)
{
	error_prefix(error, "prestart of %s", run->offer->edition->declaration->name);
	log_error("%s", error->message);
	rpc_fail(TAKE_PTR(run->call), RPC_FAILED_PRECONDITION, error->message);
}

static void argv_free(char **argv)
{
	for (char **word = argv; word && *word; word++)
		free(*word);
	free(argv);
}

static void argv_freep(char ***argv)
{
	argv_free(*argv);
}

static int expand(struct pre_start *run, char ***ret_argv, struct error *error)
{
	const struct declaration *declaration = run->offer->edition->declaration;
	const struct strings *words = &declaration->prestart.command;
	_cleanup_(argv_freep) char **argv = calloc(words->count + 1, sizeof(*argv));
	struct device_values values = { .root = declaration_root(declaration) };
	struct template_context context = {
		.name = declaration->name,
		.devices = run->devices,
		.n_devices = run->n_units,
		.userdata = &values,
	};
	int r;

	if (!argv)
		return error_set(error, -ENOMEM, "out of memory");
	if (run->per_device) {
		values.index = run->units[run->n_done];
		values.position = run->n_done;
		values.device = run->offer->snapshot->units[values.index].device;
		context.device_value = device_values_get;
	}
	for (size_t i = 0; i < words->count; i++) {
		r = template_expand(words->items[i], &context, &argv[i], error);
		if (r < 0)
			return r;
	}
	*ret_argv = TAKE_PTR(argv);
	return 0;
}

static void on_command_end(int status, const struct error *error, void *userdata);

static int start_next(struct pre_start *run, struct error *error)
{
	_cleanup_(argv_freep) char **argv = NULL;
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	int r;

	if (now >= run->deadline)
		return error_set(error, -ETIMEDOUT, "out of time before device \"%s\"",
			run->devices[run->n_done]->id);
	r = expand(run, &argv, error);
	if (r < 0)
		return r;
	return command_start(
		run->event, argv, run->deadline - now, on_command_end, run, &run->command, error);
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

void pre_start_run(struct pre_starts *running, sd_event *event, struct offer *offer,
	struct rpc_call *call, const char *const *ids, size_t n_ids)
{
	const struct prestart *prestart = &offer->edition->declaration->prestart;
	_cleanup_(pre_start_freep) struct pre_start *run = calloc(1, sizeof(*run));
	struct error error = {};
	int r;

	if (!run) {
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	run->running = running;
	run->next = running->first;
	running->first = run;
	run->event = event;
	run->offer = offer_ref(offer);
	run->call = call;
	run->deadline = now_usec(CLOCK_MONOTONIC) + prestart->timeout;
	/* The command may have been taken away by a reload while the call was on its way here. */
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

void pre_starts_done(struct pre_starts *running)
{
	while (running->first)
		pre_start_free(running->first);
}
