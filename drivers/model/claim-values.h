/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a claim determines of its devices, for templates and programs. A NULL member, or NULL
 * instead of the struct, stands for a container without a claim.
 */

#include "drivers/model/capacity.h"

struct claim_values {
	const struct strings *parameters; /* see parameters_read(); NULL: the defaults */
	const struct amounts *amounts;    /* of the devices; NULL: all of each device */
};
