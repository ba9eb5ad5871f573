/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The attributes that DRA or `metadata` publishes for a device: its place in the PCI tree, those
 * that the resource's configuration names, and the driver's permanent variables. A scan reads the
 * attributes that need the host, and the device keeps them.
 */

#include "drivers/host/scan.h"
#include "drivers/model/dra-attribute.h"

/* Adds to the devices of a scan the attributes that need the host, if any are published. A value
 * that cannot be published is explained (scan_explain()). Returns 0 or a shortage (sysroot.h). */
int published_attributes_add(const struct declaration *declaration, struct scan *scan);

typedef void (*published_attribute_handler)(
	const char *name, enum attribute_type type, const char *value, void *userdata);

/* Calls the handler for each attribute of the device. A name of the configuration replaces the
 * driver's variable. */
void published_attributes_each(const struct declaration *declaration, const struct device *device,
	published_attribute_handler handler, void *userdata);
