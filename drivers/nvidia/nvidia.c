/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "nvidia" finds NVIDIA's GPUs, whole or split into instances (MIG). Only the kernel driver
 * is required: the GPUs come from /proc/driver/nvidia, see nvidia-host.c; nvidia-list.c builds what
 * a container gets. A probe "nvml" needs a program that loads NVIDIA's library, see nvml-process.c.
 */
#include "drivers/model/driver.h"
#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"
#include "drivers/nvidia/nvidia-health.h"
#include "drivers/nvidia/nvml-process.h"

/* A GPU that has had instances since the driver was loaded. */
struct split {
	char address[PCI_ADDRESS_SIZE];
	uint64_t period;
};

struct nvidia_state {
	struct nvml_process *nvml;
	struct split *splits;
	size_t n_splits;
};

static const char *const mig_choices[] = {
	[NVIDIA_MIG_ANY] = "any",
	[NVIDIA_MIG_NONE] = "none",
	[NVIDIA_MIG_ONLY] = "only",
	NULL,
};
static const char *const expose_choices[] = {
	[NVIDIA_EXPOSE_NODES] = "nodes",
	[NVIDIA_EXPOSE_CDI] = "cdi",
	[NVIDIA_EXPOSE_RUNTIME] = "runtime",
	NULL,
};

static const struct option nvidia_options[] = {
	{
		.key = "uuid",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct nvidia_match, uuids),
		.maximum = NAME_MAX,
		.help = "Patterns, as in a shell, of the UUID of the GPU: \"GPU-8dcd427f-*\".",
	},
	{
		.key = "bdf",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct nvidia_match, addresses),
		.maximum = NAME_MAX,
		.check = form_pci_address,
		.help = "Patterns, as in a shell, of the PCI address: \"0000:3b:00.0\".",
	},
	{
		.key = "model",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct nvidia_match, models),
		.maximum = NAME_MAX,
		.help = "Patterns, as in a shell, of the model's name: \"*A100*\".",
	},
	{
		.key = "minor",
		.type = OPTION_INTEGERS,
		.offset = offsetof(struct nvidia_match, minors),
		.maximum = 0xfffff,
		.help = "Numbers of the nodes, N of /dev/nvidiaN. They may change at a reboot.",
	},
	{
		.key = "mig",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct nvidia_match, mig),
		.choices = mig_choices,
		.default_integer = NVIDIA_MIG_ANY,
		.help = "Whole GPUs (\"none\"), instances of GPUs that are split (\"only\"), or both. A GPU "
			"that has instances is never offered whole.",
	},
	{
		.key = "profile",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct nvidia_match, profiles),
		.maximum = NAME_MAX,
		.help = "Patterns, as in a shell, of the profile of an instance: \"1g.10gb\". Only the "
			"library knows it, so a probe \"nvml\" is needed.",
	},
	{
		.key = "expose",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct nvidia_match, expose),
		.choices = expose_choices,
		.default_integer = NVIDIA_EXPOSE_NODES,
		.help = "How a container gets the GPU: the nodes and the driver's libraries "
			"(\"nodes\"), a name from the file that NVIDIA's container toolkit "
			"keeps (\"cdi\"), or NVIDIA_VISIBLE_DEVICES for NVIDIA's container "
			"runtime (\"runtime\").",
	},
	{
		.key = "libraries",
		.type = OPTION_BOOL,
		.offset = offsetof(struct nvidia_match, libraries),
		.default_integer = true,
		.help = "With \"nodes\": mount the libraries of the driver, and nvidia-smi. Set it to false "
			"if `container.mounts` or the images have them.",
	},
	{
		.key = "library_path",
		.type = OPTION_STRING,
		.offset = offsetof(struct nvidia_match, library_path),
		.maximum = 255,
		.default_string = "/usr/local/nvidia",
		.check = form_absolute_path,
		.help = "Directory in the container, with lib64 and bin below it. Images based on NVIDIA's search the default.",
	},
	{
		.key = "driver_root",
		.type = OPTION_STRING,
		.offset = offsetof(struct nvidia_match, driver_root),
		.maximum = 255,
		.check = form_absolute_path,
		.help = "Directory with the driver's libraries, and possibly a dev directory. If absent, the host, /run/nvidia/driver and /home/kubernetes/bin/nvidia are searched.",
	},
	{
		.key = "cdi_kind",
		.type = OPTION_STRING,
		.offset = offsetof(struct nvidia_match, cdi_kind),
		.default_string = "nvidia.com/gpu",
		.check = form_cdi_kind,
		.help = "With \"cdi\", the kind in the toolkit's file.",
	},
	PERMISSIONS_OPTION(struct nvidia_match),
};

static const struct option_table nvidia_match_table = {
	.name = "match entry",
	.shorthand = "model",
	.size = sizeof(struct nvidia_match),
	.options = nvidia_options,
	.count = ARRAY_SIZE(nvidia_options),
};

static const struct driver_variable nvidia_variables[] = {
	{ .name = "type", .help = "\"gpu\", or \"mig\" for an instance.", .permanent = true },
	{ .name = "uuid", .help = "UUID of the GPU or of the instance.", .permanent = true },
	{ .name = "gpu_uuid",
		.help = "UUID of the GPU that the instance is a part of, or of the GPU.",
		.permanent = true },
	{ .name = "parent_uuid",
		.help = "UUID of the GPU that the instance is a part of; no value for a GPU.",
		.permanent = true,
		.attribute = "parentUUID" },
	{ .name = "minor", .help = "N of /dev/nvidiaN." },
	{ .name = "model", .help = "Name of the model.", .permanent = true, .names_model = true },
	{ .name = "driver_version",
		.help = "Version of NVIDIA's kernel driver.",
		.permanent = true,
		.attribute = "driverVersion",
		.type = ATTRIBUTE_VERSION },
	{ .name = "gi", .help = "Number of the GPU instance (MIG).", .permanent = true },
	{ .name = "ci", .help = "Number of the compute instance within it.", .permanent = true },
	{ .name = "profile",
		.help = "Profile of the instance, such as 1g.10gb; needs a probe \"nvml\".",
		.permanent = true },
	{ 0 },
};

static void nvidia_check(const struct declaration *declaration, size_t index, struct report *report)
{
	const struct nvidia_match *match = groups_get(&declaration->match, index);

	if (match->profiles.count > 0 && !nvml_process_probe(declaration))
		(void)report_add(report, &match->origin, "profile",
			"needs a probe \"nvml\" in \"health\", because only NVIDIA's library knows it");
}

/* --- GPUs that were split --- */

static struct split *find_split(struct nvidia_state *state, const struct nvidia_gpu *gpu)
{
	for (size_t i = 0; i < state->n_splits; i++)
		if (streq(state->splits[i].address, gpu->address))
			return &state->splits[i];
	return NULL;
}

static int add_split(struct nvidia_state *state, const char *address, uint64_t period)
{
	struct split *split;
	int r = array_reserve((void **)&state->splits, state->n_splits, sizeof(*split));

	if (r < 0)
		return r;
	split = &state->splits[state->n_splits++];
	*split = (struct split){ .period = period };
	(void)snprintf(split->address, sizeof(split->address), "%s", address);
	return 0;
}

static int copy_splits(struct nvidia_state *state, const struct nvidia_state *before)
{
	int r = 0;

	for (size_t i = 0; i < before->n_splits && r >= 0; i++)
		r = add_split(state, before->splits[i].address, before->splits[i].period);
	return r;
}

/* Until the driver is loaded again, or the library reports that it has left MIG mode. */
static int note_splits(
	struct nvidia_state *state, struct nvidia_host *host, const struct nvidia_reports *reports)
{
	int r = 0;

	for (size_t i = 0; i < host->n_gpus && r >= 0; i++) {
		struct nvidia_gpu *gpu = &host->gpus[i];
		struct split *split = find_split(state, gpu);
		bool enabled;

		if (gpu->is_split && split)
			split->period = gpu->period;
		else if (gpu->is_split)
			r = add_split(state, gpu->address, gpu->period);
		else if (split &&
			(split->period != gpu->period ||
				(nvidia_mig_mode(reports, gpu, &enabled) && !enabled)))
			*split = state->splits[--state->n_splits];
		else
			gpu->was_split = split;
	}
	return r;
}

/* --- the driver --- */

static void *nvidia_stop(void *userdata)
{
	struct nvidia_state *state = userdata;

	state->nvml = nvml_process_free(state->nvml);
	free(state->splits);
	free(state);
	return NULL;
}

static int nvidia_release(void *userdata, bool released, const char *reset)
{
	struct nvidia_state *state = userdata;

	return nvml_process_release(state->nvml, released, reset);
}

static int nvidia_start(const struct driver_context *context, const void *previous,
	void **ret_state, struct error *error)
{
	const struct nvidia_state *before = previous;
	struct nvidia_state *state = calloc(1, sizeof(*state));

	if (!state)
		return error_set(error, -ENOMEM, "out of memory");
	if (nvml_process_new(context, before ? before->nvml : NULL, &state->nvml) < 0 ||
		(before && copy_splits(state, before) < 0)) {
		(void)nvidia_stop(state);
		return error_set(error, -ENOMEM, "out of memory");
	}
	*ret_state = state;
	return 0;
}

static int list(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	_cleanup_(nvidia_host_done) struct nvidia_host host = { 0 };
	struct nvidia_reports reports = { 0 };
	struct nvidia_state *state = scan_state(scan);
	int r;

	r = nvidia_host_read(scan, &host, error);
	if (r < 0)
		return r;
	r = state ? nvml_process_report(state->nvml, scan, &host, &reports) : 0;
	if (r >= 0 && state)
		r = note_splits(state, &host, &reports);
	if (r < 0)
		return error_set(error, r, "out of memory");
	return nvidia_list(declaration, scan, &host, &reports, error);
}

static const char *nvidia_without_cdi(const struct declaration *declaration)
{
	static const char *const reasons[] = {
		[NVIDIA_EXPOSE_NODES] = NULL,
		[NVIDIA_EXPOSE_CDI] = "match.expose is \"cdi\"",
		[NVIDIA_EXPOSE_RUNTIME] = "match.expose is \"runtime\"",
	};
	const char *reason = NULL;

	for (size_t i = 0; i < declaration->match.count && !reason; i++) {
		const struct nvidia_match *match = groups_get(&declaration->match, i);

		reason = reasons[match->expose];
	}
	return reason;
}

static int nvidia_env(const struct declaration *declaration, struct strings *ret_env)
{
	static const char *const texts[] = {
		[NVIDIA_EXPOSE_NODES] = "NVIDIA_VISIBLE_DEVICES=void",
		[NVIDIA_EXPOSE_CDI] = NULL,
		[NVIDIA_EXPOSE_RUNTIME] = "NVIDIA_VISIBLE_DEVICES=${uuid}",
	};
	int r = 0;

	for (size_t i = 0; i < declaration->match.count && r >= 0; i++) {
		const struct nvidia_match *match = groups_get(&declaration->match, i);
		const char *text = texts[match->expose];

		if (text && !strings_contain(ret_env, text))
			r = strings_add(ret_env, text, strlen(text));
	}
	return r;
}

const struct driver nvidia_driver = {
	.name = "nvidia",
	.summary = "NVIDIA GPUs and their MIG instances, without NVIDIA's container stack",
	.noun = "NVIDIA GPU",
	.conditions = (const struct conditions *const[]){ &nvidia_conditions, NULL },
	.match = &nvidia_match_table,
	.variables = nvidia_variables,
	.probe = PROBE_NVML,
	.mounts = DRIVER_MOUNTS_READ_ONLY,
	.environment = "NVIDIA_VISIBLE_DEVICES=",
	.env = nvidia_env,
	.check_entry = nvidia_check,
	.without_cdi = nvidia_without_cdi,
	.start = nvidia_start,
	.stop = nvidia_stop,
	.release = nvidia_release,
	.list = list,
};
