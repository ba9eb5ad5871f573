/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the reports of NVIDIA's library into numbers for metrics. A report that may be old is
 * ignored, because a metric that stays the same for hours would hide that nothing is measured.
 */
#include "drivers/host/scan.h"
#include "drivers/nvidia/nvidia-health.h"

static const struct {
	const char *property, *name;
} numbers[] = {
	{ "temperature", "gpu_temperature" },
	{ "power", "gpu_power" },
	{ "recovery", "gpu_recovery_action" },
	{ "remap_pending", "gpu_remap_pending" },
	{ "remap_failure", "gpu_remap_failure" },
	{ "remapped_correctable", "gpu_remapped_correctable" },
	{ "remapped_uncorrectable", "gpu_remapped_uncorrectable" },
	{ "dbe", "gpu_ecc_uncorrected" },
	{ "fabric_state", "gpu_fabric_state" },
};

/* Maximum number of different errors in a report; the helper keeps no more. */
#define XIDS_MAX 64

struct total {
	unsigned xid;
	unsigned long long count;
};

/* Errors of the whole GPU, and of the instance if there is one. Returns how many there are. */
static size_t add_up(const struct device *report, const struct nvidia_instance *instance,
	struct total totals[static XIDS_MAX])
{
	const char *cursor = nvidia_report_property(report, "xids") ?: "";
	unsigned long long count;
	size_t n = 0;
	unsigned xid;
	int gi;

	while (nvidia_next_xid(&cursor, &xid, &gi, &count)) {
		size_t i = 0;

		if (xid == 0 || (instance && gi >= 0 && (unsigned)gi != instance->gi))
			continue;
		while (i < n && totals[i].xid != xid)
			i++;
		if (i == XIDS_MAX)
			continue;
		if (i == n)
			totals[n++] = (struct total){ .xid = xid };
		totals[i].count += count;
	}
	return n;
}

static int measure_xids(struct scan *scan, const struct device *report,
	const struct nvidia_instance *instance, const char *id)
{
	struct total totals[XIDS_MAX];
	size_t n = add_up(report, instance, totals);
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		r = scan_measure(scan, id, "gpu_xids", totals[i].xid, totals[i].count);
	return r;
}

int nvidia_measure(struct scan *scan, const struct nvidia_reports *reports,
	const struct nvidia_gpu *gpu, const struct nvidia_instance *instance,
	const struct device *device)
{
	const struct device *report = nvidia_report_of_gpu(reports, gpu->address);
	bool monitored = reports->knowledge == NVIDIA_KNOWN && !*reports->trouble && report;
	unsigned long value;
	int r;

	if (reports->knowledge == NVIDIA_UNASKED)
		return 0;
	r = scan_measure(scan, device->id, "gpu_monitored", 0, monitored);
	if (!monitored)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(numbers) && r >= 0; i++)
		if (nvidia_report_number(report, numbers[i].property, &value))
			r = scan_measure(scan, device->id, numbers[i].name, 0, value);
	return r < 0 ? r : measure_xids(scan, report, instance, device->id);
}
