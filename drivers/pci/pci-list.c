/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the devices of driver "pci": goes through the functions of the host, and makes devices of
 * those that an entry of `match` selects (pci-function.c). A table has, for each kind of access,
 * the events and directories that report a change.
 */
#include "drivers/host/sysroot.h"
#include "drivers/model/declaration.h"
#include "drivers/pci/pci.h"

/* Subsystems whose events are about nodes, in addition to "pci" itself, and directories where the
 * nodes are. */
static const struct {
	const char *subsystems[4];
	const char *directory;
	int (*list)(struct pci_scan *pci, const struct pci_match *match,
		const struct pci_function *function); /* NULL: not found by functions */
} ways[] = {
	[PCI_NODES] = { { "drm", "accel", "misc" }, NULL, pci_list_nodes },
	[PCI_VFIO] = { { "vfio" }, "/dev/vfio", pci_list_vfio },
	[PCI_VFIO_CDEV] = { { "vfio-dev" }, "/dev/vfio/devices", pci_list_vfio },
	[PCI_UIO] = { { "uio" }, NULL, pci_list_uio },
	[PCI_MDEV] = { { "mdev" }, PCI_MDEVS, NULL },
	/* The node's device has no events of its own: its driver is bound to the vDPA device. */
	[PCI_VDPA] = { { "vdpa" }, NULL, pci_list_vdpa },
};

/* Starts watching before it reads anything. */
static int watch(struct pci_scan *pci)
{
	int r;

	r = scan_watch(pci->scan, PCI_DEVICES);
	if (r >= 0)
		r = scan_events(pci->scan, "pci");
	for (size_t i = 0; i < pci->declaration->match.count && r >= 0; i++) {
		const struct pci_match *match = groups_get(&pci->declaration->match, i);
		const char *directory = ways[match->access].directory;
		const char *const *subsystems = ways[match->access].subsystems;

		if (directory)
			r = scan_watch(pci->scan, directory);
		for (size_t k = 0; subsystems[k] && r >= 0; k++)
			r = scan_events(pci->scan, subsystems[k]);
	}
	return r;
}

static int list_functions(struct pci_scan *pci)
{
	_cleanup_strings_ struct strings addresses = { 0 };
	int r;

	r = sysfs_list(pci->root, PCI_DEVICES, &addresses);
	if (sysroot_is_absent(r))
		return 0;
	if (r < 0)
		return r;
	strings_sort(&addresses);
	for (size_t i = 0; i < addresses.count; i++) {
		const struct pci_match *match;
		struct pci_function function;

		r = pci_function_find(pci, addresses.items[i], NULL, &function, &match);
		if (r > 0)
			r = ways[match->access].list(pci, match, &function);
		if (r < 0)
			return r;
	}
	return 0;
}

static void pci_scan_done(struct pci_scan *pci)
{
	for (size_t i = 0; i < pci->n_folds; i++) {
		free(pci->folds[i].key);
		free(pci->folds[i].addresses);
	}
	free(pci->folds);
	free(pci->companions);
	map_done(&pci->vf_numbers);
	strings_done(&pci->addresses);
	strings_done(&pci->pf_interfaces);
	host_use_done(&pci->use);
}

int pci_list(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	_cleanup_(pci_scan_done) struct pci_scan pci = {
		.declaration = declaration,
		.scan = scan,
		.root = scan_root(scan),
		.use = { .scan = scan },
	};
	int r;

	r = watch(&pci);
	if (r >= 0)
		r = list_functions(&pci);
	if (r >= 0)
		r = pci_finish_folds(&pci);
	if (r >= 0)
		r = pci_list_mdevs(&pci);
	return r < 0 ? error_set(error, r, "cannot read PCI devices in /sys/bus: %s", strerror(-r))
		     : 0;
}
