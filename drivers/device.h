/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A device: one physical or named unit of a resource as a scan found it. Its id is stable over
 * reboots, printable and at most DEVICE_ID_MAX bytes; replicas are derived from it elsewhere.
 * Immutable, and shared between threads by reference, once the scan that made it is complete.
 */

#include <stdatomic.h>

#include "drivers/option.h"

/* The kubelet documents 63 characters and does not enforce it (deviceplugin/v1beta1/api.proto). */
#define DEVICE_ID_MAX 63

/* Room for a problem's sentence. */
#define DEVICE_PROBLEM_MAX 240

struct device_node {
	char *host;          /* path on the host */
	char *path;          /* path in the container */
	char permissions[4]; /* of "rwm"; empty for a mount */
	bool mount;          /* bind mount (directory, socket, file) instead of a device node */
	bool read_only;      /* mounts only */
	bool optional;       /* left out if the host lacks it when a container is given it */
	bool shared;         /* others need it, too: it does not tell whose the device is */
};

struct device_variable {
	char *name;
	char *value;
};

/* How far another device is, see device_add_distance(). */
struct device_distance {
	char *id;
	unsigned distance;
};

struct device {
	atomic_uint references;
	char *id;
	struct device_node *nodes;
	size_t n_nodes;
	int *numa; /* NUMA node numbers, ascending, without -1 */
	size_t n_numa;
	struct device_variable *variables; /* what templates may use beyond the core's */
	size_t n_variables;
	struct device_distance *distances; /* to devices that a driver knows links to */
	size_t n_distances;
	struct strings claims; /* what it is beyond its nodes, see device_add_claim() */
	atomic_bool *lent;     /* whether a container was given it; NULL: it cannot leave */
	char *anchor;          /* what stays on the host for as long as it exists; NULL: nothing */
	char *problem;         /* why it cannot be used although it is there; NULL: nothing known */
	/* What the device itself adds to its container; the configuration's own say wins. */
	struct strings env;         /* "NAME=value" */
	struct strings annotations; /* "name=value" */
	struct strings cdi;         /* "vendor.example/class=device" */
	size_t entry; /* of match, that it was found by: for struct driver's allocate */
	char *info;   /* of a network device: JSON for CNI plugins, see device-info.h; NULL: none */
};

/* Turns any bytes into an id: characters outside [A-Za-z0-9._:@+=-] become '-', and what was
 * changed, or is longer than DEVICE_ID_MAX, ends in a hash of the original so that ids stay
 * distinct. `ret_id` has room for DEVICE_ID_MAX + 1 bytes. */
void device_id_make(const char *text, char ret_id[static DEVICE_ID_MAX + 1]);

/* The same for a text whose characters stand for others of `original`: always ends in a hash of
 * that. */
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

/* Adds a NUMA node; -1 ("no affinity" in sysfs) and duplicates are ignored. */
int device_add_numa(struct device *device, int numa);
int device_add_variable(struct device *device, const char *name, const char *value);

/* Says how far the device with that id is, in a measure of the driver's: from 1 (parts of one chip)
 * to DISTANCE_MAX. For prefer = "links"; devices of which nothing is said are as far as their PCI
 * addresses are in the tree of buses, and always farther. */
#define DISTANCE_MAX 99
int device_add_distance(struct device *device, const char *id, unsigned distance);

/* Says that the device is there but of no use as it is ("bound to no driver"): it is listed as
 * unhealthy with that as the reason until a scan says otherwise. Of several problems the first is
 * kept. */
_printf_(2, 3) int device_set_problem(struct device *device, const char *format, ...);

/* Adds to a device that has nothing yet all that another has, except the id. Returns 0 or -ENOMEM.
 */
int device_copy(const struct device *from, struct device *device);

/* Name of the variable that says what the device is for ${info}: a JSON object in the form of the
 * SR-IOV network device plugin, as json_dumps() writes it with JSON_COMPACT | JSON_SORT_KEYS:
 * {"generic":{"deviceID":"0000:03:00.1"},"uio":{"mount":"/dev/uio0"}}. A device without it has
 * "generic" alone. */
#define DEVICE_INFO "info"

/* Says that the device may leave the host's view while a container has it, as a network interface
 * does that is moved to another namespace. One that was given to a container stays listed as it
 * was after it vanished, for as long as `anchor`, a path on the host, is there; NULL: until a scan
 * finds it again, or no container has it. Returns 0 or -ENOMEM. */
int device_set_mobile(struct device *device, const char *anchor);

/* Notes that a container is given the device, and tells whether one was; of devices that cannot
 * leave nothing is known. */
void device_note_lent(const struct device *device);
bool device_was_lent(const struct device *device);

/* Names the hardware behind a device, so that it is offered by one resource only, whichever driver
 * finds it and whatever its id: "pci:0000:03:00.0". Its nodes and mounts do that, too, but for
 * those that device_share_nodes() was told of. No two devices may have a claim in common, such as
 * ports of one card or parts of one GPU. */
int device_add_claim(struct device *device, const char *claim);

/* The nodes and mounts from `first` on are not the device's alone: a control node of a driver, or
 * those of devices that are also offered one by one. */
void device_share_nodes(struct device *device, size_t first);

/* The variable's value or NULL. */
const char *device_variable(const struct device *device, const char *name);

/* Whether two scans describe the same device: id, nodes, NUMA, variables, distances, claims,
 * problem, information, entry and what it adds to a container. */
bool device_equal(const struct device *a, const struct device *b);
