/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of the driver "drm": an entry of `match`, and the GPUs of the host.
 */

#include "drivers/drm/drm-kfd.h"
#include "drivers/host/scan.h"
#include "drivers/model/declaration.h"

#define PCI_DEVICES "/sys/bus/pci/devices"

/* The id of the device that `combine` makes. */
#define DRM_COMBINED_ID "all"

enum drm_nodes { DRM_NODES_ALL, DRM_NODES_RENDER, DRM_NODES_CARD };

struct drm_match {
	struct origin origin;
	struct integers vendors, models;
	struct strings drivers, addresses, partitions; /* patterns */
	int nodes;                                     /* enum drm_nodes */
	bool by_path, compute, split, combine;
	char *permissions;
};

/* "cpx_nps4" */
#define PARTITION_MAX 63

struct gpu {
	char *directory;                /* in /sys, without links */
	char address[PCI_ADDRESS_SIZE]; /* empty: not a PCI function, nor a part of one */
	char pf[PCI_ADDRESS_SIZE];      /* of which it is a virtual function; empty: none */
	bool on_bus; /* of another kind, such as USB: its name is a number of the kernel */
	char driver[NAME_MAX + 1];
	char partition[PARTITION_MAX + 1];
	int64_t vendor, model;      /* -1: none */
	bool split;                 /* its virtual functions are in use */
	char *card, *render;        /* nodes; NULL: it has none */
	const struct kfd_node *kfd; /* NULL: unknown to the compute driver */
	struct device *device;      /* that an entry made of it; the scan's */
	bool selected, excluded;    /* an entry has selected it; `exclude` leaves it out */
};

struct gpus {
	struct gpu *items;
	size_t count;
	struct kfd kfd;
};

/* Adds all GPUs of the class, and scans again on events. Returns 0 or negative errno with the error
 * filled; the caller frees `gpus` in any case. */
int gpus_find(struct scan *scan, struct gpus *gpus, struct error *error);
void gpus_done(struct gpus *gpus);

/* The conditions of an entry on a GPU. */
extern const struct conditions drm_conditions;

/* The driver's list(). */
int drm_list(const struct declaration *declaration, struct scan *scan, struct error *error);
