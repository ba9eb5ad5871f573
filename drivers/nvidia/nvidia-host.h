/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An entry of `match` of driver "nvidia", and the GPUs that the kernel driver reports in
 * /proc/driver/nvidia. No library is needed for any of this.
 */

#include "drivers/host/scan.h"
#include "drivers/host/sysfs.h"
#include "drivers/model/declaration.h"

/* "GPU-" or "MIG-" and 36 characters. */
#define NVIDIA_UUID_SIZE 41

#define NVIDIA_NAME_SIZE    128
#define NVIDIA_VERSION_SIZE 32

/* Capability "mig/monitor": to see the instances of all GPUs. */
#define NVIDIA_MONITOR "/dev/nvidia-caps/nvidia-cap2"

enum nvidia_mig { NVIDIA_MIG_ANY, NVIDIA_MIG_NONE, NVIDIA_MIG_ONLY };
enum nvidia_expose { NVIDIA_EXPOSE_NODES, NVIDIA_EXPOSE_CDI, NVIDIA_EXPOSE_RUNTIME };

struct nvidia_match {
	struct origin origin;
	struct strings uuids, addresses, models, profiles; /* patterns */
	struct integers minors;
	int mig;    /* enum nvidia_mig */
	int expose; /* enum nvidia_expose */
	bool libraries;
	char *library_path; /* in the container */
	char *driver_root;  /* NULL: searched for */
	char *cdi_kind;
	char *permissions;
};

/* A compute instance of a GPU that is split (MIG): the unit that a container gets. */
struct nvidia_instance {
	unsigned gi, ci;         /* numbers of the GPU instance and the compute instance */
	unsigned gi_cap, ci_cap; /* N of /dev/nvidia-caps/nvidia-capN for each */
	struct device *device;   /* that an entry made of it; the scan's */
};

struct nvidia_gpu {
	char address[PCI_ADDRESS_SIZE];
	char uuid[NVIDIA_UUID_SIZE]; /* empty: the driver does not know it yet */
	char model[NVIDIA_NAME_SIZE];
	unsigned minor;  /* N of /dev/nvidiaN */
	bool excluded;   /* the driver leaves it alone (NVreg_ExcludedGpus) */
	uint64_t period; /* changes when the driver is loaded again, or the GPU is removed and found
			    again */
	struct nvidia_instance *instances;
	size_t n_instances;
	bool is_split;  /* it has GPU instances, possibly without compute instances */
	bool was_split; /* it had instances in this period; set by nvidia.c */
	struct device *device;
};

/* Kinds of nodes, each with a major number of its own. */
enum nvidia_node { NVIDIA_NODE_GPU, NVIDIA_NODE_UVM, NVIDIA_NODE_CAPABILITY, NVIDIA_NODE_KINDS };

struct nvidia_host {
	char version[NVIDIA_VERSION_SIZE];  /* of the kernel driver; empty: it is not loaded */
	unsigned majors[NVIDIA_NODE_KINDS]; /* of nodes, from /proc/devices; 0: not known */
	struct nvidia_gpu *gpus;            /* by address */
	size_t n_gpus;
};

/* Reads all GPUs, and scans again when the driver or a GPU is added or removed. Without a driver
 * there are none. Returns 0 or negative errno with the error filled; the caller frees `host` in any
 * case. */
int nvidia_host_read(struct scan *scan, struct nvidia_host *host, struct error *error);
void nvidia_host_done(struct nvidia_host *host);

/* Explains for each entry of `match` why there is no GPU, as far as it can be seen. */
void nvidia_explain_none(const struct declaration *declaration, struct scan *scan);

/* Opens, and closes again, the node that a process without privilege needs to see instances.
 * Returns 0 or negative errno. */
int nvidia_try_monitor(const struct scan *scan);

/* --- nvidia-libraries.c --- */

/* Where the driver's user space is. */
struct nvidia_libraries {
	const char *root;     /* "" or "/run/nvidia/driver": in front of all its paths */
	char *directory;      /* of the libraries; NULL: no library was found */
	struct strings names; /* of the libraries of the kernel driver's version, sorted */
	char other[NVIDIA_VERSION_SIZE]; /* a version that is there instead; or empty */
};

/* Finds the libraries; `driver_root` NULL: in the places where drivers are installed. Returns 0 or
 * -ENOMEM. */
int nvidia_libraries_find(struct scan *scan, const char *driver_root, const char *version,
	struct nvidia_libraries *ret);
void nvidia_libraries_done(struct nvidia_libraries *libraries);

/* Mounts each library under the names by which programs load it, and the tools, below a directory
 * of the container. Returns 0 or -ENOMEM. */
int nvidia_libraries_mount(struct scan *scan, const struct nvidia_libraries *libraries,
	const char *target, struct device *device);

/* The version of the driver that a library at the path belongs to, if it is one that has the
 * version in its name in every release: "/usr/lib64/libcuda.so.560.35.03". Returns whether it is.
 */
bool nvidia_library_version(const char *path, char ret_version[static NVIDIA_VERSION_SIZE]);

/* Path on the host of NVIDIA's management library, NULL if there is none. Returns 0 or -ENOMEM. */
int nvidia_library_find(struct scan *scan, const char *driver_root, char **ret_path);

/* --- nvidia-list.c --- */

struct nvidia_reports;

/* The conditions of an entry on a GPU. */
extern const struct conditions nvidia_conditions;

/* Adds those of the host's GPUs that the entries of `match` select. Returns 0 or negative errno
 * with the error filled. */
int nvidia_list(const struct declaration *declaration, struct scan *scan, struct nvidia_host *host,
	const struct nvidia_reports *reports, struct error *error);
