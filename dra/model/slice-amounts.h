/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Devices that claims share by amount, as ResourceSlices present them. How a device is offered
 * changes only while no claim holds it: the scheduler would otherwise allocate what a claim still
 * has.
 */

#include <jansson.h>

#include "common/util.h"

enum slice_use {
	SLICE_WHOLE,   /* one device, for one claim */
	SLICE_REPLICA, /* a device for each replica */
	SLICE_SHARE,   /* one device, of which claims get amounts */
	SLICE_PART,    /* a device for each default amount, for servers without such shares */
	_SLICE_USE_MAX,
};

/* The maximum number of parts of a device. */
#define SLICE_PARTS_MAX 1000

/* How the device of a report is offered to a server that lacks `lacks` (enum slice_lack), and how
 * many parts it has then. */
enum slice_use slice_use_of(const json_t *device, const char *driver, unsigned lacks);
size_t slice_part_count(const json_t *device, const char *driver);

/* How claims hold a device, in the form of struct dra_inventory_options. */
enum slice_use slice_use_of_held(const json_t *held);

/* The member `capacity` of a device in a slice, a new reference; NULL: it has none, or no memory.
 */
json_t *slice_capacity(const json_t *device, const char *driver, enum slice_use use);

/* And that of a device that is only held: claims have all of it. */
json_t *slice_capacity_held(const json_t *held);

/* What a claim of the device needs to know: {NAME: amount} of the whole device, and of a part. New
 * references; NULL: no memory. */
json_t *slice_totals(const json_t *device, const char *driver);
json_t *slice_part_amounts(const json_t *device, const char *driver);
