/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process devplugd-nvml of a resource, which runs only if the resource has a probe "nvml", the
 * host has GPUs and NVIDIA's library, and the devices are not released.
 */

#include "drivers/model/driver.h"
#include "drivers/nvidia/nvidia-health.h"

struct nvml_process;

/* The probe "nvml" of a resource; NULL: it has none. */
const struct declared_probe *nvml_process_probe(const struct declaration *declaration);

/* Starts nothing yet. Takes over the last reports and the release of `before`, the object of the
 * configuration that this one replaces, or NULL. Returns 0 or -ENOMEM. */
int nvml_process_new(const struct driver_context *context, const struct nvml_process *before,
	struct nvml_process **ret);

/* Starts, restarts or stops the process as needed now, and sets the reports to its last ones, or to
 * the reason why there are none. They are valid until the next call. Returns 0 or -ENOMEM. */
int nvml_process_report(struct nvml_process *nvml, struct scan *scan,
	const struct nvidia_host *host, struct nvidia_reports *reports);

/* See `release` of struct driver. Returns 0 or -ENOMEM. */
int nvml_process_release(struct nvml_process *nvml, bool released, const char *reset);

struct nvml_process *nvml_process_free(struct nvml_process *nvml);
DEFINE_CLEANUP(struct nvml_process *, nvml_process_free)
