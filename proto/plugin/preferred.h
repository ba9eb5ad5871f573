/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Answers GetPreferredAllocation.
 */

#include "deviceplugin.pb-c.h"
#include "proto/plugin/offer.h"

/* Packs one answer for each container of the request (NULL: none), empty if the resource has no
 * preference or the request cannot be satisfied. Returns 0 or -ENOMEM. */
int preferred_pack(const struct offer *offer, const V1beta1__PreferredAllocationRequest *request,
	uint8_t **ret_data, size_t *ret_size);
