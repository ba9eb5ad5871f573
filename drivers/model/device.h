/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A device: one physical or named unit of a resource as a scan found it. Its id is stable over
 * reboots, printable and at most DEVICE_ID_MAX bytes; the ids of replicas are derived from it
 * (common/offered-id.h). Immutable, and shared between threads by reference, once the scan that
 * made it is complete.
 */

#include <stdatomic.h>

#include "common/offered-id.h"
#include "drivers/model/option.h"

/* Room for a problem's sentence. */
#define DEVICE_PROBLEM_MAX 240

struct device_node {
	char *host;          /* path on the host */
	char *path;          /* path in the container */
	char permissions[4]; /* of "rwm"; empty for a mount */
	bool mount;          /* bind mount (directory, socket, file) instead of a device node */
	bool read_only;      /* mounts only */
	bool optional;       /* left out if the host lacks it at Allocate */
	bool shared;         /* other devices need it, too, so it does not identify the device */
};

struct device_variable {
	char *name;
	char *value;
};

/* The distance to another device, see device_add_distance(). */
struct device_distance {
	char *id;
	unsigned distance;
};

/* The finding of a driver that monitors its devices, for the probe with the driver's name. */
enum device_finding {
	FINDING_NONE,    /* nothing, or nothing yet */
	FINDING_UNKNOWN, /* no result: the previous finding stands, if any */
	FINDING_QUIET,   /* no new fault; an earlier lasting fault may still be there */
	FINDING_GOOD,    /* no fault */
	FINDING_BAD,     /* a fault, named by the reason; a lasting one begins with LASTING_FAULT */
};

/* Such a fault ends when the driver finds the device healthy, not when it finds no new fault. */
#define LASTING_FAULT "Xid "

struct device {
	atomic_uint references;
	char *id;
	struct device_node *nodes;
	size_t n_nodes;
	int *numa; /* NUMA node numbers, ascending, without -1 */
	size_t n_numa;
	struct device_variable *variables; /* the driver's variables for templates */
	size_t n_variables;
	struct device_distance *distances; /* to devices with a link that the driver knows */
	size_t n_distances;
	char *whole; /* what only one container can use, see device_set_whole(); NULL: the device */
	struct strings claims; /* claims in addition to its nodes, see device_add_claim() */
	atomic_bool *assigned; /* whether it was allocated to a container; NULL: it cannot leave the
				  host's view */
	char *anchor;          /* a path that exists on the host for as long as the device does;
				  NULL: none */
	enum device_finding finding;
	char *finding_reason;    /* of FINDING_BAD */
	uint64_t finding_period; /* a change (a reset of the device) makes earlier findings
				    invalid */
	char *problem;   /* why it cannot be used although it exists; NULL: no problem is known */
	bool lacks_node; /* the problem, or one of several, is that, see device_set_lack() */
	char *absence;   /* why no container can get it, unless one has it; NULL: none, see
			    device_set_absence() */
	/* The device's own additions to its container; the configuration takes precedence. */
	struct strings env;         /* "NAME=value" */
	struct strings annotations; /* "name=value" */
	struct strings cdi;         /* "vendor.example/class=device" */
	size_t entry;        /* the entry of `match` that found it: for struct driver's allocate */
	uint64_t host_paths; /* a hash of what the host has at the paths that its containers get,
				see needs.h; files made for the device name these */
	/* What DRA publishes of it in addition to variables, as "NAME=value"; see
	 * published-attributes.h. */
	struct strings attributes;
	bool part;  /* of the PCI function ${bdf}, which other devices share */
	char *info; /* of a network device: JSON for CNI plugins, see device-info.h; NULL: none */
};

/* Turns any bytes into an id: characters outside [A-Za-z0-9._:@+=-] become '-', and an id that was
 * changed, or is longer than DEVICE_ID_MAX, ends in a hash of the original, so that ids stay
 * distinct. `ret_id` has room for DEVICE_ID_MAX + 1 bytes. */
void device_id_make(const char *text, char ret_id[static DEVICE_ID_MAX + 1]);

/* As device_id_make(), for a text that was derived from `original`: the id always ends in a hash of
 * `original`. */
void device_id_make_hashed(
	const char *text, const char *original, char ret_id[static DEVICE_ID_MAX + 1]);

/* Allocates a device with that id and one reference. */
int device_new(const char *id, struct device **ret);
struct device *device_ref(struct device *device);
struct device *device_unref(struct device *device);
DEFINE_CLEANUP(struct device *, device_unref)
#define _cleanup_device_ _cleanup_(device_unrefp)

/* Adds a node or mount; `path` NULL: as on the host. */
int device_add_node(
	struct device *device, const char *host, const char *path, const char *permissions);
int device_add_mount(struct device *device, const char *host, const char *path, bool read_only);

/* Whether the device has a node or mount of that path on the host. */
bool device_has_node(const struct device *device, const char *host);

/* Adds a NUMA node; -1 ("no affinity" in sysfs) and duplicates are ignored. */
int device_add_numa(struct device *device, int numa);
int device_add_variable(struct device *device, const char *name, const char *value);

/* Sets the distance to the device with that id, in a measure of the driver's: from 1 (parts of one
 * chip) to DISTANCE_MAX. For prefer = "links"; devices without a distance are compared by their PCI
 * addresses in the tree of buses, and always count as farther. */
#define DISTANCE_MAX 99
int device_add_distance(struct device *device, const char *id, unsigned distance);

/* Marks a device that exists but cannot be used ("bound to no driver"): it is listed as unhealthy
 * for that reason until a scan finds no problem. The first of several problems is kept. */
_printf_(2, 3) int device_set_problem(struct device *device, const char *format, ...);

/* As device_set_problem(), for a device that lacks a node, a mount or a name that a container
 * needs: no container gets it, not even one that has it and starts again. */
_printf_(2, 3) int device_set_lack(struct device *device, const char *format, ...);

/* Marks a device of which a part has left the host's view, as it does in a container: while no pod
 * has the device, it is listed as unhealthy for that reason. */
_printf_(2, 3) int device_set_absence(struct device *device, const char *format, ...);

/* Sets the finding of the driver's monitor. Returns 0 or -ENOMEM. */
_printf_(3, 4) int device_set_finding(
	struct device *device, enum device_finding finding, const char *format, ...);

/* Copies to an empty device all members of another, except the id. Returns 0 or -ENOMEM. */
int device_copy(const struct device *from, struct device *device);

/* Name of the variable that describes the device in ${info}: a JSON object in the form of the
 * SR-IOV network device plugin, as json_dumps() writes it with JSON_COMPACT | JSON_SORT_KEYS:
 * {"generic":{"deviceID":"0000:03:00.1"},"uio":{"mount":"/dev/uio0"}}. A device without it has
 * "generic" alone. */
#define DEVICE_INFO "info"

/* Marks a device that may leave the host's view while it is assigned to a container, such as a
 * network interface that is moved to another namespace. If it was allocated to a container, it
 * stays listed unchanged after it disappears, for as long as the path `anchor` exists on the host;
 * NULL: until a scan finds it again, or it is no longer assigned. Returns 0 or -ENOMEM. */
int device_set_mobile(struct device *device, const char *anchor);

/* Marks the device as allocated to a container. Does nothing for devices that cannot leave the
 * host's view. */
void device_note_assigned(const struct device *device);
bool device_was_assigned(const struct device *device);

/* Names what a container gets as a whole with any device that has the same name here, such as
 * "IOMMU group 12". While one of these devices is assigned to a container, others that are free are
 * not offered. Returns 0 or -ENOMEM. */
int device_set_whole(struct device *device, const char *name);

/* Names the hardware behind a device, such as "pci:0000:03:00.0", so that only one resource offers
 * it, independent of driver and id. Its nodes and mounts are claims, too, except those named by
 * device_share_nodes(). No two devices may have a claim in common, such as ports of one card or
 * parts of one GPU. */
int device_add_claim(struct device *device, const char *claim);

/* In front of a claim: not the device itself, but what it is a part of. */
#define MARK_CONTAINER '<'

/* Names the hardware that a device is a part of, in the same form: a virtual function is a part of
 * its physical function, an instance of a GPU a part of the GPU. Matters only where resources
 * exclude each other (overlap = "exclusive"). Returns 0 or -ENOMEM. */
int device_add_container(struct device *device, const char *claim);

/* The same, for a PCI function of that address. */
int device_add_pci_claim(struct device *device, const char *address);
int device_add_pci_container(struct device *device, const char *address);

/* The number of the device's claims: these, and its nodes that are not shared. */
size_t device_count_claims(const struct device *device);

/* Maximum numbers of claims, and of bytes in the text of drivers/inventory/hardware-claims.h, for
 * all resources together. */
#define CLAIMS_MAX       50000
#define CLAIMS_BYTES_MAX (8U << 20)

/* Marks the nodes and mounts from `first` on as shared with other devices: a control node of a
 * driver, or nodes of devices that are also offered one by one. */
void device_share_nodes(struct device *device, size_t first);

/* The variable's value or NULL. */
const char *device_variable(const struct device *device, const char *name);

/* Whether two scans describe the same device: id, nodes, NUMA, variables, distances, claims,
 * problem, absence, information, attributes, entry, what it adds to a container, and the host's
 * paths. */
bool device_equal(const struct device *a, const struct device *b);
