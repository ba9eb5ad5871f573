/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of driver "pci": a match entry as it was declared, and a function of the host as
 * /sys/bus/pci shows it (Documentation/ABI/testing/sysfs-bus-pci). Shared by pci.c (keys, checks),
 * pci-list.c (from functions to devices), pci-nodes.c (every way of access but VFIO), pci-vfio.c
 * (IOMMU groups), pci-device.c (the common parts of a device) and pci-function.c (reading a
 * function and finding its entry). Each of them uses only those after it.
 */

#include "common/map.h"
#include "drivers/host/host-use.h"
#include "drivers/host/selector.h"
#include "drivers/host/sysfs.h"
#include "drivers/model/form.h"

enum pci_access {
	PCI_NODES,
	PCI_VFIO,
	PCI_VFIO_CDEV,
	PCI_UIO,
	PCI_MDEV,
	PCI_VDPA,
};
enum pci_role { PCI_ROLE_ANY, PCI_ROLE_PF, PCI_ROLE_VF, PCI_ROLE_PLAIN };
enum pci_group_policy {
	PCI_GROUP_FOLD,
	PCI_GROUP_REFUSE,
	PCI_GROUP_IGNORE,
	PCI_GROUP_TOGETHER,
	PCI_GROUP_SLOT,
};

struct pci_match {
	struct origin origin;
	int access; /* enum pci_access */
	struct integers vendor, device, class;
	struct integers subsystem_vendor, subsystem_device;
	struct strings driver;    /* patterns */
	struct strings address;   /* patterns */
	int role;                 /* enum pci_role */
	struct strings pf;        /* patterns of its address or of its network interface */
	char *functions;          /* ranges, see drivers/host/ranges.h */
	int iommu_group;          /* enum pci_group_policy */
	struct strings nodes;     /* patterns; empty: all */
	struct groups attributes; /* struct attribute_rule */
	struct strings mdev_type;
	char *permissions;
};

#define PCI_DEVICES "/sys/bus/pci/devices"
#define PCI_MDEVS   "/sys/bus/mdev/devices"

struct pci_scan;

struct pci_function {
	struct pci_scan *pci;
	const struct pci_mdev *mdev; /* the device of it that is asked for; or NULL */
	char address[PCI_ADDRESS_SIZE];
	char directory[sizeof(PCI_DEVICES) + PCI_ADDRESS_SIZE];
	int64_t vendor, device, class;
	int64_t subsystem_vendor, subsystem_device; /* -1: not known */
	char driver[NAME_MAX + 1];                  /* "" if none is bound */
	char pf[PCI_ADDRESS_SIZE];                  /* of a virtual function; else "" */
	int64_t vf;                                 /* its number; -1: none */
	int64_t total_vfs; /* of a physical function: how many it can have */
	bool has_vfs;
	bool is_complete; /* all of this has been read */
};

/* A mediated device (Documentation/driver-api/vfio-mediated-device.rst). */
struct pci_mdev {
	char directory[sizeof(PCI_MDEVS) + NAME_MAX + 1];
	char type[NAME_MAX + 1];        /* "nvidia-233" */
	char name[SYSFS_VALUE_MAX + 1]; /* "GRID T4-2Q"; "" if it has none */
};

/* Functions of one IOMMU group, or of one slot, that make one device. */
struct pci_fold {
	char *key;             /* the group, or the address of the slot */
	struct device *device; /* the scan's */
	char *addresses;       /* of the functions, "," between them */
};

/* A function that is a device, but not offered while a container has another one of its group. */
struct pci_companion {
	char group[NAME_MAX + 1];
	struct device *device; /* the scan's */
};

/* One scan. */
struct pci_scan {
	const struct declaration *declaration;
	struct scan *scan;
	const char *root;
	/* Virtual function's address to its number + 1; and each physical function whose virtual
	 * functions are in it. The names are kept in `addresses`. */
	struct map vf_numbers;
	struct strings addresses;
	/* The physical function whose interfaces were read last, and those. */
	char pf[PCI_ADDRESS_SIZE];
	struct strings pf_interfaces;
	struct pci_fold *folds;
	size_t n_folds;
	struct pci_companion *companions;
	size_t n_companions;
	struct host_use use;
};

/* The conditions of an entry on a function, and on a mediated device. */
extern const struct conditions pci_conditions, pci_mdev_conditions;

/* Reads the function at an address of /sys/bus/pci, and finds the first entry that selects it; of a
 * mediated device that is one with access = "mdev", else (`mdev` NULL) another. Returns 1 with
 * both, 0 if there is none, the function was removed or `exclude` leaves it out, or negative
 * errno. */
int pci_function_find(struct pci_scan *pci, const char *address, const struct pci_mdev *mdev,
	struct pci_function *ret_function, const struct pci_match **ret_match);

/* Driver that is bound to the device in a directory; "" if none is. Returns 0 or negative errno. */
int pci_read_driver(
	struct pci_scan *pci, const char *directory, char ret_driver[static NAME_MAX + 1]);

/* Adds a device that is in a directory and belongs to a function. Returns 1, 0 if that id is there
 * already, or negative errno. */
int pci_add_device(struct pci_scan *pci, const char *id, const char *directory,
	const struct pci_function *function, struct device **ret_device);

/* The base class, the highest byte of a class. */
#define PCI_CLASS_BRIDGE 0x06

/* Writes what to do about a function (its address and directory) so that `wanted` is bound to it
 * instead of its driver, "" for none. A function that the host needs itself stays where it is, and
 * so does one whose driver waits for a type of virtual GPU. Returns 0 or -ENOMEM. */
#define PCI_REMEDY_MAX 200
int pci_describe_rebinding(struct pci_scan *pci, const char *address, const char *directory,
	const char *driver, const char *wanted, char ret_remedy[static PCI_REMEDY_MAX]);

/* Type of the virtual GPU that NVIDIA's driver has made of a virtual function; 0: none yet, -1: the
 * driver makes none of it (NVIDIA's "vGPU Software User Guide"). */
int64_t pci_read_vgpu_type(struct pci_scan *pci, const char *directory);

/* Finds the nodes of the devices below a directory, other functions aside. Returns 0 or negative
 * errno. */
int pci_find_nodes(struct pci_scan *pci, const char *directory, struct strings *ret_nodes);

/* Describes the device for ${info}: in addition to "generic", the group has "mount", and
 * "dev-mount" unless that is NULL. Returns 0 or -ENOMEM. */
int pci_add_info(
	struct device *device, const char *group, const char *mount, const char *dev_mount);

/* Describes to CNI plugins a network function that user space drives (device-info.h); does nothing
 * for others. `vdpa` is the name of its vDPA device and `path` the node of that; NULL: it has none.
 * Returns 0 or negative errno. */
int pci_add_network_info(struct device *device, const struct pci_function *function,
	const char *vdpa, const char *path);

/* Adds the device that a function is by one way of access. */
int pci_list_vfio(
	struct pci_scan *pci, const struct pci_match *match, const struct pci_function *function);
int pci_list_nodes(
	struct pci_scan *pci, const struct pci_match *match, const struct pci_function *function);
int pci_list_uio(
	struct pci_scan *pci, const struct pci_match *match, const struct pci_function *function);
int pci_list_vdpa(
	struct pci_scan *pci, const struct pci_match *match, const struct pci_function *function);

/* Adds the nodes of a VFIO group. */
int pci_add_group_nodes(
	struct device *device, const struct pci_match *match, const char *group, bool no_iommu);

/* Adds the mediated devices. */
int pci_list_mdevs(struct pci_scan *pci);

/* Completes the devices that are whole IOMMU groups or slots. */
int pci_finish_folds(struct pci_scan *pci);

/* Finds all devices of a declaration: the driver's list(). */
int pci_list(const struct declaration *declaration, struct scan *scan, struct error *error);
