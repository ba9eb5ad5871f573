/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a device has enough for the amounts of all its claims. The scheduler sees to it; this
 * check is by hardware, independent of names and of how the device was offered when a claim was
 * allocated.
 */

#include <jansson.h>

#include "common/error.h"

/* `others`: an array of all other claims. Returns 0, or with the error filled -EBUSY, which names
 * the holders, -EINVAL if the claim alone exceeds a device, -EBADMSG if the claim has a device both
 * as a whole and by amount, or -ENOMEM. */
int dra_amounts_check(const json_t *claim, const json_t *others, struct error *error);
