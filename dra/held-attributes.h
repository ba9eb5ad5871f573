/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends the supervisor the attributes of the devices that claims hold, when they change: containers
 * read them in a file (supervisor/books/dra-metadata.h).
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "common/util.h"

struct held_attributes;

/* For the driver with that name, which outlives the object, and number. Returns 0 or negative
 * errno. */
int held_attributes_new(
	sd_event *event, const char *driver, uint64_t number, struct held_attributes **ret);

/* The devices now: `names` of struct dra_inventory, NULL: not known yet; `held`: see
 * struct dra_inventory_options. */
void held_attributes_set(
	struct held_attributes *attributes, const json_t *names, const json_t *held);

struct held_attributes *held_attributes_free(struct held_attributes *attributes);
DEFINE_CLEANUP(struct held_attributes *, held_attributes_free)
