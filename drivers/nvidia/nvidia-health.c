/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which faults make a GPU unhealthy, in this order: it is lost; its driver recommends a
 * recovery action; its rows cannot be remapped; it is not in its fabric. Each counts for as long as
 * it is reported. Where the driver does not report recovery actions (before 565, and on some
 * cards), Xid errors decide by NVIDIA's catalogue (docs.nvidia.com/deploy/xid-errors), until a
 * reset. The keys `fatal_xids` and `ignore_xids` override the catalogue; what applications cause
 * counts only if it is listed there.
 */
#include "drivers/nvidia/nvidia-health.h"

#include <inttypes.h>

#include "common/text.h"

/* --- the catalogue --- */

enum xid_action { XID_NOTHING, XID_RESET, XID_REBOOT, XID_HARDWARE, XID_SUPPORT };

/* Any code that is not listed: NVIDIA recommends to contact its support. */
static const struct {
	unsigned first, last;
	enum xid_action action;
} catalogue[] = {
	{ 8, 8, XID_NOTHING },
	{ 11, 11, XID_NOTHING },
	{ 13, 14, XID_NOTHING },
	{ 25, 25, XID_NOTHING },
	{ 31, 32, XID_NOTHING },
	{ 37, 41, XID_NOTHING },
	{ 43, 45, XID_NOTHING },
	{ 46, 46, XID_RESET },
	{ 48, 48, XID_RESET },
	{ 54, 54, XID_HARDWARE },
	{ 60, 60, XID_NOTHING },
	{ 62, 62, XID_RESET },
	{ 63, 63, XID_NOTHING },
	{ 64, 64, XID_RESET },
	{ 66, 72, XID_NOTHING },
	{ 74, 74, XID_RESET },
	{ 75, 77, XID_NOTHING },
	{ 78, 78, XID_HARDWARE },
	{ 79, 79, XID_REBOOT },
	{ 80, 80, XID_NOTHING },
	{ 82, 86, XID_NOTHING },
	{ 88, 89, XID_NOTHING },
	{ 92, 94, XID_NOTHING },
	{ 95, 95, XID_RESET },
	{ 96, 107, XID_NOTHING },
	/* NVIDIA's plugin ignores it. */
	{ 109, 109, XID_NOTHING },
	{ 110, 110, XID_RESET },
	{ 119, 120, XID_RESET },
	{ 121, 121, XID_NOTHING },
	{ 126, 135, XID_NOTHING },
	{ 136, 136, XID_RESET },
	{ 137, 137, XID_NOTHING },
	{ 139, 139, XID_NOTHING },
	{ 140, 140, XID_RESET },
	{ 141, 141, XID_NOTHING },
	{ 143, 150, XID_RESET },
	{ 151, 151, XID_REBOOT },
	/* 154 reports the recovery action. */
	{ 152, 154, XID_NOTHING },
	{ 155, 156, XID_RESET },
	{ 157, 157, XID_NOTHING },
	{ 158, 158, XID_RESET },
	{ 160, 160, XID_REBOOT },
	{ 161, 161, XID_NOTHING },
	{ 162, 162, XID_RESET },
	{ 168, 168, XID_NOTHING },
	{ 174, 174, XID_NOTHING },
	{ 176, 176, XID_NOTHING },
};

static const struct {
	unsigned number;
	const char *meaning;
} meanings[] = {
	{ 46, "the GPU stopped processing" },
	{ 48, "uncorrectable memory error" },
	{ 62, "internal controller halted" },
	{ 64, "row remapping failed" },
	{ 74, "NVLink error" },
	{ 79, "the GPU fell off the bus" },
	{ 94, "contained memory error" },
	{ 95, "uncontained memory error" },
	{ 110, "security fault" },
	{ 119, "the GPU's system processor does not answer" },
	{ 120, "error of the GPU's system processor" },
	{ 140, "uncorrectable memory error" },
};

static const char *meaning_of(unsigned xid)
{
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (meanings[i].number == xid)
			return meanings[i].meaning;
	return "error of NVIDIA's driver";
}

static enum xid_action action_of(unsigned xid)
{
	for (size_t i = 0; i < ARRAY_SIZE(catalogue); i++)
		if (xid >= catalogue[i].first && xid <= catalogue[i].last)
			return catalogue[i].action;
	return XID_SUPPORT;
}

static const char *remedy_of(enum xid_action action)
{
	static const char *const remedies[] = {
		[XID_NOTHING] = "reset the GPU",
		[XID_RESET] = "drain the GPU and reset it (nvidia-smi --gpu-reset)",
		[XID_REBOOT] = "reboot the host",
		[XID_HARDWARE] = "check the power cables and the firmware, then reset the GPU",
		[XID_SUPPORT] = "reset the GPU, and contact NVIDIA's support if it comes back",
	};

	return remedies[action];
}

/* --- reports --- */

const char *nvidia_report_property(const struct device *report, const char *name)
{
	char variable[64];

	(void)snprintf(variable, sizeof(variable), "property:%s", name);
	return device_variable(report, variable);
}

bool nvidia_report_number(const struct device *report, const char *name, unsigned long *ret)
{
	const char *text = nvidia_report_property(report, name);

	if (!text_is_number(text))
		return false;
	*ret = strtoul(text, NULL, 10);
	return true;
}

static bool property_is(const struct device *report, const char *name, unsigned long value)
{
	unsigned long number;

	return nvidia_report_number(report, name, &number) && number == value;
}

const struct device *nvidia_report_of_gpu(const struct nvidia_reports *reports, const char *address)
{
	for (size_t i = 0; i < reports->count; i++)
		if (streq(reports->items[i]->id, address))
			return reports->items[i];
	return NULL;
}

const struct device *nvidia_report_of_instance(const struct nvidia_reports *reports,
	const char *address, const struct nvidia_instance *instance)
{
	for (size_t i = 0; i < reports->count; i++) {
		const struct device *report = reports->items[i];
		const char *gpu = nvidia_report_property(report, "gpu");

		if (gpu && streq(gpu, address) && property_is(report, "gi", instance->gi) &&
			property_is(report, "ci", instance->ci) &&
			!(reports->replaced && strings_contain(reports->replaced, report->id)))
			return report;
	}
	return NULL;
}

bool nvidia_mig_mode(
	const struct nvidia_reports *reports, const struct nvidia_gpu *gpu, bool *ret_enabled)
{
	const struct device *report = nvidia_report_of_gpu(reports, gpu->address);
	unsigned long mode;

	if (reports->knowledge != NVIDIA_KNOWN || !report ||
		!nvidia_report_number(report, "mig", &mode))
		return false;
	*ret_enabled = mode != 0;
	return true;
}

bool nvidia_report_problem(const struct nvidia_reports *reports, const char *kernel_version,
	char *ret_text, size_t size)
{
	enum { NO_PERMISSION = 4, NOT_LOADED = 9, BLOCKED = 17, MISMATCH = 18 };
	const struct device *library = nvidia_report_of_gpu(reports, "library");
	const char *call, *message, *remedy;
	unsigned long problem;

	if (!library || !nvidia_report_number(library, "problem", &problem))
		return false;
	call = nvidia_report_property(library, "call") ?: "";
	message = nvidia_report_property(library, "message") ?: "";
	switch (problem) {
	case NO_PERMISSION:
	case BLOCKED:
		remedy = "the service may not open the nodes of the GPUs: see DeviceAllow= in "
			 "devplugd.service, and the modes of /dev/nvidia*";
		break;
	case NOT_LOADED:
		remedy = "the driver is being loaded, or failed to start: see \"dmesg\"";
		break;
	case MISMATCH:
		remedy = "the library was upgraded while the old driver is loaded: load the new "
			 "one, or reboot the host";
		break;
	default:
		remedy = "see \"nvidia-smi\"";
		break;
	}
	(void)snprintf(
		ret_text, size, "%s with driver %s: %s; %s", call, kernel_version, message, remedy);
	return true;
}

/* --- errors --- */

bool nvidia_next_xid(
	const char **cursor, unsigned *ret_xid, int *ret_gi, unsigned long long *ret_count)
{
	char gi[8];
	int n = 0;

	if (sscanf(*cursor, " %u:%7[-0-9]:%llu%n", ret_xid, gi, ret_count, &n) < 3 || n == 0)
		return false;
	*ret_gi = *gi == '-' ? -1 : atoi(gi);
	*cursor += n;
	return true;
}

/* The last error that meets the condition, 0 if there is none. Errors of another GPU instance do
 * not count for this one. */
static unsigned last_xid(const struct declared_probe *probe, const struct device *report,
	const struct nvidia_instance *instance,
	bool (*counts)(const struct declared_probe *probe, unsigned xid))
{
	const char *cursor = nvidia_report_property(report, "xids") ?: "";
	unsigned long long count;
	unsigned xid, last = 0;
	int gi;

	while (nvidia_next_xid(&cursor, &xid, &gi, &count))
		if ((gi < 0 || !instance || (unsigned)gi == instance->gi) && counts(probe, xid))
			last = xid;
	return last;
}

static bool is_listed(const struct integers *integers, unsigned xid)
{
	return integers->count > 0 && integers_admit(integers, (int64_t)xid);
}

static bool is_declared_fatal(const struct declared_probe *probe, unsigned xid)
{
	return is_listed(&probe->fatal_xids, xid);
}

static bool is_fatal(const struct declared_probe *probe, unsigned xid)
{
	return !is_listed(&probe->ignore_xids, xid) && action_of(xid) != XID_NOTHING;
}

/* --- findings --- */

static const char *const recovery_actions[] = {
	"nothing",
	"drain the GPU and reset it (nvidia-smi --gpu-reset)",
	"reboot the host",
	"stop the programs that share memory with it over NVLink; it then recovers or needs a reset",
	"drain the GPU and reset it (nvidia-smi --gpu-reset)",
	"recover the IMEX domain (restart nvidia-imex on its nodes)",
	"reset its PCI bus",
	"reboot the host",
};

static int find_recovery(const struct nvidia_reports *reports, const struct device *report,
	const struct nvidia_instance *instance, unsigned long action, struct device *device)
{
	const char *text = action < ARRAY_SIZE(recovery_actions) ? recovery_actions[action]
								 : "see \"nvidia-smi -q\"";
	unsigned xid = last_xid(reports->probe, report, instance, is_fatal);

	if (xid == 0)
		return device_set_finding(
			device, FINDING_BAD, "NVIDIA's driver recommends: %s", text);
	return device_set_finding(device, FINDING_BAD,
		"after Xid %u (%s), NVIDIA's driver recommends: %s", xid, meaning_of(xid), text);
}

static int find_xid(unsigned xid, struct device *device)
{
	return device_set_finding(device, FINDING_BAD, LASTING_FAULT "%u (%s): %s", xid,
		meaning_of(xid), remedy_of(action_of(xid)));
}

/* Returns 1 if there is a fault, 0 if not, or -ENOMEM. */
static int find_memory_fault(
	const struct nvidia_reports *reports, const struct device *report, struct device *device)
{
	int remapping = reports->probe->row_remapping, r = 0;

	if (remapping != REMAPPING_IGNORE && property_is(report, "remap_failure", 1))
		r = device_set_finding(
			device, FINDING_BAD, "memory rows could not be remapped: replace the GPU");
	else if (remapping == REMAPPING_PENDING && property_is(report, "remap_pending", 1))
		r = device_set_finding(device, FINDING_BAD,
			"a memory row waits to be remapped: drain the GPU and reset it");
	else
		return 0;
	return r < 0 ? r : 1;
}

static int find_fabric_fault(
	const struct nvidia_reports *reports, const struct device *report, struct device *device)
{
	enum { COMPLETE = 3 };
	unsigned long state, status = 0;
	int r;

	if (!reports->probe->fabric || !nvidia_report_number(report, "fabric_state", &state))
		return 0;
	(void)nvidia_report_number(report, "fabric_status", &status);
	if (state == COMPLETE && status == 0)
		return 0;
	r = device_set_finding(device, FINDING_BAD,
		"it has not joined the NVSwitch fabric (state %lu, status %lu): check that "
		"nvidia-fabricmanager runs, in the driver's version",
		state, status);
	return r < 0 ? r : 1;
}

static int find_lost(const struct nvidia_gpu *gpu, struct device *device)
{
	return device_set_finding(device, FINDING_BAD,
		"%s fell off the bus: reboot the host, or reseat the GPU", gpu->address);
}

static int find_unopened(
	const struct nvidia_reports *reports, const struct nvidia_gpu *gpu, struct device *device)
{
	const struct device *library = nvidia_report_of_gpu(reports, "library");
	const char *failure = library ? nvidia_report_property(library, "failure") : NULL;

	if (!failure)
		return find_lost(gpu, device);
	return device_set_finding(device, FINDING_BAD,
		"NVIDIA's library cannot open it: %s; see \"dmesg\", reset the GPU (nvidia-smi "
		"--gpu-reset), or reboot the host",
		failure);
}

/* Returns 1 if there is a fault that is reported for as long as it lasts, 0 if not, or -ENOMEM. */
static int find_present_fault(const struct nvidia_reports *reports, const struct device *report,
	const struct nvidia_gpu *gpu, const struct nvidia_instance *instance, struct device *device)
{
	unsigned long recovery;
	int r;

	if (property_is(report, "lost", 1))
		r = find_lost(gpu, device);
	else if (!instance && property_is(report, "mig", 1))
		r = device_set_finding(device, FINDING_BAD,
			"it is in MIG mode and has no instances: create some (nvidia-smi mig -cgi), or leave MIG mode (nvidia-smi -mig 0)");
	else if (nvidia_report_number(report, "recovery", &recovery) && recovery != 0)
		r = find_recovery(reports, report, instance, recovery, device);
	else {
		r = find_memory_fault(reports, report, device);
		return r != 0 ? r : find_fabric_fault(reports, report, device);
	}
	return r < 0 ? r : 1;
}

static void forget_reset(struct strings *reset, const char *id)
{
	for (size_t i = 0; reset && i < reset->count; i++)
		if (streq(reset->items[i], id)) {
			free(reset->items[i]);
			reset->items[i--] = reset->items[--reset->count];
		}
}

int nvidia_find(const struct nvidia_reports *reports, const struct nvidia_gpu *gpu,
	const struct nvidia_instance *instance, struct device *device)
{
	const struct device *report = nvidia_report_of_gpu(reports, gpu->address);
	bool knows_recovery;
	unsigned xid;
	int r;

	if (reports->knowledge == NVIDIA_UNASKED || reports->knowledge == NVIDIA_AWAITED)
		return 0;
	if (reports->knowledge == NVIDIA_KNOWN && !report && reports->rest_is_unopened)
		return find_unopened(reports, gpu, device);
	/* For a GPU that the library does not list, only the kernel's data count. */
	if (reports->knowledge == NVIDIA_NOTHING || !report) {
		device->finding = FINDING_UNKNOWN;
		return 0;
	}
	r = find_present_fault(reports, report, gpu, instance, device);
	if (r != 0)
		return r < 0 ? r : 0;
	knows_recovery = nvidia_report_property(report, "recovery");
	xid = last_xid(reports->probe, report, instance, is_declared_fatal);
	if (xid == 0 && !knows_recovery)
		xid = last_xid(reports->probe, report, instance, is_fatal);
	if (xid != 0) {
		forget_reset(reports->reset, device->id);
		return find_xid(xid, device);
	}
	device->finding = (reports->reset && strings_contain(reports->reset, device->id)) ||
			(knows_recovery && reports->probe->fatal_xids.count == 0)
		? FINDING_GOOD
		: FINDING_QUIET;
	return 0;
}

/* --- links --- */

static unsigned n_links(const struct device *report, const char *remote)
{
	const char *links = nvidia_report_property(report, "links") ?: "";
	size_t length = strlen(remote);

	for (const char *at = strstr(links, remote); at; at = strstr(at + length, remote))
		if ((at == links || at[-1] == ' ') && at[length] == '=')
			return (unsigned)strtoul(at + length + 1, NULL, 10);
	return 0;
}

unsigned nvidia_link_distance(
	const struct nvidia_reports *reports, const char *from, const char *to)
{
	enum { SWITCHED = 10, FARTHEST = 20, LINKS_MAX = 18 };
	const struct device *a = nvidia_report_of_gpu(reports, from);
	const struct device *b = nvidia_report_of_gpu(reports, to);
	unsigned n;

	if (!a || !b)
		return 0;
	n = n_links(a, to);
	if (n > 0)
		return FARTHEST - MIN_OF(n, (unsigned)LINKS_MAX);
	return n_links(a, "switch") > 0 && n_links(b, "switch") > 0 ? SWITCHED : 0;
}
