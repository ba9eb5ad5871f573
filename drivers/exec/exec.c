/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "exec" finds devices that only a program knows: cameras on the network, licence servers,
 * devices that a vendor's tool finds. The programs run independently of the scans; a scan uses the
 * last output of each.
 */
#include "drivers/exec/exec-source.h"
#include "drivers/host/scan.h"
#include "drivers/model/driver.h"

#define DAY_MSEC (24 * 3600 * 1000)

struct exec_state {
	struct exec_source **sources; /* one for each entry */
	size_t n_sources;
};

static const char *const modes[] = { [EXEC_POLL] = "poll", [EXEC_WATCH] = "watch", NULL };
static const char *const properties[] = { [PROPERTIES_VARIABLES] = "variables",
	[PROPERTIES_ENV] = "env",
	[PROPERTIES_AKRI] = "akri",
	NULL };

static const struct option exec_options[] = {
	{
		.key = "mode",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct exec_match, mode),
		.choices = modes,
		.default_integer = EXEC_POLL,
		.help = "\"poll\" runs the program at intervals, and each run writes one document; \"watch\" keeps it running, and it writes a document on one line for each change.",
	},
	{
		.key = "command",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct exec_match, command),
		.required = true,
		.help = "Program, by its absolute path, and its arguments; no shell is involved. docs/exec-protocol.md describes its output.",
	},
	{
		.key = "interval",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct exec_match, interval),
		.variant = "poll",
		.minimum = 100,
		.maximum = DAY_MSEC,
		.default_integer = 10 * 1000,
		.unit = "seconds",
		.help = "Time from the end of one run to the start of the next.",
	},
	{
		.key = "timeout",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct exec_match, timeout),
		.minimum = 100,
		.maximum = 300 * 1000,
		.default_integer = 10 * 1000,
		.unit = "seconds",
		.help = "Time limit of a run, or of the first line in mode \"watch\"; a program that takes longer is killed.",
	},
	{
		.key = "properties",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct exec_match, properties),
		.choices = properties,
		.default_integer = PROPERTIES_VARIABLES,
		.help = "Use of the properties of devices: \"variables\" defines ${property:NAME} only, \"env\" also sets them in the environment of containers, \"akri\" sets both NAME and NAME_HASH, as brokers of Akri expect.",
	},
	{
		.key = "allocate",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct exec_match, allocate.command),
		.help = "Program, by its absolute path, and its arguments, that runs whenever "
			"devices of this entry are assigned to a container. It reads the "
			"devices, and prints additions for the container, such as nodes or "
			"variables. If it fails, the pod fails. See docs/exec-protocol.md.",
	},
	{
		/* The kubelet sets no time limit for Allocate, and admits no other pod in the
		 * meantime. */
		.key = "allocate_timeout",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct exec_match, allocate.timeout),
		.minimum = 100,
		.maximum = 10 * 1000,
		.default_integer = 3 * 1000,
		.unit = "seconds",
		.help = "Time limit of the program in `allocate`, from the kubelet's call; no other pod starts on the node meanwhile.",
	},
};

static const struct option_table exec_match_table = {
	.name = "match entry",
	.selector = "mode",
	.size = sizeof(struct exec_match),
	.options = exec_options,
	.count = ARRAY_SIZE(exec_options),
};

static void exec_check(const struct declaration *declaration, size_t index, struct report *report)
{
	const struct exec_match *match = groups_get(&declaration->match, index);

	declared_program_check(&match->command, &match->origin, "command", report);
	declared_program_check(&match->allocate.command, &match->origin, "allocate", report);
}

/* The list that is used until an entry's program answers: the list of the same program, or of the
 * program that it replaces. */
static struct exec_list *previous_list(
	const struct exec_state *previous, const struct exec_match *match, size_t index)
{
	if (!previous)
		return NULL;
	for (size_t i = 0; i < previous->n_sources; i++)
		if (strings_equal(
			    &exec_source_match(previous->sources[i])->command, &match->command))
			return exec_source_list(previous->sources[i]);
	return index < previous->n_sources ? exec_source_list(previous->sources[index]) : NULL;
}

static void *exec_stop(void *userdata)
{
	struct exec_state *state = userdata;

	for (size_t i = 0; i < state->n_sources; i++)
		(void)exec_source_free(state->sources[i]);
	free(state->sources);
	free(state);
	return NULL;
}

static int exec_start(const struct driver_context *context, const void *previous, void **ret_state,
	struct error *error)
{
	const struct groups *match = &context->declaration->match;
	const char *program_root = declaration_program_root(context->declaration, context->root);
	struct exec_state *state = calloc(1, sizeof(*state));
	int r = 0;

	if (!state)
		return error_set(error, -ENOMEM, "out of memory");
	state->sources = calloc(match->count, sizeof(state->sources[0]));
	if (!state->sources)
		r = -ENOMEM;
	for (size_t i = 0; i < match->count && r >= 0; i++) {
		const struct exec_match *entry = groups_get(match, i);

		r = exec_source_new(context->event, entry, program_root,
			previous_list(previous, entry, i), context->changed, context->userdata,
			&state->sources[i]);
		if (r >= 0)
			state->n_sources++;
	}
	if (r < 0) {
		(void)exec_stop(state);
		return error_set(error, r, "programs cannot be prepared: %s", strerror(-r));
	}
	*ret_state = state;
	return 0;
}

static int list_source(
	struct scan *scan, const struct exec_source *source, size_t entry, struct error *error)
{
	const struct exec_list *list = exec_source_list(source);
	int r = 0;

	if (!exec_source_answered(source))
		scan_incomplete(scan);
	if (exec_source_failure(source))
		scan_note(scan, "%s; %s", exec_source_failure(source),
			list ? "the last list stays in use" : "there is no list yet");
	for (size_t i = 0; list && i < list->n_devices && r >= 0; i++) {
		struct device *device;

		r = scan_add(scan, list->devices[i]->id, &device);
		if (r == -EEXIST) {
			r = 0;
			continue;
		}
		if (r >= 0)
			r = device_copy(list->devices[i], device);
		if (r >= 0)
			device->entry = entry;
	}
	return r < 0 ? error_set(error, r, "out of memory") : 0;
}

static int exec_list_devices(
	const struct declaration *declaration, struct scan *scan, struct error *error)
{
	const struct exec_state *state = scan_state(scan);
	int r = 0;

	for (size_t i = 0; state && i < state->n_sources && r >= 0; i++)
		r = list_source(scan, state->sources[i], i, error);
	return r;
}

static const struct allocate_program *exec_allocate(
	const struct declaration *declaration, size_t entry)
{
	const struct exec_match *match = groups_get(&declaration->match, entry);

	return match->allocate.command.count > 0 ? &match->allocate : NULL;
}

static const struct driver_variable exec_variables[] = {
	{ .name = "original_id", .help = "The id in the output of the program." },
	{ .name = "property:NAME",
		.help = "Value of the property NAME, which the program must print." },
	{ 0 },
};

const struct driver exec_driver = {
	.name = "exec",
	.summary =
		"devices that a program lists, such as network devices, licences and devices of vendor tools",
	.match = &exec_match_table,
	.variables = exec_variables,
	.runs_programs = true,
	.mounts = DRIVER_MOUNTS,
	.check_entry = exec_check,
	.start = exec_start,
	.stop = exec_stop,
	.list = exec_list_devices,
	.allocate = exec_allocate,
};
