/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the supervisor whether devices can be used, and runs the program that cleans one device. The
 * supervisor decides when that is.
 */
#include "proto/plugin/device-use.h"

#include "common/counters.h"
#include "common/sealed.h"
#include "drivers/host/command.h"
#include "drivers/host/device-values.h"
#include "drivers/model/template.h"
#include "proto/plugin/plugin-send.h"

#define DIRTY_MAX (4U << 20)

struct device_use {
	struct device_use *next;
	struct device_uses *uses;
	uint64_t number;
	device_use_handler handler;
	void *userdata;
	sd_event_source *timer;
};

struct cleaning {
	struct cleaning *next;
	struct device_uses *uses;
	uint64_t number;
	struct offer *offer;
	struct command *command;
};

/* --- questions --- */

struct device_use *device_use_free(struct device_use *use)
{
	if (!use)
		return NULL;
	for (struct device_use **u = &use->uses->uses; *u; u = &(*u)->next)
		if (*u == use) {
			*u = use->next;
			break;
		}
	sd_event_source_disable_unref(use->timer);
	free(use);
	return NULL;
}
DEFINE_CLEANUP(struct device_use *, device_use_free)

/* The handler frees the question. */
static void answer(struct device_use *use, int status, int metadata_fd, const char *why)
{
	struct error error = { 0 };

	if (status < 0)
		(void)error_set(&error, status, "%s", why);
	use->handler(status, metadata_fd, &error, use->userdata);
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	answer(userdata, -ETIMEDOUT, -EBADF,
		"devplugd did not answer in time whether the devices can be used; see its log");
	return 0;
}

static int send_ids(const struct device_use *use, enum child_use phase, const char *const *ids,
	size_t n_ids, int attributes_fd)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_USE);
	int r;

	message.number = use->number;
	message.phase = phase;
	message.fds[0] = sealed_begin("use");
	if (message.fds[0] < 0)
		return message.fds[0];
	for (size_t i = 0; i < n_ids; i++)
		if (dprintf(message.fds[0], "%s\n", ids[i]) < 0)
			return -ENOMEM;
	r = sealed_end(message.fds[0]);
	if (r < 0)
		return r;
	message.fds[1] = attributes_fd;
	plugin_send(use->uses->event, &message);
	message.fds[1] = -EBADF;
	return 0;
}

int device_use_ask(struct device_uses *uses, enum child_use phase, const char *const *ids,
	size_t n_ids, int attributes_fd, uint64_t timeout, device_use_handler handler,
	void *userdata, struct device_use **ret, struct error *error)
{
	_cleanup_(device_use_freep) struct device_use *use = calloc(1, sizeof(*use));
	int r;

	if (!use)
		return error_set(error, -ENOMEM, "out of memory");
	*use = (struct device_use){
		.next = uses->uses,
		.uses = uses,
		.number = ++uses->number,
		.handler = handler,
		.userdata = userdata,
	};
	uses->uses = use;
	if (n_ids > CHILD_USE_IDS_MAX)
		return error_set(error, -E2BIG,
			"a container can have at most %d devices of a resource with `release`, "
			"`metadata` or overlap = \"exclusive\"",
			CHILD_USE_IDS_MAX);
	r = sd_event_add_time_relative(
		uses->event, &use->timer, CLOCK_MONOTONIC, timeout, USEC_PER_MSEC, on_timeout, use);
	if (r >= 0)
		r = send_ids(use, phase, ids, n_ids, attributes_fd);
	if (r < 0)
		return error_set(error, r,
			"cannot ask devplugd whether the devices can be used: %s", strerror(-r));
	*ret = TAKE_PTR(use);
	return 0;
}

void device_use_answered(struct device_uses *uses, const struct control_message *message)
{
	for (struct device_use *use = uses->uses; use; use = use->next)
		if (use->number == message->number) {
			answer(use, *message->text ? -EBUSY : 0, message->fds[0], message->text);
			return;
		}
}

/* --- the program --- */

static struct cleaning *run_free(struct cleaning *run)
{
	if (!run)
		return NULL;
	for (struct cleaning **r = &run->uses->runs; *r; r = &(*r)->next)
		if (*r == run) {
			*r = run->next;
			run->uses->n_runs--;
			break;
		}
	command_free(run->command);
	offer_unref(run->offer);
	free(run);
	return NULL;
}
DEFINE_CLEANUP(struct cleaning *, run_free)

static void report(
	const struct device_uses *uses, uint64_t number, enum child_cleaned how, const char *text)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_CLEANED);

	message.number = number;
	message.phase = how;
	(void)snprintf(message.text, sizeof(message.text), "%s", text);
	plugin_send(uses->event, &message);
}

static void on_end(int status, const struct error *error, void *userdata)
{
	_cleanup_(run_freep) struct cleaning *run = userdata;

	counters_add(status < 0 ? COUNTER_CLEANINGS_FAILED : COUNTER_CLEANINGS_OK, 1);
	report(run->uses, run->number, status < 0 ? CHILD_CLEANED_FAILED : CHILD_CLEANED_OK,
		status < 0 ? error->message : "");
}

static int start(struct cleaning *run, size_t unit, struct error *error)
{
	const struct declaration *declaration = run->offer->applied_config->declaration;
	const struct device *device = run->offer->snapshot->units[unit].device;
	struct device_values values = {
		.root = declaration_root(declaration),
		.device = device,
		.index = unit,
	};
	const struct template_context context = {
		.name = declaration->name,
		.device_value = device_values_get,
		.userdata = &values,
	};
	_cleanup_strings_ struct strings subjects = { 0 };
	_cleanup_words_ char **argv = NULL;
	int r;

	r = template_expand_words(&declaration->release.command, &context, &argv, error);
	if (r < 0)
		return r;
	if (command_subject(&subjects, "release of %s", device->id) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return command_start(run->uses->event, argv, &subjects, declaration->release.timeout,
		on_end, run, &run->command, error);
}

static struct cleaning *run_new(struct device_uses *uses, struct offer *offer, uint64_t number)
{
	struct cleaning *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->uses = uses;
	run->number = number;
	run->offer = offer_ref(offer);
	run->next = uses->runs;
	uses->runs = run;
	uses->n_runs++;
	return run;
}

/* Returns 0 if the program runs, or what to report, with the error filled if it failed. */
static enum child_cleaned begin(struct device_uses *uses, struct offer *offer, uint64_t number,
	const char *id, struct error *error)
{
	_cleanup_(run_freep) struct cleaning *run = NULL;
	size_t unit = 0, n_units;
	int r;

	if (!offer || !declaration_cleans(offer->applied_config->declaration) ||
		uses->n_runs >= CHILD_CLEANINGS_MAX)
		return CHILD_CLEANED_LATER;
	n_units = offer->snapshot->n_units - offer->snapshot->n_placeholders;
	while (unit < n_units && !streq(offer->snapshot->units[unit].device->id, id))
		unit++;
	if (unit == n_units || !offer->snapshot->units[unit].present)
		return CHILD_CLEANED_ABSENT;
	run = run_new(uses, offer, number);
	if (!run)
		return CHILD_CLEANED_LATER;
	r = start(run, unit, error);
	if (r >= 0)
		TAKE_PTR(run);
	if (r == -EAGAIN || r == -ENOMEM)
		return CHILD_CLEANED_LATER;
	return r < 0 ? CHILD_CLEANED_FAILED : 0;
}

void device_use_clean(
	struct device_uses *uses, struct offer *offer, const struct control_message *message)
{
	struct error error = { 0 };
	enum child_cleaned how = begin(uses, offer, message->number, message->text, &error);

	if (how)
		report(uses, message->number, how, error.message);
}

int device_use_take_dirty(struct device_uses *uses, const struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = sealed_read(message->fds[0], DIRTY_MAX, &text, &size);

	if (r < 0)
		return r;
	free(uses->dirty);
	uses->dirty = TAKE_PTR(text);
	return 0;
}

void device_uses_done(struct device_uses *uses)
{
	while (uses->runs)
		run_free(uses->runs);
	free(uses->dirty);
	uses->dirty = NULL;
}
