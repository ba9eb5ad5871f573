/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the reports of NVIDIA's library about GPUs, which its helper (nvml/) writes, and derives
 * the health of a device. The reports are the only state.
 */

#include "drivers/nvidia/nvidia-host.h"

/* How much is known from the library. */
enum nvidia_knowledge {
	NVIDIA_UNASKED, /* the resource has no probe "nvml" */
	NVIDIA_AWAITED, /* the helper has not answered yet */
	NVIDIA_NOTHING, /* no report: `trouble` is the reason */
	NVIDIA_KNOWN,
};

struct nvidia_reports {
	enum nvidia_knowledge knowledge;
	const struct declared_probe *probe; /* NULL: NVIDIA_UNASKED */
	bool rest_is_unopened; /* the library could not open as many GPUs as it does not list */
	/* Ids of devices that were reset: their lasting faults are over until there is another,
	 * which removes the id. NULL: none is known. */
	struct strings *reset;
	int monitor; /* why the library may not see instances, as negative errno; 0: it may */
	char trouble[320];
	/* Ids of instances whose reports are older than a scan that did not find them: there may be
	 * another instance of that number. NULL: none. */
	const struct strings *replaced;
	/* One for each GPU and each instance; properties are variables "property:NAME". */
	struct device *const *items;
	size_t count;
};

/* NULL: the library does not list it, or has not listed it since it was made. */
const struct device *nvidia_report_of_gpu(
	const struct nvidia_reports *reports, const char *address);
const struct device *nvidia_report_of_instance(const struct nvidia_reports *reports,
	const char *address, const struct nvidia_instance *instance);

/* A property of a report, or NULL. */
const char *nvidia_report_property(const struct device *report, const char *name);

/* Returns whether the property exists and is a number. */
bool nvidia_report_number(const struct device *report, const char *name, unsigned long *ret);

/* Describes why the helper had no data: its document contains a "library" with the problem. Returns
 * false if it does not. */
bool nvidia_report_problem(const struct nvidia_reports *reports, const char *kernel_version,
	char *ret_text, size_t size);

/* Whether the library reports if the GPU is in MIG mode; the kernel driver does not. */
bool nvidia_mig_mode(
	const struct nvidia_reports *reports, const struct nvidia_gpu *gpu, bool *ret_enabled);

/* Sets the finding of a device; `instance` NULL: a whole GPU. Returns 0 or -ENOMEM. */
int nvidia_find(const struct nvidia_reports *reports, const struct nvidia_gpu *gpu,
	const struct nvidia_instance *instance, struct device *device);

/* Takes the next of the errors of a report, "79:-:1 13:2:1000": number, GPU instance (-1: the whole
 * GPU) and count. Returns false at the end. */
bool nvidia_next_xid(
	const char **cursor, unsigned *ret_xid, int *ret_gi, unsigned long long *ret_count);

/* --- nvidia-measure.c --- */

/* Adds the numbers of a device for metrics, if the reports are new. An instance has the
 * numbers of its GPU, without errors of other instances. Returns 0 or -ENOMEM. */
int nvidia_measure(struct scan *scan, const struct nvidia_reports *reports,
	const struct nvidia_gpu *gpu, const struct nvidia_instance *instance,
	const struct device *device);

/* --- nvidia-health.c --- */

/* Distance of two GPUs by NVLink: 2 (18 links) to 19 (one link), 10 behind a switch, 0 if no link
 * is known. */
unsigned nvidia_link_distance(
	const struct nvidia_reports *reports, const char *from, const char *to);
