/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "nvidia" finds NVIDIA's GPUs, whole or split into instances (MIG). Only the kernel driver
 * is required: the GPUs come from /proc/driver/nvidia, see nvidia-host.c; nvidia-list.c builds what
 * a container gets. A probe "nvml" needs a helper program, which loads NVIDIA's library and reports
 * health; this file starts and stops it. It runs while the driver is loaded, and is restarted when
 * the driver or the GPUs change, because it holds handles of the old ones.
 */
#include <inttypes.h>

#include "drivers/exec/exec-source.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/driver.h"
#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"
#include "drivers/nvidia/nvidia-health.h"

#define HELPER "devplugd-nvml"

/* A GPU that has had instances since the driver was loaded. */
struct split {
	char address[PCI_ADDRESS_SIZE];
	uint64_t period;
};

struct nvidia_state {
	struct driver_context context;
	const struct declared_probe *probe;
	struct exec_match program;
	struct exec_source *source; /* NULL: the helper does not run */
	uint64_t target;            /* what it was started for */
	/* The reports of the state that this one replaces. If they are for the same target, they
	 * are used until the helper answers. */
	struct exec_list *previous;
	uint64_t previous_target;
	/* The helper does not run until the release ends or the driver was loaded again. */
	bool released;
	uint64_t released_target; /* 0: not known yet */
	struct strings reset;     /* ids of devices that were reset, without an error since */
	bool blind;               /* the helper was started when it could not see instances */
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
	{ "uuid", "UUID of the GPU or of the instance." },
	{ "gpu_uuid", "UUID of the GPU that the instance is a part of, or of the GPU." },
	{ "minor", "N of /dev/nvidiaN." },
	{ "model", "Name of the model." },
	{ "driver_version", "Version of NVIDIA's kernel driver." },
	{ "gi", "Number of the GPU instance (MIG)." },
	{ "ci", "Number of the compute instance within it." },
	{ "profile", "Profile of the instance, such as 1g.10gb; needs a probe \"nvml\"." },
	{ 0 },
};

static const struct declared_probe *find_probe(const struct declaration *declaration)
{
	for (size_t i = 0; i < declaration->health.count; i++) {
		const struct declared_probe *probe = groups_get(&declaration->health, i);

		if (probe->kind == PROBE_NVML)
			return probe;
	}
	return NULL;
}

static void nvidia_check(const struct declaration *declaration, size_t index, struct report *report)
{
	const struct nvidia_match *match = groups_get(&declaration->match, index);

	if (match->profiles.count > 0 && !find_probe(declaration))
		(void)report_add(report, &match->origin, "profile",
			"needs a probe \"nvml\" in \"health\", because only NVIDIA's library knows it");
}

/* --- the helper --- */

/* Beside this program, or where it is installed. Returns NULL without memory. */
static char *helper_path(void)
{
	char self[PATH_MAX], *path = NULL;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = '\0';
		if (asprintf(&path, "%.*s/" HELPER, (int)(strrchr(self, '/') - self), self) < 0)
			return NULL;
		if (access(path, X_OK) >= 0)
			return path;
		free(path);
	}
	return strdup(DEVPLUGD_LIBEXECDIR "/" HELPER);
}

static int add_word(struct nvidia_state *state, const char *word)
{
	return strings_add(&state->program.command, word, strlen(word));
}

static void stop_helper(struct nvidia_state *state)
{
	state->source = exec_source_free(state->source);
	strings_done(&state->program.command);
	state->program.command = (struct strings){ 0 };
	state->target = 0;
}

/* Identifies the library at that path on the host. */
static int start_helper(struct nvidia_state *state, const char *library, uint64_t target)
{
	_cleanup_free_ char *helper = helper_path(), *argument = NULL, *resolved = NULL;
	const char *root = state->context.root;
	char interval[32];
	int r;

	/* The loader does not know the root, to which an absolute link leads. */
	r = sysroot_resolve(root, library, &resolved);
	if (asprintf(&argument, "%s%s", root, r < 0 ? library : resolved) < 0)
		argument = NULL;
	if (!helper || !argument)
		return -ENOMEM;
	(void)snprintf(interval, sizeof(interval), "%g",
		(double)state->probe->interval / (double)USEC_PER_SEC);
	state->program.mode = EXEC_WATCH;
	state->program.properties = PROPERTIES_VARIABLES;
	state->program.timeout = state->probe->hang_after;
	state->program.heartbeat = state->probe->interval + state->probe->hang_after;
	r = add_word(state, helper);
	if (r >= 0)
		r = add_word(state, argument);
	if (r >= 0)
		r = add_word(state, interval);
	if (r >= 0)
		r = exec_source_new(state->context.event, &state->program, "",
			target == state->previous_target ? state->previous : NULL,
			state->context.changed, state->context.userdata, &state->source);
	if (r < 0)
		stop_helper(state);
	return r;
}

/* Identifies the driver and GPUs of the helper's handles, as a number that is not 0. */
static uint64_t make_target(const struct nvidia_host *host, const char *library)
{
	uint64_t target = hash_string(host->version) ^ hash_string(library);

	for (size_t i = 0; i < host->n_gpus; i++)
		target = (target ^ hash_string(host->gpus[i].address) ^ host->gpus[i].period) *
			0x100000001b3ULL;
	return target | 1;
}

/* Starts, restarts or stops the helper as needed now. Returns 0 or -ENOMEM. */
static int direct_helper(struct nvidia_state *state, struct scan *scan,
	const struct nvidia_host *host, struct nvidia_reports *reports)
{
	const struct nvidia_match *match = groups_get(&state->context.declaration->match, 0);
	_cleanup_free_ char *library = NULL;
	uint64_t target;
	int r;

	if (host->n_gpus == 0) {
		state->released = false;
		stop_helper(state);
		return 0;
	}
	r = nvidia_library_find(scan, match->driver_root, &library);
	if (r < 0)
		return r;
	if (!library) {
		stop_helper(state);
		reports->knowledge = NVIDIA_NOTHING;
		(void)snprintf(reports->trouble, sizeof(reports->trouble),
			"libnvidia-ml.so.1 was not found: set \"driver_root\" to where NVIDIA's driver "
			"%s is installed",
			host->version);
		return 0;
	}
	target = make_target(host, library);
	if (state->released && state->released_target == 0)
		state->released_target = target;
	if (state->released && target == state->released_target)
		return 0;
	state->released = false;
	if (target == state->target)
		return 0;
	stop_helper(state);
	state->blind = nvidia_try_monitor(scan) < 0;
	r = start_helper(state, library, target);
	if (r >= 0)
		state->target = target;
	return r == -ENOMEM ? r : 0;
}

/* The last report stays in use until a new helper answers. */
static void keep_list(struct nvidia_state *state)
{
	struct exec_list *list = state->source ? exec_source_list(state->source) : NULL;

	if (!list)
		return;
	(void)exec_list_unref(state->previous);
	state->previous = exec_list_ref(list);
	state->previous_target = state->target;
}

/* A GPU that the library could not open has no name there. */
static bool rest_is_unopened(const struct nvidia_host *host, const struct nvidia_reports *reports)
{
	const struct device *library = nvidia_report_of_gpu(reports, "library");
	unsigned long n_unopened, n_missing = 0;

	for (size_t i = 0; i < host->n_gpus; i++)
		n_missing += !host->gpus[i].excluded &&
			!nvidia_report_of_gpu(reports, host->gpus[i].address);
	return library && nvidia_report_number(library, "unopened", &n_unopened) &&
		n_unopened == n_missing;
}

/* The helper's reports. */
static void take_reports(
	struct nvidia_state *state, const struct nvidia_host *host, struct nvidia_reports *reports)
{
	const struct exec_list *list = state->source ? exec_source_list(state->source)
		: state->released                    ? state->previous
						     : NULL;
	const char *failure = state->source ? exec_source_failure(state->source) : NULL;

	if (list) {
		reports->items = list->devices;
		reports->count = list->n_devices;
		reports->knowledge = NVIDIA_KNOWN;
		reports->rest_is_unopened = rest_is_unopened(host, reports);
	}
	if (state->source && exec_source_answered(state->source))
		reports->reset = &state->reset;
	if (failure)
		(void)snprintf(reports->trouble, sizeof(reports->trouble), "%s", failure);
	if (list &&
		nvidia_report_problem(
			reports, host->version, reports->trouble, sizeof(reports->trouble)))
		reports->knowledge = NVIDIA_NOTHING;
	else if (!list && (failure || state->released))
		reports->knowledge = NVIDIA_NOTHING;
	if (state->released)
		(void)snprintf(reports->trouble, sizeof(reports->trouble),
			"released: " HELPER " is started when the driver is loaded again, or with "
			"\"devplugctl resume %s\"",
			state->context.declaration->name);
}

static bool lacks_instances(const struct nvidia_host *host, const struct nvidia_reports *reports)
{
	for (size_t i = 0; i < host->n_gpus; i++)
		for (size_t k = 0; k < host->gpus[i].n_instances; k++)
			if (!host->gpus[i].excluded &&
				!nvidia_report_of_instance(reports, host->gpus[i].address,
					&host->gpus[i].instances[k]))
				return true;
	return false;
}

/* The node that shows instances may be made, or allowed, after the library was loaded, which may
 * try to open it only once. Returns 0 or -ENOMEM. */
static int check_monitor(struct nvidia_state *state, struct scan *scan,
	const struct nvidia_host *host, struct nvidia_reports *reports)
{
	if (reports->knowledge != NVIDIA_KNOWN || !state->source || !lacks_instances(host, reports))
		return 0;
	reports->monitor = nvidia_try_monitor(scan);
	if (reports->monitor < 0 || !state->blind)
		return 0;
	keep_list(state);
	stop_helper(state);
	return direct_helper(state, scan, host, reports);
}

static int ask_library(
	struct scan *scan, const struct nvidia_host *host, struct nvidia_reports *reports)
{
	struct nvidia_state *state = scan_state(scan);
	int r;

	if (!state || !state->probe)
		return 0;
	reports->probe = state->probe;
	reports->knowledge = NVIDIA_AWAITED;
	r = direct_helper(state, scan, host, reports);
	if (r < 0)
		return r;
	take_reports(state, host, reports);
	r = check_monitor(state, scan, host, reports);
	if (r < 0)
		return r;
	if (reports->knowledge == NVIDIA_AWAITED && host->n_gpus > 0)
		scan_incomplete(scan);
	if (*reports->trouble)
		scan_note(scan, "%s; %s", reports->trouble,
			reports->knowledge == NVIDIA_KNOWN
				? "the last report stays in use"
				: "the health of GPUs comes from the kernel alone");
	return 0;
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

	stop_helper(state);
	(void)exec_list_unref(state->previous);
	strings_done(&state->reset);
	free(state->splits);
	free(state);
	return NULL;
}

/* A helper that runs while a device was reset is replaced: it has errors from before. */
static int nvidia_release(void *userdata, bool released, const char *reset)
{
	struct nvidia_state *state = userdata;
	int r = 0;

	if (*reset && !strings_contain(&state->reset, reset))
		r = strings_add(&state->reset, reset, strlen(reset));
	if (released || *reset)
		keep_list(state);
	if (released != state->released)
		state->released_target = state->target;
	state->released = released;
	if (released || *reset)
		stop_helper(state);
	return r;
}

static int copy_reset(struct nvidia_state *state, const struct nvidia_state *before)
{
	int r = 0;

	for (size_t i = 0; i < before->reset.count && r >= 0; i++)
		r = strings_add(
			&state->reset, before->reset.items[i], strlen(before->reset.items[i]));
	return r;
}

/* The first list() starts the helper, if there is something to ask. */
static int nvidia_start(const struct driver_context *context, const void *previous,
	void **ret_state, struct error *error)
{
	const struct nvidia_state *before = previous;
	struct nvidia_state *state = calloc(1, sizeof(*state));

	if (!state)
		return error_set(error, -ENOMEM, "out of memory");
	state->context = *context;
	state->probe = find_probe(context->declaration);
	if (before && before->source && exec_source_list(before->source)) {
		state->previous = exec_list_ref(exec_source_list(before->source));
		state->previous_target = before->target;
	} else if (before && before->previous) {
		state->previous = exec_list_ref(before->previous);
		state->previous_target = before->previous_target;
	}
	if (before) {
		state->released = before->released;
		state->released_target = before->released_target;
	}
	if (before && (copy_splits(state, before) < 0 || copy_reset(state, before) < 0)) {
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
	int r;

	r = nvidia_host_read(scan, &host, error);
	if (r < 0)
		return r;
	r = ask_library(scan, &host, &reports);
	if (r >= 0 && scan_state(scan))
		r = note_splits(scan_state(scan), &host, &reports);
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

const struct driver nvidia_driver = {
	.name = "nvidia",
	.summary = "NVIDIA GPUs and their MIG instances, without NVIDIA's container stack",
	.match = &nvidia_match_table,
	.variables = nvidia_variables,
	.probe = PROBE_NVML,
	.names_by_list = true,
	.mounts = DRIVER_MOUNTS_READ_ONLY,
	.environment = "NVIDIA_VISIBLE_DEVICES=",
	.check_entry = nvidia_check,
	.without_cdi = nvidia_without_cdi,
	.start = nvidia_start,
	.stop = nvidia_stop,
	.release = nvidia_release,
	.list = list,
};
