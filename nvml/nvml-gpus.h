/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Collects the library's reports about the GPUs, which each poll reads again, and the events since
 * the start.
 */

#include "nvml/nvml-library.h"

#define GPUS_MAX      64
#define INSTANCES_MAX 64
/* How many different Xids are kept for a GPU; the one that was seen longest ago is replaced. */
#define XIDS_MAX      64
#define UUID_MAX      96
#define NAME_MAX_KEPT 96
#define ADDRESS_MAX   20

struct xid {
	unsigned number;
	unsigned gi; /* UINT_MAX: of the whole GPU */
	unsigned long long count;
};

struct instance {
	char uuid[UUID_MAX];
	char profile[32];
	unsigned gi, ci;
};

/* A value that the library may not support. */
struct reading {
	bool known;
	unsigned long long value;
};

struct gpu {
	nvml_device device;
	char address[ADDRESS_MAX]; /* as in /sys: "0000:3b:00.0" */
	bool lost;
	bool needs_reset;
	struct reading recovery, remap_pending, remap_failure, remapped_correctable,
		remapped_uncorrectable, dbe;
	struct reading fabric_state, fabric_status;
	struct reading temperature, power;
	struct reading mig;
	struct instance instances[INSTANCES_MAX];
	unsigned n_instances;
	struct xid xids[XIDS_MAX]; /* the latest last */
	unsigned n_xids;
	char links[512]; /* "0000:86:00.0=4 switch=12" */
};

struct gpus {
	const struct nvml *nvml;
	struct gpu items[GPUS_MAX];
	unsigned count;
	/* Indices of the GPUs that could not be opened; they have no name. */
	unsigned unopened[GPUS_MAX];
	unsigned n_unopened;
	unsigned failure; /* why, if not because they are lost */
	unsigned n_polls;
	nvml_event_set events; /* NULL: there are none */
};

/* Opens all GPUs that can be opened, and subscribes to their events. Returns 0, or -EIO with the
 * error filled; `ret_result` is the library's result, and `ret_call` the call. */
int gpus_open(
	struct gpus *gpus, const struct nvml *nvml, unsigned *ret_result, const char **ret_call);

/* Reads all values that may change. Occasionally retries the GPUs that could not be opened. */
void gpus_poll(struct gpus *gpus);

/* Waits for an event, then reads it and all pending ones. Returns whether there was one; returns
 * false at once if events are not possible. */
bool gpus_wait(struct gpus *gpus, unsigned milliseconds);
