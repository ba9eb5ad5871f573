/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and stops devplugd-nvml, which loads NVIDIA's library and reports the health of GPUs for a
 * probe "nvml". It runs while the kernel driver is loaded, and is restarted when the driver or the
 * GPUs change, because it holds handles of the old ones.
 */
#include "drivers/nvidia/nvml-process.h"

#include <inttypes.h>

#include "drivers/exec/exec-source.h"
#include "drivers/host/sysroot.h"

#define PROGRAM "devplugd-nvml"

struct nvml_process {
	struct driver_context context;
	const struct declared_probe *probe;
	struct exec_match program;
	struct exec_source *source; /* NULL: the process does not run */
	uint64_t target;            /* what it was started for */
	/* The reports of the process that this one replaces. If they are for the same target, they
	 * are used until this one answers. */
	struct exec_list *previous;
	uint64_t previous_target;
	struct strings replaced; /* see struct nvidia_reports; about `previous` */
	/* The process does not run until the release ends or the driver was loaded again. */
	bool released;
	uint64_t released_target; /* 0: not known yet */
	struct strings reset;     /* ids of devices that were reset, without an error since */
	bool blind;               /* it was started when it could not see instances */
};

const struct declared_probe *nvml_process_probe(const struct declaration *declaration)
{
	for (size_t i = 0; i < declaration->health.count; i++) {
		const struct declared_probe *probe = groups_get(&declaration->health, i);

		if (probe->kind == PROBE_NVML)
			return probe;
	}
	return NULL;
}

/* Beside this program, or where it is installed. Returns NULL without memory. */
static char *program_path(void)
{
	char self[PATH_MAX], *path = NULL;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = '\0';
		if (format_text(&path, "%.*s/" PROGRAM, (int)(strrchr(self, '/') - self), self) < 0)
			return NULL;
		if (access(path, X_OK) >= 0)
			return path;
		free(path);
	}
	return strdup(DEVPLUGD_LIBEXECDIR "/" PROGRAM);
}

static int add_word(struct nvml_process *nvml, const char *word)
{
	return strings_add(&nvml->program.command, word, strlen(word));
}

static void stop(struct nvml_process *nvml)
{
	nvml->source = exec_source_free(nvml->source);
	strings_done(&nvml->program.command);
	nvml->program.command = (struct strings){ 0 };
	nvml->target = 0;
}

/* Identifies the library at that path on the host. */
static int start(struct nvml_process *nvml, const char *library, uint64_t target)
{
	_cleanup_free_ char *program = program_path(), *argument = NULL, *resolved = NULL;
	const char *root = nvml->context.root;
	char interval[32];
	int r;

	/* The loader does not know the root, to which an absolute link leads. */
	r = sysroot_resolve(root, library, &resolved);
	(void)format_text(&argument, "%s%s", root, r < 0 ? library : resolved);
	if (!program || !argument)
		return -ENOMEM;
	(void)snprintf(interval, sizeof(interval), "%g",
		(double)nvml->probe->interval / (double)USEC_PER_SEC);
	nvml->program.mode = EXEC_WATCH;
	nvml->program.properties = PROPERTIES_VARIABLES;
	nvml->program.timeout = nvml->probe->hang_after;
	nvml->program.heartbeat = nvml->probe->interval + nvml->probe->hang_after;
	r = add_word(nvml, program);
	if (r >= 0)
		r = add_word(nvml, argument);
	if (r >= 0)
		r = add_word(nvml, interval);
	if (r >= 0)
		r = exec_source_new(nvml->context.event, &nvml->program, "",
			target == nvml->previous_target ? nvml->previous : NULL,
			nvml->context.changed, nvml->context.userdata, &nvml->source);
	if (r < 0)
		stop(nvml);
	return r;
}

/* Identifies the driver and GPUs of the process's handles, as a number that is not 0. */
static uint64_t make_target(const struct nvidia_host *host, const char *library)
{
	uint64_t target = hash_string(host->version) ^ hash_string(library);

	for (size_t i = 0; i < host->n_gpus; i++)
		target = (target ^ hash_string(host->gpus[i].address) ^ host->gpus[i].period) *
			0x100000001b3ULL;
	return target | 1;
}

/* Starts, restarts or stops the process as needed now. Returns 0 or -ENOMEM. */
static int start_or_stop(struct nvml_process *nvml, struct scan *scan,
	const struct nvidia_host *host, struct nvidia_reports *reports)
{
	const struct nvidia_match *match = groups_get(&nvml->context.declaration->match, 0);
	_cleanup_free_ char *library = NULL;
	uint64_t target;
	int r;

	if (host->n_gpus == 0) {
		nvml->released = false;
		stop(nvml);
		return 0;
	}
	r = nvidia_library_find(scan, match->driver_root, &library);
	if (r < 0)
		return r;
	if (!library) {
		stop(nvml);
		reports->knowledge = NVIDIA_NOTHING;
		(void)snprintf(reports->trouble, sizeof(reports->trouble),
			"libnvidia-ml.so.1 was not found: set \"driver_root\" to where NVIDIA's driver "
			"%s is installed",
			host->version);
		return 0;
	}
	target = make_target(host, library);
	if (nvml->released && nvml->released_target == 0)
		nvml->released_target = target;
	if (nvml->released && target == nvml->released_target)
		return 0;
	nvml->released = false;
	if (target == nvml->target)
		return 0;
	stop(nvml);
	nvml->blind = nvidia_try_monitor(scan) < 0;
	r = start(nvml, library, target);
	if (r >= 0)
		nvml->target = target;
	return r == -ENOMEM ? r : 0;
}

/* The last report stays in use until a new process answers. */
static void keep_list(struct nvml_process *nvml)
{
	struct exec_list *list = nvml->source ? exec_source_list(nvml->source) : NULL;

	if (!list || list == nvml->previous)
		return;
	(void)exec_list_unref(nvml->previous);
	strings_done(&nvml->replaced);
	nvml->previous = exec_list_ref(list);
	nvml->previous_target = nvml->target;
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

static bool has_instance(const struct nvidia_host *host, const struct device *report)
{
	const char *address = nvidia_report_property(report, "gpu");
	unsigned long gi, ci;

	if (!address || !nvidia_report_number(report, "gi", &gi) ||
		!nvidia_report_number(report, "ci", &ci))
		return true;
	for (size_t i = 0; i < host->n_gpus; i++)
		for (size_t k = 0; k < host->gpus[i].n_instances; k++)
			if (streq(host->gpus[i].address, address) &&
				host->gpus[i].instances[k].gi == gi &&
				host->gpus[i].instances[k].ci == ci)
				return true;
	return false;
}

/* Notes which instances of an earlier process's report the host does not have now. Returns 0 or
 * -ENOMEM. */
static int note_replaced(struct nvml_process *nvml, const struct nvidia_host *host)
{
	int r = 0;

	for (size_t i = 0; nvml->previous && i < nvml->previous->n_devices && r >= 0; i++)
		if (!has_instance(host, nvml->previous->devices[i]))
			r = strings_add_once(&nvml->replaced, nvml->previous->devices[i]->id);
	return r;
}

static void take_reports(
	struct nvml_process *nvml, const struct nvidia_host *host, struct nvidia_reports *reports)
{
	const struct exec_list *list = nvml->source ? exec_source_list(nvml->source)
		: nvml->released                    ? nvml->previous
						    : NULL;
	const char *failure = nvml->source ? exec_source_failure(nvml->source) : NULL;

	if (list) {
		reports->items = list->devices;
		reports->count = list->n_devices;
		reports->knowledge = NVIDIA_KNOWN;
		reports->rest_is_unopened = rest_is_unopened(host, reports);
		reports->replaced = list == nvml->previous ? &nvml->replaced : NULL;
	}
	if (nvml->source && exec_source_answered(nvml->source))
		reports->reset = &nvml->reset;
	if (failure)
		(void)snprintf(reports->trouble, sizeof(reports->trouble), "%s", failure);
	if (list &&
		nvidia_report_problem(
			reports, host->version, reports->trouble, sizeof(reports->trouble)))
		reports->knowledge = NVIDIA_NOTHING;
	else if (!list && (failure || nvml->released))
		reports->knowledge = NVIDIA_NOTHING;
	if (nvml->released)
		(void)snprintf(reports->trouble, sizeof(reports->trouble),
			"released: " PROGRAM " is started when the driver is loaded again, or with "
			"\"devplugctl resume %s\"",
			nvml->context.declaration->name);
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
static int check_monitor(struct nvml_process *nvml, struct scan *scan,
	const struct nvidia_host *host, struct nvidia_reports *reports)
{
	if (reports->knowledge != NVIDIA_KNOWN || !nvml->source || !lacks_instances(host, reports))
		return 0;
	reports->monitor = nvidia_try_monitor(scan);
	if (reports->monitor < 0 || !nvml->blind)
		return 0;
	keep_list(nvml);
	stop(nvml);
	return start_or_stop(nvml, scan, host, reports);
}

int nvml_process_report(struct nvml_process *nvml, struct scan *scan,
	const struct nvidia_host *host, struct nvidia_reports *reports)
{
	int r;

	if (!nvml->probe)
		return 0;
	reports->probe = nvml->probe;
	reports->knowledge = NVIDIA_AWAITED;
	r = start_or_stop(nvml, scan, host, reports);
	if (r >= 0)
		r = note_replaced(nvml, host);
	if (r < 0)
		return r;
	take_reports(nvml, host, reports);
	r = check_monitor(nvml, scan, host, reports);
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

/* A process that runs while a device is reset is replaced, because it counts errors from before. */
int nvml_process_release(struct nvml_process *nvml, bool released, const char *reset)
{
	int r = 0;

	if (*reset)
		r = strings_add_once(&nvml->reset, reset);
	if (released || *reset)
		keep_list(nvml);
	if (released != nvml->released)
		nvml->released_target = nvml->target;
	nvml->released = released;
	if (released || *reset)
		stop(nvml);
	return r;
}

struct nvml_process *nvml_process_free(struct nvml_process *nvml)
{
	if (!nvml)
		return NULL;
	stop(nvml);
	(void)exec_list_unref(nvml->previous);
	strings_done(&nvml->replaced);
	strings_done(&nvml->reset);
	free(nvml);
	return NULL;
}

static void take_reports_of(struct nvml_process *nvml, const struct nvml_process *before)
{
	if (before->source && exec_source_list(before->source)) {
		nvml->previous = exec_list_ref(exec_source_list(before->source));
		nvml->previous_target = before->target;
	} else if (before->previous) {
		nvml->previous = exec_list_ref(before->previous);
		nvml->previous_target = before->previous_target;
	}
}

int nvml_process_new(const struct driver_context *context, const struct nvml_process *before,
	struct nvml_process **ret)
{
	_cleanup_(nvml_process_freep) struct nvml_process *nvml = calloc(1, sizeof(*nvml));

	if (!nvml)
		return -ENOMEM;
	nvml->context = *context;
	nvml->probe = nvml_process_probe(context->declaration);
	if (before) {
		take_reports_of(nvml, before);
		nvml->released = before->released;
		nvml->released_target = before->released_target;
		if (strings_add_all(&nvml->reset, &before->reset) < 0 ||
			(nvml->previous == before->previous &&
				strings_add_all(&nvml->replaced, &before->replaced) < 0))
			return -ENOMEM;
	}
	*ret = TAKE_PTR(nvml);
	return 0;
}
