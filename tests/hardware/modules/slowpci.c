/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A PCI driver whose probe takes some seconds, like that of a card with slow firmware. The device's
 * lock is held meanwhile. */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/pci.h>

static int seconds = 40;
module_param(seconds, int, 0644);

static int slow_probe(struct pci_dev *device, const struct pci_device_id *id)
{
	msleep(seconds * 1000);
	return 0;
}

static void slow_remove(struct pci_dev *device)
{
}

static const struct pci_device_id none[] = { {} };

static struct pci_driver slow_driver = {
	.name = "slowpci",
	.id_table = none,
	.probe = slow_probe,
	.remove = slow_remove,
};
module_pci_driver(slow_driver);
MODULE_DESCRIPTION("PCI driver with a slow probe");
MODULE_LICENSE("GPL");
