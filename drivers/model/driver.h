/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The contract of a driver: a const table that defines the keys of a match entry and how the host
 * is scanned for devices. A driver reports the devices that exist now. The core implements health,
 * sharing, templates, allocation, preference and the protocol for all drivers.
 */

#include <systemd/sd-event.h>

#include "common/error.h"
#include "drivers/model/device.h"
#include "drivers/model/dra-attribute.h"
#include "drivers/model/option.h"

struct declaration;
struct scan;

/* A template variable that a driver sets for every device it can; the value is the device's
 * variable with that name. */
struct driver_variable {
	const char *name;
	const char *help; /* one sentence for the manual */
	/* DRA publishes the value: it is the same after a reboot, after the device was plugged in
	 * again, and after the kernel's driver was loaded again. No number that the kernel gives in
	 * the order in which it finds devices is. */
	bool permanent;
	const char *attribute;    /* its name there; NULL: as here */
	enum attribute_type type; /* and its type */
	bool capacity;            /* it is a capacity there, not an attribute */
	bool names_model;         /* devices of different models have different values */
};

/* The context of a driver with a state. */
struct driver_context {
	sd_event *event;
	const struct declaration *declaration;
	const char *root; /* as scan_root() */
	/* Has the core scan again soon. */
	void (*changed)(void *userdata);
	void *userdata;
};

/* See without_cdi() below. */
#define WITHOUT_NODES "it has no device nodes"

/* The mounts that the driver's devices add to the mounts of container.mounts. */
enum driver_mounts { DRIVER_NO_MOUNTS, DRIVER_MOUNTS_READ_ONLY, DRIVER_MOUNTS };

struct driver {
	const char *name;                 /* the value of `driver` */
	const char *summary;              /* one line for the manual */
	const struct option_table *match; /* keys of one entry of `match` */

	/* What it finds on the host, in the singular: "GPU"; where an entry of `match` has no
	 * candidate, the host has none. NULL: an entry is explained only by scan_hint(). */
	const char *noun;
	/* The tables of its conditions, NULL at the end; NULL: its entries have none. */
	const struct conditions *const *conditions;

	/* The driver's variables in addition to the core's; the last entry has no name. NULL: none.
	 * A variable with an argument is listed as "property:NAME"; a device has one variable for
	 * each argument with a value ("property:serial"). */
	const struct driver_variable *variables;

	/* The kind of probe (enum probe_kind) that reads what list() found (device_set_finding());
	 * 0: none. */
	int probe;

	/* Its devices never have a PCI address, so ${bdf} and the probe "pci" are refused. */
	bool without_pci;

	/* It executes programs, so its process must be allowed to (declaration_runs_programs()). */
	bool runs_programs;

	enum driver_mounts mounts;

	/* An administrator names the nodes of its devices, so the path of a node may be that of a
	 * directory, which stands for the nodes in it. */
	bool node_directories;

	/* The environment variable that its devices may set, as "NAME=", in addition to those of
	 * container.env. NULL: none, or with runs_programs any. */
	const char *environment;
	/* Lists what its devices set in it, as templates of "NAME=value". Returns 0 or -ENOMEM.
	 * NULL: that is not known without a device, or nothing. */
	int (*env)(const struct declaration *declaration, struct strings *ret_env);

	/* Check an entry of `match`, and all of them together, without touching the host:
	 * combinations of keys, limits, patterns. Add to the report. NULL: nothing to check. */
	void (*check_entry)(
		const struct declaration *declaration, size_t index, struct report *report);
	void (*check)(const struct declaration *declaration, struct report *report);

	/* Why the resource gets no CDI file by the key `cdi`, as a clause; NULL: it gets one,
	 * unless the core has a reason, see cdi-spec.c in configuration. A driver without this
	 * function has none. */
	const char *(*without_cdi)(const struct declaration *declaration);

	/* Lists what the declaration claims, without reading the host: a static id or a literal
	 * path. Two resources (or two entries) with the same claim are a configuration error unless
	 * both set overlap. Returns 0 or -ENOMEM. NULL: no claims are known before a scan. */
	int (*claims)(const struct declaration *declaration, struct strings *ret_claims);

	/* Lists the paths of a device of an entry of `match`: shell patterns of paths on the host,
	 * and as many paths in a container, as far as they are known without a scan. Returns 0 or
	 * -ENOMEM. NULL: no path is known. */
	int (*paths)(const struct declaration *declaration, size_t entry, struct strings *ret_hosts,
		struct strings *ret_paths);

	/* For a driver that learns of devices between scans, from programs or a library: called
	 * once, before the first list(). `previous` is the state of the inventory that this one
	 * replaces, or NULL. Its findings may be copied. The previous inventory works until it is
	 * stopped, and stays in use if the new one fails, so work that could conflict with it must
	 * begin only after the event loop runs again. Returns 0 or negative errno with the error
	 * filled. NULL: the driver has no state. */
	int (*start)(const struct driver_context *context, const void *previous, void **ret_state,
		struct error *error);
	/* Ends what start() began. Returns NULL. */
	void *(*stop)(void *state);

	/* For a driver that keeps devices open between scans: closes them all, and opens none until
	 * it is called with false or the kernel's driver was loaded again. Earlier findings stay
	 * valid, except with false: then the findings of the device `reset` (an id, empty: none)
	 * end, because it was reset. Returns 0 or -ENOMEM. NULL: nothing is kept open. */
	int (*release)(void *state, bool released, const char *reset);

	/* Finds all devices that exist now and adds them with scan_add(). It calls scan_watch() for
	 * a directory before it reads it, and scan_events() for a subsystem before it asks the
	 * kernel for devices, so that no change is lost between reading and watching. It asks
	 * scan_excludes() about each piece of hardware, before it joins several. A failure
	 * keeps the last good inventory. Returns 0 or negative errno with the error filled. */
	int (*list)(const struct declaration *declaration, struct scan *scan, struct error *error);

	/* For a driver whose entries of `match` may name a program to run at Allocate
	 * (allocation-inquiry.h): returns the program of an entry, or NULL. list() records for each
	 * device the entry that found it. Called on any thread. NULL: no program is ever run. */
	const struct allocate_program *(*allocate)(
		const struct declaration *declaration, size_t entry);
};

/* The driver of that name, or NULL. */
const struct driver *driver_find(const char *name);

/* All drivers, NULL-terminated, in the manual's order. */
extern const struct driver *const drivers[];

extern const struct driver drm_driver;
extern const struct driver net_driver;
extern const struct driver nvidia_driver;
extern const struct driver path_driver;
extern const struct driver pci_driver;
extern const struct driver rdma_driver;
extern const struct driver static_driver;
extern const struct driver exec_driver;
extern const struct driver sysfs_driver;
extern const struct driver usb_driver;

/* The name of the attribute under which DRA publishes the variable, or NULL. */
static inline const char *driver_variable_attribute(const struct driver_variable *variable)
{
	return variable->permanent && !variable->capacity ? variable->attribute ?: variable->name
							  : NULL;
}
