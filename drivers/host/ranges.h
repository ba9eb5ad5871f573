/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ranges of numbers as an administrator writes them: "0-3,5". Every driver with a key `functions`
 * uses them for a device's functions.
 */

#include "common/error.h"

/* For the `check` member of options: numbers and ranges from 0 to 4294967295, without spaces. */
int ranges_check(const char *value, struct error *error);

/* Whether the number is in ranges that were checked. */
bool ranges_contain(const char *ranges, int64_t number);
